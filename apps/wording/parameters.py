"""What is concluded of one parameter of a site, in words that a clinician understands."""

import math

from ...custom.annotation_bias.estimate_record import ParameterRecord
from ...custom.annotation_bias.parameters import ParameterKind
from ...custom.annotation_bias.statuses import EvidenceCode, Status, Unit
from ...custom.audit.findings import Conclusion
from .phrases import one_in, percent, percent_range, signed

STATUS_WORDS = {
    Status.CONFIRMED: "Confirmed",
    Status.UNKNOWN: "Cannot tell",
    Status.SMALL: "Too small to act on",
    Status.NOT_SIGNIFICANT: "About right",
}
NOT_CONFIRMED = "Not confirmed"
# Those first of which something follows.
STATUS_ORDER = tuple(STATUS_WORDS)
_APART = 0.5
_ANOTHER_CLASS = "Objects look like another class than the one that they are given"
# Between one in three and one in two "one in n" is too coarse.
_THIRD, _NEARLY_HALF, _HALF = 0.367, 0.45, 0.5
# The minimum effect of wrong labels, which an audit of version 1 does not name.
_MINIMUM_OF_LABELS = 0.05
_FromReference = tuple[float, float, float]


def is_apart(from_reference: _FromReference) -> bool:
    """Return whether an interval lies wholly beyond half a pixel or millimetre from the middle of the sites."""
    _, low, high = from_reference
    return low > _APART or high < -_APART


def is_unlike_others(one: Conclusion) -> bool:
    """Return whether a site is unlike the others, though nobody knows who is right."""
    return one.has(EvidenceCode.REFERENCE_UNSURE) and one.from_reference is not None and is_apart(one.from_reference)


def is_open(one: ParameterRecord) -> bool:
    """Return whether nothing is significant, and the interval has room for a bias that something would follow from."""
    if one.status is not Status.NOT_SIGNIFICANT or one.from_reference is None:
        return False
    _, low, high = one.from_reference
    return max(-low, high) >= _smallest_effect(one, math.inf)


def is_suspected(one: Conclusion) -> bool:
    """Return whether that is so, and the interval is on one side of no bias."""
    return is_open(one) and one.from_reference is not None and (one.from_reference[1] > 0 or one.from_reference[2] < 0)


def status_in_words(one: Conclusion) -> str:
    """Return the status; "about right" is said where the interval excludes a bias that something follows from."""
    return NOT_CONFIRMED if is_open(one) else STATUS_WORDS[one.status]


def conclusion_in_words(one: Conclusion) -> str:
    """Return what is concluded of a parameter, for the first screen of the site's page."""
    kind = one.parameter.kind
    if kind is ParameterKind.LABELS:
        return _labels_sentence(one)
    if one.from_reference is None or one.status is Status.UNKNOWN:
        return _unknown_sentence(one)
    if kind is ParameterKind.OFFSET:
        return _boundary_sentence(one, one.from_reference)
    if kind is ParameterKind.CONFUSED:
        return _confused_sentence(one, one.from_reference)
    return _missing_sentence(one, one.from_reference)


def _unknown_sentence(one: Conclusion) -> str:
    kind = one.parameter.kind
    if kind is ParameterKind.CONFUSED:
        return "It is unknown whether objects have the wrong class."
    if kind is ParameterKind.MISSING:
        return f"It is unknown whether any {one.class_name} is missing."
    if one.from_reference is not None and is_unlike_others(one):
        return _unlike_others(one.class_name, one.from_reference, one.unit)
    return f"It is unknown whether contours of {one.class_name} are too large or too small."


def _unlike_others(class_name: str, from_reference: _FromReference, unit: Unit | None) -> str:
    effect, low, high = from_reference
    least, most = sorted((abs(low), abs(high)))
    where = "outside" if effect > 0 else "inside"
    return (
        f"Contours of {class_name} lie {abs(effect):z.1f} {unit} farther {where} than in the middle of all sites "
        f"({least:z.1f} to {most:z.1f} {unit}); which of them are right cannot be known."
    )


def _boundary_sentence(one: Conclusion, from_reference: _FromReference) -> str:
    effect, low, high = from_reference
    unit, what, size = one.unit, f"Contours of {one.class_name}", "large" if effect > 0 else "small"
    if one.is_confirmed:
        least, most = sorted((abs(low), abs(high)))
        return f"{what} are {abs(effect):z.1f} {unit} too {size} ({least:z.1f} to {most:z.1f} {unit}), confirmed."
    shown = f"{signed(effect)} {unit} ({signed(low)} to {signed(high)} {unit})"
    if one.status is Status.SMALL:
        return f"{what} are about right: {shown} is too little to act on."
    if low > 0 or high < 0:
        return f"{what} may be too {size}, {shown}; not confirmed."
    if is_open(one):
        return f"No bias of contours of {one.class_name} is confirmed or excluded: {shown}."
    return f"{what} are about right: {shown}."


def _missing_sentence(one: Conclusion, from_reference: _FromReference) -> str:
    share, low, ends = _share(from_reference)
    name = one.class_name
    if one.is_confirmed:
        return f"About {one_in(share)} of {name} is missing ({ends}), confirmed."
    if low > 0 and one.status is Status.NOT_SIGNIFICANT:
        return f"Some of {name} may be missing, {percent(share)} ({ends}); not confirmed."
    if is_open(one):
        return f"Missing {name} is neither confirmed nor excluded: {percent(share)} ({ends})."
    return f"{name.capitalize()} is about as complete as at the most complete site."


def _confused_sentence(one: Conclusion, from_reference: _FromReference) -> str:
    share, low, ends = _share(from_reference)
    if one.is_confirmed:
        return f"{_ANOTHER_CLASS}: about {one_in(share)} ({ends}), confirmed."
    if low > 0 and one.status is Status.SMALL:
        return f"{_ANOTHER_CLASS}: about {one_in(share)} ({ends}). The model may be what errs; training leaves them."
    if low > 0 and one.status is Status.NOT_SIGNIFICANT:
        return f"Some objects may have the wrong class, {percent(share)} ({ends}); not confirmed."
    if is_open(one):
        return f"Wrong classes of objects are neither confirmed nor excluded: {percent(share)} ({ends})."
    return "Classes of objects are about as right as at the site where they agree best."


def _labels_sentence(one: Conclusion) -> str:
    share = one.estimate
    if one.status is Status.UNKNOWN or share is None:
        return "It is unknown how many labels are wrong."
    low, high = (share if end is None else max(end, 0.0) for end in (one.low, one.high))
    ends = percent_range(low, high)
    if one.is_confirmed:
        return f"About {_amount_of_labels(share)} wrong ({ends}), confirmed."
    shown = f"{percent(share)} look wrong ({ends})"
    if one.status is Status.SMALL:
        return f"Labels are about right: {shown}, which is too little to act on."
    if low > 0 and share >= _smallest_effect(one, _MINIMUM_OF_LABELS):
        return f"Some labels may be wrong, {percent(share)} ({ends}); not confirmed."
    if is_open(one):
        return f"Wrong labels are neither confirmed nor excluded: {shown}."
    return f"Labels are about right: {shown}."


def _smallest_effect(one: ParameterRecord, otherwise: float) -> float:
    """From which effect on something would follow; of an audit that does not name it, another value."""
    thresholds = (item.numbers for item in one.evidence if item.code is EvidenceCode.THRESHOLDS)
    return next(thresholds, {}).get("minimum_effect", otherwise)


def _amount_of_labels(share: float) -> str:
    """One in n where that is close to the share, two in five between a third and a half, else a percentage."""
    if share > _HALF:
        return f"{percent(share)} of the labels are"
    if _THIRD < share < _NEARLY_HALF:
        return "2 in 5 labels are"
    return f"1 in {round(1 / share)} labels is"


def _share(from_reference: _FromReference) -> tuple[float, float, str]:
    """A share, the lower end of its interval, and the interval in words."""
    share, low, high = (min(max(value, 0.0), 1.0) for value in from_reference)
    return share, low, percent_range(low, high)
