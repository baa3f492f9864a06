"""Which settings all arms of a comparison have alike, so that a difference of scores is the methods'."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from ...custom.components.component import TARGET
from ...custom.components.merging import KEPT, merged, value_at
from ...custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from ...custom.settings import RunSettings, SettingValues
from ...transforms.errors import did_you_mean
from ..reports.compared_settings import ComparedSettings, SettingDifference, StartWeights, Why, values_in_words
from ..wording.shell_words import shell_word
from .arms import PlannedArm
from .job import JobError, flat_settings, setting_names

START_WEIGHTS = "start_weights"
_NETWORK = "network"
_DATA = "embedded"
_START = "start weights"
_OTHER = "other settings of all methods"


class UnfairComparisonError(JobError):
    """Arms differ in more than their methods; the text names each setting with the value of each arm."""


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
    Topic("network", (_NETWORK,), "A larger network may score higher with any method."),
    Topic(
        _START,
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
_OF_SOME_METHODS: Mapping[str, JsonValue] = {"fraction": 1.0}

# How models become one without the settings that only some methods have.
_WITHOUT_SETTINGS_OF_AVERAGING: Mapping[str, JsonValue] = {"server_optimizer.name": "none", "drift_correction": "none"}

# What a network's settings have beside a class in MONAI's form.
_BESIDE_CLASS = frozenset(f"{_NETWORK}.{key}" for key in (*KEPT, "checkpoint"))

# Settings that are read only where another one has one of these values.
_READ_WITH: Mapping[str, tuple[str, tuple[JsonValue, ...]]] = {
    "training.momentum": ("training.optimizer", ("sgd",)),
    "training.nesterov": ("training.optimizer", ("sgd",)),
    "training.betas": ("training.optimizer", ("adam",)),
    "training.weight_decay": ("training.optimizer", ("adam", "sgd")),
    "training.learning_rate_steps": ("training.schedule", ("steps",)),
    "training.learning_rate_power": ("training.schedule", ("polynomial",)),
    "training.local_epochs": ("training.local_steps", (None,)),
    "training.patches_per_volume": ("network.spatial_dims", (3,)),
    "training.foreground_share": ("network.spatial_dims", (3,)),
    "final_rounds": ("final_model", ("mean_of_last",)),
    "patience": ("final_model", ("best",)),
    "aggregation.trim": ("aggregation.rule", ("trimmed_mean",)),
    "aggregation.byzantine": ("aggregation.rule", ("multi_krum",)),
    "aggregation.kept": ("aggregation.rule", ("multi_krum",)),
    "aggregation.smoothing": ("aggregation.rule", ("geometric_median",)),
    "aggregation.passes": ("aggregation.rule", ("geometric_median",)),
    "server_optimizer.learning_rate": ("server_optimizer.name", ("fedavgm", "fedadam", "fedyogi")),
    "server_optimizer.momentum": ("server_optimizer.name", ("fedavgm",)),
    "server_optimizer.betas": ("server_optimizer.name", ("fedadam", "fedyogi")),
    "server_optimizer.tau": ("server_optimizer.name", ("fedadam", "fedyogi")),
}


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
    result |= {name: values.get(name, without) for name, without in _OF_SOME_METHODS.items()}
    if settings.network.component is None:
        return result
    result = {key: value for key, value in result.items() if key in _BESIDE_CLASS or not covers([_NETWORK], key)}
    return result | {_NETWORK: settings.network.component.table()}


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
    return None if any(covers(topic.keys, key) for topic in FREE) else _OTHER


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
    known = [name for name in _general_names(settings) if topic_of(name) is not None] + [*_OF_SOME_METHODS]
    for key in allowed:
        if key != START_WEIGHTS and not covers(known, key):
            raise JobError(
                f"--allow-different {key}: a comparison holds no such setting alike{did_you_mean(key, known)} A "
                "method's own settings may differ anyway."
            )


@dataclass(frozen=True)
class _Found:
    """A difference, with the reason that declares it; None if there is none."""

    key: str
    values: dict[str, JsonValue]
    why: Why | None


def declared_differences(
    arms: Sequence[PlannedArm], settings: Mapping[str, RunSettings], allowed: Collection[str], *, data_given: bool
) -> list[SettingDifference]:
    """Return the settings that the arms do not have alike, each with what declares it.

    Args:
        arms: the arms, the reference first.
        settings: of each arm, by its name, as its runs will have them.
        allowed: keys that may differ.
        data_given: see :func:`held_values`.

    Raises:
        JobError: if a key cannot be allowed.
        UnfairComparisonError: if a difference is neither allowed, nor an arm's own setting, nor the method's choice.
    """
    check_allowed(allowed, settings[arms[0].name])
    found = _differences(arms, settings, allowed, data_given=data_given)
    if undeclared := [difference for difference in found if difference.why is None]:
        raise UnfairComparisonError(_refusal(arms, undeclared))
    return [
        SettingDifference(key=each.key, topic=_named_topic(each.key), values=each.values, why=each.why)
        for each in [*found, *_differences_of_aggregation(arms, settings)]
        if each.why is not None
    ]


def _named_topic(key: str) -> str:
    return AGGREGATION.name if covers(AGGREGATION.keys, key) else topic_of(key) or _OTHER


def _differences_of_aggregation(arms: Sequence[PlannedArm], settings: Mapping[str, RunSettings]) -> list[_Found]:
    """What arms differ in of how models become one; nobody has to declare it."""
    of_arms = {arm.name: aggregation_values(settings[arm.name]) for arm in arms}
    result = []
    for key in dict.fromkeys(key for values in of_arms.values() for key in values):
        values = {arm: of_arm[key] for arm, of_arm in of_arms.items() if key in of_arm and _is_read(key, of_arm)}
        if not _all_equal(values.values()) or 0 < len(values) < len(of_arms):
            is_own = any(covers(arm.own_keys, key) for arm in arms)
            result.append(_Found(key, values, "own setting" if is_own else "aggregation"))
    return result


def compared_settings(
    arms: Sequence[PlannedArm],
    settings: Mapping[str, RunSettings],
    seeds: Sequence[int],
    like: str | None,
    network: str | None,
    allowed: Collection[str],
    *,
    data_given: bool,
) -> ComparedSettings:
    """Return what the arms of a comparison have alike, and check that nothing differs that is not declared.

    Args:
        arms: see :func:`declared_differences`, also for `settings` and `allowed`.
        settings: as above.
        seeds: of the runs; the start weights of each are made and compared.
        like: the job whose settings the arms have; None for none.
        network: the place of a researcher's network; None for none.
        allowed: as above.
        data_given: see :func:`held_values`.

    Raises:
        JobError: if a key cannot be allowed, or a network cannot be built.
        DataError: if a start model cannot be used.
        UnfairComparisonError: if a setting or the start weights differ, and nothing declares it.
    """
    differences = declared_differences(arms, settings, allowed, data_given=data_given)
    alike = _same_network(arms, differences)
    # PyTorch, which commands that are refused before need not wait for.
    from ...custom.components.component import ComponentError  # noqa: PLC0415
    from .start_weights import compared_start_weights  # noqa: PLC0415

    try:
        start_weights = tuple(compared_start_weights(settings, alike, seed) for seed in seeds)
    except ComponentError as error:
        raise JobError(str(error)) from error
    if START_WEIGHTS not in allowed:
        for weights in start_weights:
            _check_equal(weights, arms[0].name)
    differing = {each.topic for each in differences}
    if len(alike) < len(arms) or not all(weights.are_equal for weights in start_weights):
        differing.add(_START)
    return ComparedSettings(
        like=like,
        network=network,
        alike=tuple(topic.name for topic in HELD if topic.name not in differing),
        differences=tuple(differences),
        start_weights=start_weights,
    )


def _same_network(arms: Sequence[PlannedArm], differences: Sequence[SettingDifference]) -> list[str]:
    """The arms whose network and start weights are the reference's by their settings."""
    decisive = [each.values for each in differences if each.topic in (_NETWORK, _START)]
    first = arms[0].name
    return [
        arm.name for arm in arms if all(_all_equal([values.get(arm.name), values.get(first)]) for values in decisive)
    ]


def _check_equal(weights: StartWeights, reference: str) -> None:
    if weights.are_equal:
        return
    hashes = "".join(f"\n  {arm}: sha256 {value}" for arm, value in weights.sha256.items())
    raise UnfairComparisonError(
        f"Expected the start weights of {reference} in all arms, since their settings of the network are equal, but "
        f"those of seed {weights.seed} differ in {weights.num_entries} common entries:{hashes}\nA network of your own "
        f"code must draw its weights by PyTorch alone. Or declare it: --allow-different {START_WEIGHTS}."
    )


def _differences(
    arms: Sequence[PlannedArm], settings: Mapping[str, RunSettings], allowed: Collection[str], *, data_given: bool
) -> list[_Found]:
    held = _with_one_form({arm.name: held_values(settings[arm.name], data_given=data_given) for arm in arms})
    own = {arm.name: arm.own_keys for arm in arms}
    decided = {arm.name: type(settings[arm.name]).without_recipe for arm in arms}
    result = []
    for key in dict.fromkeys(key for values in held.values() for key in values):
        values = {arm: found[key] for arm, found in held.items() if key in found and _is_read(key, found)}
        if _all_equal(values.values()):
            continue
        of_method = {arm for arm in values if key in decided[arm]}
        of_arm = {arm for arm in values if covers(own[arm], key)}
        why: Why | None = None
        if covers(allowed, key):
            why = "allowed"
        elif _all_equal(value for arm, value in values.items() if arm not in of_method | of_arm):
            why = "own setting" if of_arm else "method"
        result.append(_Found(key, values, why))
    return result


def _with_one_form(held: Mapping[str, SettingValues]) -> dict[str, SettingValues]:
    """Values of which each means the same in all arms: networks as wholes if one has MONAI's form; constant rates."""
    whole = any(_NETWORK in values for values in held.values())
    result = {}
    for arm, given in held.items():
        values = dict(given)
        if whole and _NETWORK not in values:
            inner = [key for key in values if key.startswith(f"{_NETWORK}.") and key not in _BESIDE_CLASS]
            values[_NETWORK] = {key.removeprefix(f"{_NETWORK}."): values.pop(key) for key in inner}
        # Steps that are nowhere leave the rate as it is.
        if values.get("training.schedule") == "steps" and not values.get("training.learning_rate_steps"):
            values["training.schedule"] = "constant"
        result[arm] = values
    return result


def _is_read(key: str, values: Mapping[str, JsonValue]) -> bool:
    other, allowed = _READ_WITH.get(key, ("", ()))
    return not other or values.get(other) in allowed


def _all_equal(values: Iterable[JsonValue]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) <= 1


def _refusal(arms: Sequence[PlannedArm], differences: Sequence[_Found]) -> str:
    lines = [f"  {each.key}: {values_in_words(each.values)}" for each in differences]
    names = list(dict.fromkeys(arm.name for arm in arms))
    return "\n".join(
        [
            f"{', '.join(names)} differ in more than their methods:",
            *lines,
            f"Give all arms the settings of one job with --like {shell_word(names[0])} or "
            f"--like {shell_word(names[-1])}; or change one with "
            "--set KEY=VALUE; or declare a difference with --allow-different KEY, or with --set ARM:KEY=VALUE.",
        ]
    )


def like_changes(
    like: RunSettings, arm: PlannedArm, of_set: Mapping[str, Any], *, name: str, data_given: bool
) -> SettingValues:
    """Return the changes that give an arm the settings of another job that a comparison holds alike.

    Channels, classes and dimensions follow from the data, in every arm by itself. What the arm's method decides itself
    stays as it is.

    Args:
        like: the settings of the other job.
        arm: the arm.
        of_set: the set of settings that goes before these changes.
        name: the other job's name, for an error.
        data_given: see :func:`held_values`.

    Raises:
        UnfairComparisonError: if the arm's job names a network in MONAI's form, and the other job does not.
    """
    own = arm.job.settings()
    current = merged(flat_settings(own.model_dump(mode="json")), of_set)
    has_class = any(key in current for key in (_NETWORK, f"{_NETWORK}.{TARGET}"))
    if has_class and like.network.component is None:
        raise UnfairComparisonError(
            f"--like {name}: its network is that of the settings, but {arm.name} names a class, which a change cannot "
            f"take back. Give all arms the class: --like {shell_word(arm.name)}."
        )
    skipped = {f"{_NETWORK}.{key}" for key in KEPT} | set(type(own).without_recipe)
    skipped |= set(_OF_SOME_METHODS) - set(setting_names(type(own)))
    wanted = {key: value for key, value in held_values(like, data_given=data_given).items() if key not in skipped}
    before = {key: value_at(_nested(current), key) for key in wanted}
    return {key: value for key, value in wanted.items() if not _all_equal([value, before[key]])}


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        *blocks, last = key.split(".")
        place = result
        for block in blocks:
            inner = place.get(block)
            place = place.setdefault(block, {}) if isinstance(inner, dict) or inner is None else place
        place[last] = value
    return result
