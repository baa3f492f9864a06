"""What a site is told of its own annotations, in words that a clinician understands."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...audit.findings import Conclusion, KindResult, SiteAudit, Unit
from ...channel.established import UNKNOWN_ZERO
from ...channel.estimate_record import Verdict
from ..auto.records import MISSING, OFFSET, SWAPPED, SWAPPED_OBJECTS, ParameterRecord
from ..auto.thresholds import THRESHOLDS

_PERCENT = 100
_FromZero = tuple[float, float, float]

# Above this share "one in n" says too little, and most are.
_HALF = 0.5
_ROUNDS_TO_ZERO = 0.05
_APART = 0.5
_ANOTHER_CLASS = "Objects look like another class than the one that they are given"


def with_conclusions(audit: SiteAudit, told: Mapping[str, Any], level: float) -> SiteAudit:
    """Return an audit with what the federation concludes of the site.

    Args:
        audit: of the site.
        told: by the server: ``zero`` by class, ``parameters`` by kind and class.
        level: of the server's test.

    Raises:
        ValueError: if the server told something else.
    """
    names = {str(number): name for number, name in enumerate(audit.classes, start=1)}
    conclusions = []
    for name, plain in sorted(told["parameters"].items()):
        kind, _, label = name.partition(" ")
        is_of_all = name == SWAPPED_OBJECTS
        if not is_of_all and (kind not in (OFFSET, MISSING) or label not in names):
            raise ValueError(
                "Expected conclusions of offsets and missing objects by class, and of swapped ones, but was told of "
                f"{name!r}."
            )
        record = ParameterRecord.model_validate(plain)
        conclusions.append(_conclusion(name, kind, "" if is_of_all else names[label], record, audit.unit, level))
    zero = {names[label]: str(sentence) for label, sentence in told["zero"].items() if label in names}
    order = ("established", "cannot tell", "small", "none")
    conclusions.sort(key=lambda one: order.index(one.verdict))
    kinds = tuple(_untried_where_swapped(kind, conclusions) for kind in audit.kinds)
    return audit.model_copy(update={"conclusions": tuple(conclusions), "zero": zero, "kinds": kinds})


def _untried_where_swapped(kind: KindResult, conclusions: Sequence[Conclusion]) -> KindResult:
    """A kind of problem; of swapped classes nothing was tried where most were swapped: errors make them right."""
    if kind.kind == SWAPPED and any(map(are_most_swapped, conclusions)):
        return kind.model_copy(update={"auroc": None})
    return kind


def _conclusion(
    name: str, kind: str, class_name: str, record: ParameterRecord, unit: Unit | None, level: float
) -> Conclusion:
    verdict, from_zero = record.verdict(level), record.from_zero
    if from_zero is None or verdict == "cannot tell":
        if kind == SWAPPED:
            sentence = "It cannot be told whether objects have the wrong class."
        elif kind != OFFSET:
            sentence = _unknown_missing(class_name)
        elif from_zero is not None and UNKNOWN_ZERO in record.reason and is_apart(from_zero):
            sentence = _unlike_others(class_name, from_zero, unit)
        else:
            sentence = _unknown_offset(class_name)
    elif kind == OFFSET:
        sentence = _offset_sentence(class_name, from_zero, unit, verdict)
    elif kind == SWAPPED:
        sentence = _swapped_sentence(from_zero, verdict)
    else:
        sentence = _missing_sentence(class_name, from_zero, verdict)
    return Conclusion(
        parameter=name,
        class_name=class_name,
        unit=unit if kind == OFFSET else None,
        verdict=verdict,
        sentence=sentence,
        **record.model_dump(exclude={"established", "p_value"}),
    )


def are_most_swapped(one: Conclusion) -> bool:
    """Return whether a conclusion is that most objects have the label of another class."""
    return (
        one.parameter == SWAPPED_OBJECTS
        and one.verdict == "established"
        and (one.deviation or 0.0) > THRESHOLDS.most_objects
    )


def is_apart(from_zero: _FromZero) -> bool:
    """Return whether an interval lies wholly beyond half a pixel or millimetre from the middle of the sites."""
    _, low, high = from_zero
    return low > _APART or high < -_APART


def _unlike_others(class_name: str, from_zero: _FromZero, unit: Unit | None) -> str:
    deviation, low, high = from_zero
    least, most = sorted((abs(low), abs(high)))
    where = "outside" if deviation > 0 else "inside"
    return (
        f"Contours of {class_name} lie {abs(deviation):.1f} {unit} farther {where} than in the middle of all sites "
        f"({least:.1f} to {most:.1f} {unit}); which of them are right cannot be told."
    )


def _unknown_offset(class_name: str) -> str:
    return f"It cannot be told whether contours of {class_name} are too large or too small."


def _unknown_missing(class_name: str) -> str:
    return f"It cannot be told whether any {class_name} is missing."


def _offset_sentence(class_name: str, from_zero: _FromZero, unit: Unit | None, verdict: Verdict) -> str:
    deviation, low, high = from_zero
    what, size = f"Contours of {class_name}", "large" if deviation > 0 else "small"
    if verdict == "established":
        least, most = sorted((abs(low), abs(high)))
        return f"{what} are {abs(deviation):.1f} {unit} too {size} ({least:.1f} to {most:.1f} {unit}), sure."
    shown = f"{_signed(deviation)} {unit} ({_signed(low)} to {_signed(high)} {unit})"
    if verdict == "small":
        return f"{what} are about right: {shown} is too little to act on."
    if low > 0 or high < 0:
        return f"{what} may be too {size}, {shown}; not sure."
    return f"{what} are about right: {shown}."


def _signed(length: float) -> str:
    """A length with its sign, a true minus, and none of what rounds to zero."""
    return "0.0" if abs(length) < _ROUNDS_TO_ZERO else f"{length:+.1f}".replace("-", "−")


def _missing_sentence(class_name: str, from_zero: _FromZero, verdict: Verdict) -> str:
    share, low, ends = _share(from_zero)
    if verdict == "established":
        return f"About {_amount(share)} of {class_name} is missing ({ends}), sure."
    if low > 0 and verdict == "none":
        return f"Some of {class_name} may be missing, {_PERCENT * share:.0f} % ({ends}); not sure."
    return f"{class_name.capitalize()} is about as complete as at the most complete site."


def _swapped_sentence(from_zero: _FromZero, verdict: Verdict) -> str:
    share, low, ends = _share(from_zero)
    if verdict == "established":
        return f"{_ANOTHER_CLASS}: about {_amount(share)} ({ends}), sure."
    if low > 0 and verdict == "small":
        return f"{_ANOTHER_CLASS}: about {_amount(share)} ({ends}). The model may be what errs; training leaves them."
    if low > 0 and verdict == "none":
        return f"Some objects may have the wrong class, {_PERCENT * share:.0f} % ({ends}); not sure."
    return "Classes of objects are about as right as at the site where they agree best."


def _share(from_zero: _FromZero) -> tuple[float, float, str]:
    """A share, the lower end of its interval, and the interval in words."""
    share, low, high = (min(max(value, 0.0), 1.0) for value in from_zero)
    return share, low, f"{_PERCENT * low:.0f} to {_PERCENT * high:.0f} %"


def _amount(share: float) -> str:
    return f"1 in {round(1 / share)}" if share <= _HALF else f"{_PERCENT * share:.0f} %"
