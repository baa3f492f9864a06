"""How changes of settings by dotted keys meet components: another class begins with arguments of its own."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic import BaseModel, JsonValue

from .component import TARGET, Component

_SUFFIX = f".{TARGET}"

# What a block keeps where another component is named in it: the data and the task decide it, not the component.
KEPT = ("in_channels", "num_classes", "spatial_dims")


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, JsonValue]:
    """Return nested settings by their dotted keys, ``{"training.batch_size": 8, ...}``."""
    result: dict[str, JsonValue] = {}
    for key, value in values.items():
        result |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return result


def component_places(kind: type[BaseModel], prefix: str = "") -> tuple[str, ...]:
    """Return the dotted keys of all settings that can be a component.

    They are fields of the type :class:`Component`, and blocks that have such a field of the name ``component``.
    """
    result: list[str] = []
    for name, field in kind.model_fields.items():
        of: Any = field.annotation
        key = f"{prefix}{name}"
        if isinstance(of, type) and issubclass(of, BaseModel) and of is not Component:
            own = (key,) if "component" in of.model_fields else ()
            result += [*own, *component_places(of, f"{key}.")]
        elif name != "component" and Component in (of, *get_args(of)):
            result.append(key)
    return tuple(result)


def merged(*changes: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Join changes of settings, the later before the earlier; a later component leaves nothing of an earlier one.

    Example:
        >>> merged({"network._target_": "UNet", "network.strides": [2]}, {"network": "SegResNet"})
        {'network': 'SegResNet'}
        >>> merged({"network.num_classes": 3, "network.features": [4]}, {"network._target_": "UNet"})
        {'network.num_classes': 3, 'network._target_': 'UNet'}
    """
    result: dict[str, JsonValue] = {}
    for values in map(flat, changes):
        for key in values:
            place = key.removesuffix(_SUFFIX)
            dropped = [
                earlier
                for earlier in result
                if (earlier.startswith(f"{place}.") and not _is_kept(earlier, place)) or (earlier == place != key)
            ]
            for earlier in dropped:
                del result[earlier]
        result |= values
    return result


def place_of(key: str, places: Collection[str]) -> str | None:
    """Return the component's place that a dotted key is, or is in; None where it is in none."""
    return next((place for place in places if key == place or key.startswith(f"{place}.")), None)


def apply_changes(values: dict[str, Any], changes: Mapping[str, JsonValue], places: Collection[str]) -> None:
    """Change nested settings in place by dotted keys; what names a class comes first and drops its forerunner.

    Args:
        values: as a job's file has them.
        changes: by dotted keys, see :func:`merged`.
        places: see :func:`component_places`.
    """
    starts = [key for key in changes if key in places or key.removesuffix(_SUFFIX) in places]
    for key in starts:
        place, value = key.removesuffix(_SUFFIX), changes[key]
        block, name = _block(values, place), place.rpartition(".")[2]
        earlier = block.get(name)
        kept = {own: earlier[own] for own in KEPT if own in earlier} if isinstance(earlier, Mapping) else {}
        block[name] = {**kept, TARGET: value} if key != place or kept else value
    for key, value in changes.items():
        if key not in starts:
            _block(values, key)[key.rpartition(".")[2]] = value


def value_at(values: Mapping[str, Any], key: str) -> Any:
    """Return what nested settings have at a dotted key; None where they have nothing."""
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def names_a_component(values: Mapping[str, Any], place: str) -> bool:
    """Return whether nested settings have a component at a place."""
    found = value_at(values, place)
    return (isinstance(found, Mapping) and TARGET in found) or (isinstance(found, str) and found[:1].isupper())


def _is_kept(key: str, place: str) -> bool:
    return key.removeprefix(f"{place}.") in KEPT


def _block(values: dict[str, Any], key: str) -> dict[str, Any]:
    """The table that a dotted key's last part is in, made where there is none; a class's name becomes a table."""
    block = values
    for group in key.split(".")[:-1]:
        inner = block.get(group)
        if not isinstance(inner, dict):
            inner = {TARGET: inner} if isinstance(inner, str) and inner[:1].isupper() else {}
            block[group] = inner
        block = inner
    return block
