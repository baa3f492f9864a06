"""What gives an arm the settings of another job that a comparison holds alike."""

from collections.abc import Mapping
from typing import Any

from ...custom.components.component import TARGET
from ...custom.components.merging import KEPT, merged, value_at
from ...custom.settings import RunSettings, SettingValues
from ..wording.shell_words import shell_word
from .arm_differences import UnfairComparisonError, all_equal
from .arms import PlannedArm
from .fairness import NETWORK, OF_SOME_METHODS, held_values
from .job import flat_settings, setting_names


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
        data_given: see :func:`.fairness.held_values`.

    Raises:
        UnfairComparisonError: if the arm's job names a network in MONAI's form, and the other job does not.
    """
    own = arm.job.settings()
    current = merged(flat_settings(own.model_dump(mode="json")), of_set)
    has_class = any(key in current for key in (NETWORK, f"{NETWORK}.{TARGET}"))
    if has_class and like.network.component is None:
        raise UnfairComparisonError(
            f"--like {name}: its network is that of the settings, but {arm.name} names a class, which a change cannot "
            f"take back. Give all arms the class: --like {shell_word(arm.name)}."
        )
    skipped = {f"{NETWORK}.{key}" for key in KEPT} | set(type(own).without_recipe)
    skipped |= set(OF_SOME_METHODS) - set(setting_names(type(own)))
    wanted = {key: value for key, value in held_values(like, data_given=data_given).items() if key not in skipped}
    before = {key: value_at(_nested(current), key) for key in wanted}
    return {key: value for key, value in wanted.items() if not all_equal([value, before[key]])}


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
