"""What the images say of a site's contours, in words."""

from collections.abc import Iterator, Mapping

from ...custom.annotation_bias.profile.mask_pairing import PairingStatus
from ...custom.annotation_bias.profile.mask_shift import ShiftStatus
from ...custom.annotation_bias.profile.thresholds import THRESHOLDS
from ...custom.annotation_bias.statuses import ReferenceKind, Status
from ...custom.outbound.fields import MINIMUM_CASES
from ..audit.image_records import (
    ImageAudit,
    ImageBias,
    ImageMaskShift,
    ImagePairing,
    ImageReference,
    ImageShift,
    ImageSide,
)
from ..checking.finding import plural
from .phrases import along_axes, signed

ONE_SITE_ALONE = (
    "One site alone learns the direction and a rough size of its bias; "
    "other sites or ten reviewed cases would show it more exactly."
)


def image_audit_in_words(audit: ImageAudit) -> Iterator[str]:
    """Yield a line for each class and site, after what counts as zero; first what one site alone cannot learn."""
    if max(map(num_estimated, audit.biases.values()), default=0) == 1:
        yield ONE_SITE_ALONE
    for name, biases in audit.biases.items():
        yield f"{name}: {reference_in_words(audit.reference_levels[name], num_estimated(biases), audit.unit)}"
        for site, bias in biases.items():
            yield f"  {site}: {bias_in_words(bias, audit.reference_levels[name], audit.unit)}"
            pairing = audit.pairings.get(name, {}).get(site)
            if pairing is not None and (warning := pairing_in_words(pairing)):
                yield f"  {site}: {warning}"
            shift = audit.shifts[name].get(site)
            if shift is not None and shift.is_significant:
                yield f"  {site}: {shift_in_words(shift, audit.unit)}"
            side = audit.sides.get(name, {}).get(site)
            if side is not None and (warning := side_in_words(side, audit.unit)):
                yield f"  {site}: {warning}"
    for site, count in audit.excluded.items():
        if count:
            yield f"{site}: {plural(count, 'case')} could not be used; see fedannot data check."


def num_estimated(biases: Mapping[str, ImageBias]) -> int:
    """Return how many sites have an estimate of a class, known or not: so many are compared."""
    return sum(bias.bias is not None for bias in biases.values())


def reference_in_words(level: ImageReference | None, num_sites: int, unit: str) -> str:
    """Return what counts as zero, and why."""
    if level is None:
        return "the images do not show the boundary clearly; nothing can be told from them."
    if level.kind is not ReferenceKind.CONVENTION:
        zero = f"zero is the image boundary{'' if num_sites > 1 else ', as seen at this site alone'}"
        if level.tolerated is None:
            return f"{zero}."
        low, high = level.tolerated
        return (
            f"{zero}. Federated averaging has its boundary from {signed(low)} to {signed(high)} {unit} off, which is "
            "tolerated: nothing is corrected."
        )
    distance = f"{abs(level.value):z.1f} {unit} {'outside' if level.value > 0 else 'inside'} the image boundary"
    if level.is_confident:
        return f"the sites annotate alike, {distance}: a common convention, nothing is corrected."
    return f"all sites annotate {distance}: convention or error? Ten reviewed cases decide."


def bias_in_words(bias: ImageBias, level: ImageReference | None, unit: str) -> str:
    """Return what is known of a site's contours of a class."""
    if bias.bias is None:
        return "too few objects to tell."
    patients = plural(bias.patients, "patient")
    # What is not known may still follow other sites.
    if level is None or not (bias.is_known or bias.is_to_correct):
        return f"cannot tell from the images: {_why_unknown(bias)} ({patients})."
    figures = f"{signed(bias.bias)} {unit} against the image boundary"
    if bias.low is not None and bias.high is not None:
        figures += f", 90 % interval {signed(bias.low)} to {signed(bias.high)}, {patients}"
    return f"{_verdict(bias, bias.bias - level.value, level)}: {figures}."


def shift_in_words(shift: ImageShift, unit: str) -> str:
    """Return by how far a site's masks are translated."""
    return f"all masks seem shifted by {along_axes(shift.vector, unit)}; the boundary bias is that of masks moved back."


def why_not_moved(shift: ImageMaskShift, unit: str) -> str:
    """Return why all masks of a site are not moved back."""
    match shift.status:
        case ShiftStatus.UNKNOWN:
            return "the images do not say whether all masks are shifted."
        case ShiftStatus.TOO_FEW_PATIENTS:
            patients = plural(shift.patients, "patient")
            return f"found {patients}; expected at least {MINIMUM_CASES} for a shift of all masks."
        case ShiftStatus.CLASSES_DIFFER:
            return "its classes are shifted differently, so that it is no shift of all masks."
        case ShiftStatus.TOO_SMALL:
            return (
                f"its masks are shifted by {along_axes(shift.shift, unit)}, less than is corrected; they may have been "
                "moved back already."
            )
        case ShiftStatus.CORRECTABLE:
            return ""


def pairing_in_words(pairing: ImagePairing) -> str:
    """Return a warning that masks are those of other images; empty where nothing says so."""
    if pairing.status is PairingStatus.OF_OTHER_IMAGES:
        return "masks fit their images no better than masks of other patients: check which mask belongs to which image."
    if pairing.status is PairingStatus.SOME_OF_OTHER_IMAGES:
        count = round(pairing.misplaced * pairing.cases)
        return (
            f"about {count} of {plural(pairing.cases, 'mask')} fit the images of other patients better: "
            "check which mask belongs to which image."
        )
    return ""


def side_in_words(side: ImageSide, unit: str) -> str:
    """Return which side of the objects is moved alone; empty where none is."""
    if side.axis is None or side.excess is None or side.low is None or side.high is None:
        return ""
    place = f"towards the {'end' if side.is_towards_end else 'start'} of axis {side.axis + 1}"
    interval = f"90 % interval {signed(side.low)} to {signed(side.high)}, {plural(side.patients, 'patient')}"
    return (
        f"the side {place} alone is annotated too far {'outside' if side.excess > 0 else 'inside'}: "
        f"{signed(side.excess)} {unit} against the sides between, {interval}; the opposite side is not."
    )


def _verdict(bias: ImageBias, distance: float, level: ImageReference) -> str:
    direction = "large" if distance > 0 else "small"
    if bias.is_to_correct:
        return (
            f"perhaps too {direction}, to be corrected as at other sites"
            if bias.follows
            else f"annotated too {direction}"
        )
    if bias.status is Status.CONFIRMED:
        return f"too {direction}, within what is tolerated"
    if not level.is_confident:
        return "as the other sites"
    if bias.low is None or bias.high is None or bias.low <= level.value <= bias.high:
        return "about right"
    if bias.status is Status.NOT_SIGNIFICANT:
        return f"perhaps too {direction}, too uncertain to be corrected"
    return f"a little too {direction}, less than is corrected"


def _why_unknown(bias: ImageBias) -> str:
    if bias.is_known:
        return "those of other sites do not show the boundary"
    if bias.standard_error is None:
        return "one patient has no interval"
    if bias.prominence is None or bias.prominence < THRESHOLDS.min_prominence:
        return "images change hardly more at the boundary than beside it"
    if bias.correlation is None or bias.correlation < THRESHOLDS.min_correlation:
        return "images change in another way than those of other sites"
    return "cases differ too much"
