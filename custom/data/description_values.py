"""How images are prepared, as plain numbers: what of ``data.yaml`` leaves a site, for those who use the model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...transforms.errors import DataError
from .description import (
    OF_TRAINING,
    PIPELINES,
    AnyDescription,
    SiteDescription,
    SliceDescription,
    VolumeDescription,
    check_site_description,
)

# What differs between sites without a difference for the network.
OF_FILES = frozenset({"labels", "ignore", "datalist"}) | OF_TRAINING
# Key → how many numbers it takes, in their order; NaN where a pipeline has no such key, or the key no value.
_LENGTHS = {
    "pipeline": 1,
    "channels": 1,
    "size": 3,
    "fit": 1,
    "orientation": 3,
    "spacing": 3,
    "crop": 1,
    "intensity": 1,
    "window": 2,
    "slice_axis": 1,
}
NUM_VALUES = sum(_LENGTHS.values())
# Words → their places in these lists.
_WORDS = {
    "pipeline": ("image2d", "volume_slices", "volume", "classification"),
    "fit": ("resize", "pad", "crop"),
    "orientation": ("R", "L", "A", "P", "S", "I"),
    "crop": ("centre", "foreground"),
    "intensity": ("zscore", "window"),
}


def description_values(description: SiteDescription) -> list[float] | None:
    """Return how a description prepares images, as numbers; leaves the site.

    Neither paths nor names nor values of labels are among them.

    Args:
        description: the site's.

    Returns:
        :data:`NUM_VALUES` numbers; None where they do not say all of it.

    >>> from fedannot.custom.data.description import ImageDescription
    >>> description = ImageDescription(classes=("lesion",), labels={0: 0, 255: 1}, channels=1, size=(64, 48))
    >>> description_values(description)[:6]
    [0.0, 1.0, 64.0, 48.0, nan, 0.0]
    """
    said = _without_files(description)
    try:
        values = [number for key, length in _LENGTHS.items() for number in _numbers(key, said.get(key), length)]
        again = description_of_values(values, description.classes)
    except (ValueError, TypeError):
        return None
    return values if _without_files(again) == _without_files(description) else None


def description_of_values(values: Sequence[float | None], classes: Sequence[str]) -> AnyDescription:
    """Return the description that numbers are of, with the labels 0, 1, 2, …

    Args:
        values: what :func:`description_values` gives; None stands for NaN.
        classes: names of the classes.

    Raises:
        DataError: if they are of no description.
    """
    source = "The preparation that a site reports"
    if len(values) != NUM_VALUES:
        raise DataError(f"{source} has {len(values)} numbers; expected {NUM_VALUES}.")
    said: dict[str, Any] = {"classes": list(classes)}
    rest = list(values)
    for key, length in _LENGTHS.items():
        own, rest = rest[:length], rest[length:]
        known = [float(number) for number in own if number is not None and not math.isnan(number)]
        if known:
            said[key] = _value(key, known, source)
    kind = PIPELINES.get(str(said.get("pipeline")))
    if kind is not None and "labels" in kind.model_fields:
        said["labels"] = {label: label for label in range(len(classes) + 1)}
    return check_site_description(said, source=source)


def differing_keys(values: Sequence[float | None], others: Sequence[float | None]) -> list[str]:
    """Return the keys of ``data.yaml`` in which two descriptions prepare images differently, by their numbers.

    >>> from fedannot.custom.data.description import ImageDescription
    >>> one, other = (
    ...     description_values(ImageDescription(classes=("lesion",), labels={0: 0, 1: 1}, channels=1, size=size))
    ...     for size in ((64, 48), (64, 64))
    ... )
    >>> differing_keys(one, other)
    ['size']
    """
    plain, rest = (
        [None if value is None or math.isnan(value) else value for value in said] for said in (values, others)
    )
    result, start = [], 0
    for key, length in _LENGTHS.items():
        if plain[start : start + length] != rest[start : start + length]:
            result.append(key)
        start += length
    return result


def _numbers(key: str, value: Any, length: int) -> list[float]:
    parts = [] if value is None else list(value) if length > 1 else [value]
    if len(parts) > length:
        raise ValueError(key)
    numbers = [float(_WORDS[key].index(part) if key in _WORDS else part) for part in parts]
    return numbers + [math.nan] * (length - len(numbers))


def _value(key: str, numbers: Sequence[float], source: str) -> Any:
    """The value of a key as ``data.yaml`` has it."""
    words = _WORDS.get(key)
    if words is not None:
        if any(number not in range(len(words)) for number in numbers):
            raise DataError(
                f"{source}: found {list(numbers)} for {key!r}; expected numbers from 0 to {len(words) - 1}."
            )
        return "".join(words[int(number)] for number in numbers)
    whole = [int(number) if number.is_integer() and key not in ("spacing", "window") else number for number in numbers]
    return whole if _LENGTHS[key] > 1 else whole[0]


def _without_files(description: SiteDescription) -> Mapping[str, Any]:
    """What decides how images are prepared; of volumes the number of channels, whatever they are called."""
    values = description.model_dump(exclude=set(OF_FILES))
    if isinstance(description, SliceDescription | VolumeDescription):
        values["channels"] = description.in_channels
    return values
