"""In which settings the arms of a comparison differ, what declares each difference, and what is refused."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from ...custom.settings import RunSettings, SettingValues
from ..reports.compared_settings import ComparedSettings, SettingDifference, StartWeights, Why, values_in_words
from ..wording.shell_words import shell_word
from .arms import PlannedArm
from .fairness import (
    AGGREGATION,
    HELD,
    NETWORK,
    OTHER,
    START,
    START_WEIGHTS,
    WITH_CLASS,
    aggregation_values,
    check_allowed,
    covers,
    held_values,
    topic_of,
)
from .job import JobError

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
    "server_optimizer.learning_rate": ("server_optimizer.name", ("fedavgm", "fedadagrad", "fedadam", "fedyogi")),
    "server_optimizer.momentum": ("server_optimizer.name", ("fedavgm",)),
    "server_optimizer.betas": ("server_optimizer.name", ("fedadagrad", "fedadam", "fedyogi")),
    "server_optimizer.tau": ("server_optimizer.name", ("fedadagrad", "fedadam", "fedyogi")),
}


class UnfairComparisonError(JobError):
    """Arms differ in more than their methods; the text names each setting with the value of each arm."""


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
        data_given: see :func:`.fairness.held_values`.

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
    return AGGREGATION.name if covers(AGGREGATION.keys, key) else topic_of(key) or OTHER


def _differences_of_aggregation(arms: Sequence[PlannedArm], settings: Mapping[str, RunSettings]) -> list[_Found]:
    """What arms differ in of how models become one; nobody has to declare it."""
    of_arms = {arm.name: aggregation_values(settings[arm.name]) for arm in arms}
    result = []
    for key in dict.fromkeys(key for values in of_arms.values() for key in values):
        values = {arm: of_arm[key] for arm, of_arm in of_arms.items() if key in of_arm and _is_read(key, of_arm)}
        if not all_equal(values.values()) or 0 < len(values) < len(of_arms):
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
        data_given: see :func:`.fairness.held_values`.

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
        differing.add(START)
    return ComparedSettings(
        like=like,
        network=network,
        alike=tuple(topic.name for topic in HELD if topic.name not in differing),
        differences=tuple(differences),
        start_weights=start_weights,
    )


def _same_network(arms: Sequence[PlannedArm], differences: Sequence[SettingDifference]) -> list[str]:
    """The arms whose network and start weights are the reference's by their settings."""
    decisive = [each.values for each in differences if each.topic in (NETWORK, START)]
    first = arms[0].name
    return [
        arm.name for arm in arms if all(all_equal([values.get(arm.name), values.get(first)]) for values in decisive)
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
        if all_equal(values.values()):
            continue
        of_method = {arm for arm in values if key in decided[arm]}
        of_arm = {arm for arm in values if covers(own[arm], key)}
        why: Why | None = None
        if covers(allowed, key):
            why = "allowed"
        elif all_equal(value for arm, value in values.items() if arm not in of_method | of_arm):
            why = "own setting" if of_arm else "method"
        result.append(_Found(key, values, why))
    return result


def _with_one_form(held: Mapping[str, SettingValues]) -> dict[str, SettingValues]:
    """Values of which each means the same in all arms: networks as wholes if one has MONAI's form; constant rates."""
    whole = any(NETWORK in values for values in held.values())
    result = {}
    for arm, given in held.items():
        values = dict(given)
        if whole and NETWORK not in values:
            inner = [key for key in values if key.startswith(f"{NETWORK}.") and key not in WITH_CLASS]
            values[NETWORK] = {key.removeprefix(f"{NETWORK}."): values.pop(key) for key in inner}
        # Steps that are nowhere leave the rate as it is.
        if values.get("training.schedule") == "steps" and not values.get("training.learning_rate_steps"):
            values["training.schedule"] = "constant"
        result[arm] = values
    return result


def _is_read(key: str, values: Mapping[str, JsonValue]) -> bool:
    other, allowed = _READ_WITH.get(key, ("", ()))
    return not other or values.get(other) in allowed


def all_equal(values: Iterable[JsonValue]) -> bool:
    """Return whether values are equal as JSON holds them."""
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
