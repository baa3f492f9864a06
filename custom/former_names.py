"""Names that settings and records had in earlier versions: read as the new ones, never written."""

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from ..transforms.strict_files import JsonObject

# Former name of a setting → its name. A job that uses a former name runs; a warning says once what to write.
FORMER_SETTINGS: dict[str, str] = {
    "anchor": "reference_level",
    "offset_floor": "min_boundary_bias",
    "missing_floor": "min_missed_fraction",
    "swapped_floor": "min_confused_fraction",
    "edge_error": "image_boundary_error",
    "undo": "correct",
    "shadow_rounds": "rollback_rounds",
    "min_predicted_share": "min_predicted_fraction",
    "surest": "confident_fraction",
}

# Setting, by its new name → former values → values.
FORMER_VALUES: dict[str, dict[str, str]] = {
    "unknown_images": {"distinct": "out_of_domain", "usual": "in_domain"},
    "correct": {"swapped": "confused"},
    "reference_level": {"edges": "image_boundary"},
    "treatment": {"undo": "correct"},
    "precision": {"full": "fp32", "mixed": "bf16"},
}

# Setting, by its new name → values of its list that do nothing any more: they are left out.
REMOVED_VALUES: dict[str, tuple[str, ...]] = {
    "correct": ("overshoot",),
}

# Former name of a stage, in records of rounds → its name.
FORMER_STAGES = {"undone": "corrected"}

# Former name of a field in a record, a summary or a state → its name. A table of words alone: a field counts as
# renamed where the record has no field of the former name and one of the new name.
OLD_FIELD_NAMES: dict[str, str] = {
    "judged_by": "predicted_by",
    "told": "informed",
    "established": "confirmed",
    "is_established": "is_confirmed",
    "undone_from_round": "corrected_from_round",
    "is_sure": "is_confident",
    "shadow": "rollback",
    "shadow_is": "rollback_is",
    "shadow_of": "rollback_of",
    "swapped": "confused",
    "undoes": "corrects",
}

# What a site of an earlier version reports of its failure, and records of earlier versions hold → the code.
FORMER_REFUSALS: dict[str, str] = {
    "its data cannot be used; see the site's log": "no_usable_data",
    "its data are of another kind than the job trains on; see the site's log": "data_do_not_fit",
    "its task failed; see the site's log": "task_failed",
    "the process of its task died or took too long; see the site's log": "process_died",
    "it does not know the task; is its fedannot of another version?": "task_not_known",
    "the received model does not fit its network settings; see the site's log": "model_does_not_fit",
    "its result was held back by the site's own policy; see the site's log": "held_back",
    "it has too few patients or samples for an update to leave it; see the site's log": "too_few_samples",
}

_WARNED: set[str] = set()


def with_current_fields(values: Any, fields: Collection[str]) -> Any:
    """Return the values of a record under the names that its fields have now; what is no mapping stays as it is.

    Args:
        values: as a file, a state or a message holds them.
        fields: names of the record's fields.

    Raises:
        ValueError: if a field has a value under its former name and one under its name.

    Example:
        >>> with_current_fields({"a": 1}, ["a"])
        {'a': 1}
    """
    return _renamed(values, fields, OLD_FIELD_NAMES)


def with_current_settings(values: Any, fields: Collection[str]) -> Any:
    """Return settings under the names and with the values that they have now; warn once of each former one.

    Args:
        values: of a block of settings.
        fields: names of the block's settings.

    Raises:
        ValueError: if a setting is given under its former name and under its name.
    """
    renamed = _renamed(values, fields, FORMER_SETTINGS, warn=True)
    if not isinstance(renamed, Mapping):
        return renamed
    former = [key for key in {**FORMER_VALUES, **REMOVED_VALUES} if key in renamed and key in fields]
    return {**renamed, **{key: _current_value(key, renamed[key]) for key in former}} if former else renamed


def current_stage(name: Any) -> Any:
    """Return the name of a stage by a name that it has or had; what is no text stays as it is."""
    return FORMER_STAGES.get(name, name) if isinstance(name, str) else name


def current_setting(key: str, known: Collection[str]) -> str:
    """Return the name of a setting by a name that it has or had; an unknown one stays as it is.

    Args:
        key: dotted, such as ``training.batch_size``.
        known: dotted keys of all settings.

    Example:
        >>> current_setting("anchor", ["rounds", "reference_level"])
        'reference_level'
        >>> current_setting("anchor", ["rounds", "anchor"])
        'anchor'
    """
    block, dot, name = key.rpartition(".")
    current = f"{block}{dot}{FORMER_SETTINGS.get(name, name)}"
    return current if key not in known and current in known else key


def has_former_names(keys: Collection[str]) -> bool:
    """Return whether any of some dotted keys may be the former name of a setting."""
    return any(key.rpartition(".")[2] in FORMER_SETTINGS for key in keys)


def with_current_keys(settings: Mapping[str, Any]) -> JsonObject:
    """Return a run's settings as a state or a summary keeps them under the names and with the values of now."""
    current = {FORMER_SETTINGS.get(key, key): value for key, value in settings.items()}
    return {
        key: with_current_keys(value) if isinstance(value, Mapping) else _current_value(key, value, warn=False)
        for key, value in current.items()
    }


def _renamed(values: Any, fields: Collection[str], names: Mapping[str, str], *, warn: bool = False) -> Any:
    if not isinstance(values, Mapping):
        return values
    former = {key: names[key] for key in values if key in names and key not in fields and names[key] in fields}
    for key, name in former.items():
        if name in values:
            raise ValueError(f"found {key!r} and {name!r}, which are one: {key!r} is the former name; leave it out")
        if warn:
            _warn(key, name)
    return {former.get(key, key): value for key, value in values.items()} if former else values


def _current_value(key: str, value: Any, *, warn: bool = True) -> Any:
    """The value of a setting; of a list each."""
    if isinstance(value, list | tuple):
        removed = [one for one in value if one in REMOVED_VALUES.get(key, ())]
        if removed and warn:
            _warn_of_removed(f"{key} = {', '.join(removed)}")
        return type(value)(_current_value(key, one, warn=warn) for one in value if one not in removed)
    current = FORMER_VALUES.get(key, {}).get(value) if isinstance(value, str) else None
    if current is None:
        return value
    if warn:
        _warn(f"{key} = {value}", f"{key} = {current}")
    return current


def _warn(former: str, name: str) -> None:
    """Warn once in a process."""
    if former not in _WARNED:
        _WARNED.add(former)
        warnings.warn(
            f"The setting {former!r} is called {name!r} now; the former name is still read. Write {name!r}.",
            FutureWarning,
            stacklevel=3,
        )


def _warn_of_removed(value: str) -> None:
    """Warn once in a process."""
    if value not in _WARNED:
        _WARNED.add(value)
        warnings.warn(f"The value {value!r} does nothing any more. Leave it out.", FutureWarning, stacklevel=4)
