"""Ranges of label values, ``128-255``: how `data.yaml` and commands write many values of one class."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_RANGE = re.compile(r"\s*(-?\d+)\s*-\s*(-?\d+)\s*")
# Values of a mask of sixteen bits.
MOST_VALUES = 2**16
# As long a run of values is written as a range.
_SHORTEST_RANGE = 3


def parse_values(text: str) -> range:
    """Read ``85`` or ``128-255``, both ends included.

    Raises:
        ValueError: if the text has another form, the ends are in the wrong order, or there are too many values.
    """
    result = _RANGE.fullmatch(text)
    low, high = (int(result[1]), int(result[2])) if result else (int(text), int(text))
    if not 0 <= high - low < MOST_VALUES:
        raise ValueError(f"found {text.strip()!r}, expected a range LOW-HIGH of at most {MOST_VALUES} values")
    return range(low, high + 1)


def expanded(labels: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return label values with their classes, each value for itself; keys that are no ranges stay as they are.

    Raises:
        ValueError: if a range cannot be used, or a value is in two of them.
    """
    result: dict[Any, Any] = {}
    for key, label in labels.items():
        values = parse_values(key) if isinstance(key, str) and _RANGE.fullmatch(key) else [key]
        for value in values:
            if value in result:
                raise ValueError(f"key 'labels' has the value {value} twice, the second time in {key!r}")
            result[value] = label
    return result


def in_ranges(labels: Mapping[int, int]) -> dict[int | str, int]:
    """Return label values with their classes, runs of values of one class as ranges; the order stays."""
    result: dict[int | str, int] = {}
    for first, last, label in runs(labels):
        if last - first + 1 >= _SHORTEST_RANGE:
            result[f"{first}-{last}"] = label
        else:
            result |= dict.fromkeys(range(first, last + 1), label)
    return result


def runs(labels: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of consecutive values of one class: first and last value and the class, in their order."""
    run: tuple[int, int, int] | None = None
    for value, label in labels.items():
        if run is not None and (value, label) == (run[1] + 1, run[2]):
            run = (run[0], value, label)
            continue
        if run is not None:
            yield run
        run = (value, value, label)
    if run is not None:
        yield run
