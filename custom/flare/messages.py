"""What controllers and executors agree on beside the registered fields."""

# Header of a reply without a result: one of the short reasons below, never a file's or a case's name.
REFUSAL_HEADER = "fedannot_refusal"

NO_USABLE_DATA = "its data cannot be used; see the site's log"
TRAINING_FAILED = "its task failed; see the site's log"
MODEL_DOES_NOT_FIT = "the received model does not fit its network settings; see the site's log"
