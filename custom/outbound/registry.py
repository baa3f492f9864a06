"""The guard of what leaves a site: a result holds registered fields alone, of their kinds, over enough patients."""

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

from ..refusals import RefusalCode, RefusalReason
from .fields import COMMON_FIELDS, MINIMUM_CASES, OutboundField

_KIND_NAMES = {
    "model": "a state dict",
    "number": "a number",
    "numbers": "a list of numbers",
    "count": "a count",
    "counts": "a list of counts",
    "flag": "a flag",
}

# A larger one is no float, and has no text.
_LARGEST_COUNT = 2**63 - 1


class OutboundError(ValueError):
    """A result holds something that may not leave the site."""


class OutboundRegistry:
    """The fields that may leave a site, by task: those of every method, and those that methods declare.

    Args:
        declared: what methods declare besides :data:`fedannot.custom.outbound.fields.COMMON_FIELDS`.

    Attributes:
        fields: all of them.

    Raises:
        ValueError: if two fields of one name are for the same task.
    """

    def __init__(self, declared: Iterable[OutboundField] = ()) -> None:
        self.fields = (*COMMON_FIELDS, *declared)
        self._of_task: dict[str, dict[str, OutboundField]] = {}
        for field in self.fields:
            for task in field.tasks:
                of_task = self._of_task.setdefault(task, {})
                if field.name in of_task:
                    raise ValueError(
                        f"Expected one field {field.name!r} of the task {task!r}, but it is declared twice."
                    )
                of_task[field.name] = field

    @property
    def tasks(self) -> frozenset[str]:
        """Tasks whose results may hold anything."""
        return frozenset(self._of_task)

    def of_task(self, task: str) -> dict[str, OutboundField]:
        """Return the fields that the result of a task may hold, by name; none for an unknown task."""
        return dict(self._of_task.get(task, {}))

    def check(self, task: str, result: Mapping[str, Any]) -> None:
        """Check a site's result before it leaves.

        Raises:
            OutboundError: if it holds an unlisted field, a value of another kind, an infinite value where none can be,
                or a value over too few patients.
        """
        allowed = self.of_task(task)
        if unlisted := sorted(set(result) - set(allowed)):
            raise OutboundError(f"Task {task!r} may not send {unlisted}; allowed: {sorted(allowed)}.")
        for name, value in result.items():
            field = allowed[name]
            if not _is_of_kind(value, field.kind):
                raise OutboundError(
                    f"Task {task!r}: field {name!r} must be {_KIND_NAMES[field.kind]}, but is {type(value).__name__}."
                )
            if field.kind in ("number", "numbers") and not _is_bounded(value, field):
                raise OutboundError(f"Task {task!r}: field {name!r} must be finite, but is {value}.")
            if small := _too_small(field, value):
                raise OutboundError(
                    f"Task {task!r}: {name!r} is of {small[0]} patients; at least {field.least} are needed, or none."
                )
            if field.counted_by is not None:
                _check_minimum(task, field, value, result.get(field.counted_by), allowed[field.counted_by])

    def without_counted(self, task: str, result: Mapping[str, Any], kept: Collection[str] = ()) -> dict[str, Any]:
        """Return a site's result without what is computed over patients, so that the server can still use the rest.

        Of fields that a site need not send the whole group is left out. Numbers that it has to send become NaN. Counts
        of patients become 0 where the model decides who counts, and none of the values that they count remains.

        Args:
            task: the task that the result answers.
            result: its fields.
            kept: names of fields that may stay.
        """
        fields = self.of_task(task)
        counted = [field for name, field in fields.items() if field.counted_by and name in set(result) - set(kept)]
        left, needed = (
            self._without(counted, task, result),
            {fields[name].counted_by for name in set(kept) & set(fields)},
        )
        counts_too = {name for name, field in fields.items() if field.follows_model and name in left} - needed
        return left | {
            name: [0] * len(left[name]) if isinstance(left[name], list) else 0 for name in sorted(counts_too)
        }

    def without_small(self, task: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a site's result without single numbers over fewer patients than the minimum count; the others stay.

        NaN over no patient at all is of none, and stays: it says that there was nothing to compute it of.

        Args:
            task: the task that the result answers.
            result: its fields, with the counts of patients.
        """
        small = [
            field
            for name, field in self.of_task(task).items()
            if name in result and field.kind == "number" and field.counted_by is not None
            if result.get(field.counted_by, 0) < MINIMUM_CASES
            if not (result.get(field.counted_by) == 0 and math.isnan(result[name]))
        ]
        return self._without(small, task, result)

    def _without(self, withheld: Collection[OutboundField], task: str, result: Mapping[str, Any]) -> dict[str, Any]:
        registered = self.of_task(task)
        groups = {field.optional for field in withheld} - {""}
        left = {
            name: value
            for name, value in result.items()
            if name not in registered or registered[name].optional not in groups
        }
        always = {field.name: result[field.name] for field in withheld if not field.optional}
        return left | {
            name: [math.nan] * len(value) if isinstance(value, list) else math.nan for name, value in always.items()
        }

    def refusal(self, task: str, report: Mapping[str, Any], num_classes: int) -> RefusalReason | None:
        """Return why the server cannot use the registered fields of a site's result, or None if it can.

        Args:
            task: the task that the result answers.
            report: the result's fields besides the model; what is not registered is ignored.
            num_classes: number of foreground classes, the length of the lists.
        """
        fields = [field for field in self.of_task(task).values() if field.kind != "model"]
        sent_groups = {field.optional for field in fields if field.optional and field.name in report}
        for field in fields:
            if field.name not in report:
                if field.optional and field.optional not in sent_groups:
                    continue
                return RefusalReason.of(RefusalCode.FIELD_MISSING, field=field.name)
            value = report[field.name]
            if not _is_of_kind(value, field.kind):
                kinds = type(value).__name__, _KIND_NAMES[field.kind]
                return RefusalReason.of(RefusalCode.FIELD_TYPE, field=field.name, type=kinds[0], expected=kinds[1])
            length = _expected_length(field, value, num_classes)
            if isinstance(value, list) and len(value) != length:
                return RefusalReason.of(RefusalCode.FIELD_LENGTH, field=field.name, number=len(value), expected=length)
            limits = (0, num_classes) if field.names_classes else field.limits
            if limits is None and field.kind in ("number", "numbers"):
                limits = (-sys.float_info.max, sys.float_info.max)
            if limits is not None and not _within(value, *limits):
                values = {"value": str(value), "low": str(limits[0]), "high": str(limits[1])}
                return RefusalReason.of(RefusalCode.FIELD_OUT_OF_RANGE, field=field.name, **values)
        reasons = (self._contradiction(task, field, report) for field in fields)
        return next((reason for reason in reasons if reason is not None), None)

    def _contradiction(self, task: str, field: OutboundField, report: Mapping[str, Any]) -> RefusalReason | None:
        """Why a field cannot be true, or may not leave, given those that bound or count it; all are of their kinds."""
        if field.name not in report:
            return None
        value = report[field.name]
        few, least = _too_small(field, value), field.least
        # Counts of another group of fields may be withheld; what they say else is checked.
        if field.counted_by is not None and field.counted_by in report:
            counted_by, counts = self._of_task[task][field.counted_by], report[field.counted_by]
            try:
                few, least = _of_too_few(field, value, counts, counted_by), _least(counted_by)
            except OutboundError:
                lengths = {"number": len(_entries(value)), "expected": len(_entries(counts))}
                return RefusalReason.of(RefusalCode.FIELD_LENGTH, field=field.name, **lengths)
        if few:
            return RefusalReason.of(RefusalCode.TOO_FEW_BEHIND, field=field.name, count=few[0], least=least)
        return _beyond_bounds(field, report)


def _expected_length(field: OutboundField, value: Any, num_classes: int) -> int:
    """How many entries a list must have; of one of free width the nearest length below its own, at least one each."""
    if field.length is not None:
        return field.length
    classes = num_classes + field.has_background
    if field.largest_width is None:
        return classes * field.per_class
    width = len(value) // classes if isinstance(value, list) else 1
    return classes * min(max(width, 1), field.largest_width)


def _least(counted_by: OutboundField) -> int:
    """How many patients must stand behind what a field counts."""
    return max(counted_by.least, MINIMUM_CASES)


def _too_small(field: OutboundField, value: Any) -> list[int]:
    """The counts that are smaller than the field's own minimum and not 0."""
    return [count for count in _entries(value) if 0 < count < field.least] if field.least else []


def _beyond_bounds(field: OutboundField, report: Mapping[str, Any]) -> RefusalReason | None:
    """Why a field cannot be true given those that bound it; all of them are of their kinds and lengths."""
    for bound in field.at_most:
        pairs = zip(*(_entries(report[name]) for name in (field.name, bound)), strict=True)
        for value, largest in pairs:
            if value > largest:
                values = {"value": str(value), "low": "0", "high": f"{bound} = {largest}"}
                return RefusalReason.of(RefusalCode.FIELD_OUT_OF_RANGE, field=field.name, **values)
    return None


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _within(value: Any, smallest: float, largest: float) -> bool:
    # A whole number may be too large for a float.
    return all(
        (isinstance(entry, float) and math.isnan(entry)) or smallest <= entry <= largest for entry in _entries(value)
    )


def _is_of_kind(value: Any, kind: str) -> bool:
    if kind == "model":
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in value.items()
        )
    if kind in ("numbers", "counts"):
        element = "number" if kind == "numbers" else "count"
        return isinstance(value, list) and all(_is_of_kind(entry, element) for entry in value)
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "count":
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
    return isinstance(value, float)


def _is_bounded(value: Any, field: OutboundField) -> bool:
    """Whether no value is infinite that can only be finite; NaN stands for what is withheld or not defined."""
    may_be_infinite = field.limits is not None and math.isinf(field.limits[1])
    return may_be_infinite or not any(map(math.isinf, value if isinstance(value, list) else [value]))


def _check_minimum(task: str, field: OutboundField, value: Any, counts: Any, counted_by: OutboundField) -> None:
    if few := _of_too_few(field, value, counts, counted_by):
        raise OutboundError(
            f"Task {task!r}: {field.name!r} is a mean over {few[0]} cases; at least {_least(counted_by)} are needed."
        )


def _of_too_few(field: OutboundField, value: Any, counts: Any, counted_by: OutboundField) -> list[Any]:
    """The counts of entries that are not withheld and may not leave, whatever they are.

    Raises:
        OutboundError: if there are not as many counts as entries need.
    """
    values = value if isinstance(value, list) else [value]
    # A count stands for all entries of its class, or has one of its own for each.
    repeats = max(field.per_class // counted_by.per_class, 1)
    if field.largest_width is not None:
        repeats = max(len(values) // max(len(counts), 1), 1) if isinstance(counts, list) else 1
    of_classes = counts if isinstance(counts, list) else [counts] * (len(values) // repeats)
    per_entry = [count for count in of_classes for _ in range(repeats)]
    if len(per_entry) != len(values):
        raise OutboundError(f"Field {field.name!r} has {len(values)} entries, its counts {len(per_entry)}.")
    return [
        count
        for entry, count in zip(values, per_entry, strict=True)
        if not (math.isnan(entry) or (field.kind == "counts" and entry == 0))
        if not _is_of_kind(count, "count") or count < _least(counted_by)
    ]
