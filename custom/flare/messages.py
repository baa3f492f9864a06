"""What controllers and executors agree on besides the registered fields."""

# Header of a reply without a result: one of the codes fedannot.custom.refusals.REPORTED, never a file's or a case's
# name.
REFUSAL_HEADER = "fedannot_refusal"

# Header of such a reply in a simulation alone: fedannot.custom.refusals.error_fields of what went wrong.
ERROR_HEADER = "fedannot_error"

# NVFlare's name of every task that is a method's own, and in its meta which one it is: configurations list tasks by
# name, and are the same for all methods.
METHOD_TASK = "method_task"
TASK = "fedannot_task"

# Properties of a site's context: the task at hand by its own name, and the job's task and method, whose registered
# fields filters let pass.
TASK_AT_HAND = "fedannot_task_at_hand"
METHOD_AT_HAND = "fedannot_method_at_hand"

# Another one: the state dict that came with the task at hand, for filters of its result.
RECEIVED_MODEL = "fedannot_received_model"

# Another one: what the statistics of the result at hand are made of, for each such field a
# fedannot.custom.outbound.private_statistics.SampleValues.
SAMPLE_VALUES = "fedannot_sample_values"

# Another one: whether the task at hand took global random numbers of PyTorch, so that it cannot run in one process with
# others at the same time; None where it is not known.
GLOBAL_RNG_USED = "fedannot_global_rng_used"

# Another one: the fields of the answer at hand that follow neither from the received model nor from what it was used
# for; None where they are not known. A site whose updates are private sends them if the rest of its task fails.
FIELDS_WITHOUT_MODEL = "fedannot_fields_without_model"

# Two more: fields of the result at hand that a filter has given noise, and those that a filter has taken out because
# they have none, so that another filter may give it to them.
NOISY_FIELDS = "fedannot_noisy_fields"
WITHHELD_FIELDS = "fedannot_withheld_fields"

# Another one: a fedannot.custom.flare.at_hand.UpdateToSend, where the job asks for updates in fewer bits; else None.
UPDATE_TO_SEND = "fedannot_update_to_send"

# Another one, in a swarm: the number of sites that train.
SWARM_SITES = "fedannot_swarm_sites"
