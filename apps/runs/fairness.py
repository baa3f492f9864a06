"""Which settings all arms of a comparison have alike, so that a difference of scores is the methods'."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from ...custom.components.merging import KEPT, value_at
from ...custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from ...custom.settings import RunSettings, SettingValues
from ...transforms.errors import did_you_mean
from .job import JobError, flat_settings, setting_names

START_WEIGHTS = "start_weights"
NETWORK = "network"
_DATA = "embedded"
START = "start weights"
OTHER = "other settings of all methods"


@dataclass(frozen=True)
class Topic:
    """Settings that are held alike, or left to the methods, for one reason.

    Attributes:
        name: what they are of.
        keys: their dotted keys; a block stands for all settings of it that every method has.
        reason: why.
    """

    name: str
    keys: tuple[str, ...]
    reason: str


# What arms may differ in without declaring it, and what the head of a comparison names wherever it differs.
AGGREGATION = Topic(
    "aggregation",
    ("aggregation", "influence", "min_sites", "server_optimizer", "drift_correction"),
    "How models become one is what methods differ in.",
)

# What all arms have alike. A setting that every method has and that neither list names is held alike as well.
HELD = (
    Topic("network", (NETWORK,), "A larger network may score higher with any method."),
    Topic(
        START,
        ("start_model", "network.checkpoint"),
        "Runs of a seed are paired, so that the draw of the weights cancels in their difference.",
    ),
    Topic(
        "loss",
        ("training.loss", "training.class_weights", "training.proximal_weight"),
        "A loss that suits the data gains points with any method.",
    ),
    Topic(
        "optimizer",
        (
            "training.optimizer",
            "training.momentum",
            "training.nesterov",
            "training.betas",
            "training.weight_decay",
            "training.gradient_clipping",
            "training.keep_optimizer",
            "training.precision",
        ),
        "The same steps lead elsewhere with another optimizer.",
    ),
    Topic(
        "learning rate",
        (
            "training.learning_rate",
            "training.schedule",
            "training.learning_rate_steps",
            "training.learning_rate_power",
            "training.learning_rate_warmup",
        ),
        "A rate that falls calms the last rounds, whose scores are compared.",
    ),
    Topic(
        "length of training",
        ("rounds", "fraction", "training.local_epochs", "training.local_steps"),
        "More steps, more sites in a round, or more averages of the same steps, are more training.",
    ),
    Topic(
        "batches",
        ("training.batch_size", "training.patch", "training.patches_per_volume", "training.foreground_share"),
        "They decide what a step sees, and how many steps an epoch has.",
    ),
    Topic(
        "messages",
        ("update_precision", "model_precision"),
        "Rounded updates and models lead elsewhere with any method.",
    ),
    Topic("annotations", ("training.consensus",), "Another consensus of several annotators is other data."),
    Topic(
        "augmentation",
        ("training.augmentation", "training.augmentation_unit", "training.mirror_axes"),
        "It is more data.",
    ),
    Topic("data", (_DATA,), "Runs of a seed are paired on the same images; with a federation's folder it is not read."),
    Topic(
        "scoring",
        (
            *("inference", "inferer", "final_model", "final_rounds", "patience", "scored_rounds", "validate_every"),
            "nsd_tolerance",
        ),
        "The best round of one arm is not to be compared with the last one of another.",
    ),
)

# What belongs to a method, or to the computer. All settings that a method adds of its own belong to it, too, such as
# FedA³I's layer-wise weights, thresholds, and the length of a warm-up.
FREE = (
    Topic(
        "method",
        ("task", "method", "recipe", "blocks", "training.dice_loss_over"),
        "It is what is compared; a recipe counts by the values that it gives; blocks and the reported Dice loss are "
        "what methods weigh sites by.",
    ),
    AGGREGATION,
    Topic(
        "run",
        (
            "seed",
            "threads",
            "data",
            "data_required",
            "task_timeout",
            "grace_period",
            "task_process",
            "max_failed_rounds",
            "keep_rounds",
            "waiting_memory_mb",
            "resume_from",
        ),
        "The comparison gives seed and data; the others decide speed and what happens after errors.",
    ),
)

# What is held alike though not every method has it, with what a method without it does.
OF_SOME_METHODS: Mapping[str, JsonValue] = {"fraction": 1.0}

# How models become one without the settings that only some methods have.
_WITHOUT_SETTINGS_OF_AVERAGING: Mapping[str, JsonValue] = {"server_optimizer.name": "none", "drift_correction": "none"}

# What a network's settings have besides a class in MONAI's form.
WITH_CLASS = frozenset(f"{NETWORK}.{key}" for key in (*KEPT, "checkpoint"))


def held_values(settings: RunSettings, *, data_given: bool) -> SettingValues:
    """Return the settings of an arm that a comparison holds alike, by their dotted keys.

    A network in MONAI's form is one value, under the key ``network``.

    Args:
        settings: the arm's.
        data_given: whether the arms have a federation's folder, so that no generated images are described.

    Example:
        >>> held_values(FedAvgSettings(rounds=12), data_given=True)["rounds"]
        12
    """
    values = settings.model_dump(mode="json")
    names = [name for name in _general_names(settings) if topic_of(name) is not None]
    if data_given:
        names = [name for name in names if not covers([_DATA], name)]
    result: SettingValues = {name: value_at(values, name) for name in names}
    result |= {name: values.get(name, without) for name, without in OF_SOME_METHODS.items()}
    if settings.network.component is None:
        return result
    result = {key: value for key, value in result.items() if key in WITH_CLASS or not covers([NETWORK], key)}
    return result | {NETWORK: settings.network.component.table()}


def aggregation_values(settings: RunSettings) -> SettingValues:
    """Return how an arm makes one model of many, by dotted keys; a comparison names what differs of it.

    Example:
        >>> aggregation_values(FedAvgSettings())["server_optimizer.name"]
        'none'
    """
    values = flat_settings(settings.model_dump(mode="json"))
    own = {key: value for key, value in values.items() if covers(AGGREGATION.keys, key)}
    return {**_WITHOUT_SETTINGS_OF_AVERAGING, **own}


def topic_of(key: str) -> str | None:
    """Return the topic that a setting is held alike for; None if it is left to the methods.

    Example:
        >>> topic_of("training.learning_rate"), topic_of("aggregation.rule")
        ('learning rate', None)
    """
    exact = [topic for topic in HELD if key in topic.keys]
    for topic in (*exact, *(topic for topic in HELD if covers(topic.keys, key))):
        return topic.name
    return None if any(covers(topic.keys, key) for topic in FREE) else OTHER


def covers(keys: Iterable[str], name: str) -> bool:
    """Return whether keys name a setting, the block that it is in, or a part of it."""
    return any(key == name or name.startswith(f"{key}.") or key.startswith(f"{name}.") for key in keys)


def _general_names(settings: RunSettings) -> list[str]:
    """The settings that every method for the task has; a method's additions to its blocks are its own."""
    base = FedAvgSettings if settings.task == "segmentation" else ClassificationSettings
    own = set(setting_names(type(settings)))
    return [name for name in setting_names(base) if name in own]


def check_allowed(allowed: Collection[str], settings: RunSettings) -> None:
    """Check the settings that somebody allows to differ.

    Args:
        allowed: their dotted keys, or blocks; :data:`START_WEIGHTS` for the weights themselves.
        settings: of the reference.

    Raises:
        JobError: if a comparison does not hold such a setting alike.
    """
    known = [name for name in _general_names(settings) if topic_of(name) is not None] + [*OF_SOME_METHODS]
    for key in allowed:
        if key != START_WEIGHTS and not covers(known, key):
            raise JobError(
                f"--allow-different {key}: a comparison holds no such setting alike{did_you_mean(key, known)} A "
                "method's own settings may differ anyway."
            )
