"""The records of an audit by images: what the images of each site say of its masks, and the file that holds it."""

import math
from typing import Literal

from pydantic import Field

from ...custom.annotation_bias.profile.decision import ProfileEstimate
from ...custom.annotation_bias.profile.mask_pairing import MaskPairing, PairingStatus
from ...custom.annotation_bias.profile.mask_shift import ShiftStatus, WholeShift
from ...custom.annotation_bias.profile.one_sided import OneSidedBias
from ...custom.annotation_bias.profile.site_shift import SiteShift
from ...custom.annotation_bias.statuses import EvidenceCode, ReferenceKind, Status, TestResult, Unit, has
from ...custom.data.json_record import JsonRecord


class ImageBias(JsonRecord):
    """What the images of a site say of its annotations of one class.

    Args:
        patients: behind it.
        bias: by how far contours lie outside the image boundary; None where the site has too few objects.
        low: lower end of the 90 % interval; None as above, and for one patient.
        high: upper end.
        is_known: whether images say it; else bias and interval are no evidence.
        is_to_correct: whether `auto` would correct it before its first round.
        status: what the test of all sites and classes says; None in earlier records. What is confirmed and not to be
            corrected is tolerated.
        follows: whether it is confirmed only since other sites are.
        standard_error: over patients, in pixels; None as the interval.
        prominence: of the boundary in the sites' mean curve; None as the bias.
        correlation: of the site's curve with the others'; None as the bias.
    """

    patients: int
    bias: float | None
    low: float | None
    high: float | None
    is_known: bool
    is_to_correct: bool
    standard_error: float | None
    prominence: float | None
    correlation: float | None
    status: Status | None = None
    follows: bool = False

    @classmethod
    def of(cls, estimate: ProfileEstimate, result: TestResult, *, is_to_correct: bool) -> "ImageBias":
        """Take over an estimate and what follows from it."""
        return cls(
            patients=estimate.patients,
            bias=_finite(estimate.bias),
            low=_finite(estimate.bias - estimate.half_width),
            high=_finite(estimate.bias + estimate.half_width),
            is_known=estimate.is_known,
            is_to_correct=is_to_correct,
            status=result.status,
            follows=has(result.evidence, EvidenceCode.FOLLOWS_OTHERS),
            standard_error=_finite(estimate.standard_error),
            prominence=_finite(estimate.prominence),
            correlation=_finite(estimate.correlation),
        )


class ImageShift(JsonRecord):
    """By how far all masks of a class at a site are translated, as its images show.

    Args:
        patients: behind it.
        vector: along each axis, where masks are, less where they belong; empty where the site has too few objects.
        half_width: of the 90 % interval along each axis; None along an axis of which nothing is said.
        is_known: whether images say it; else the vector is no evidence.
        is_significant: whether it is beyond its interval and the minimum effect. The boundary bias is then that of
            masks moved back.
    """

    patients: int
    vector: tuple[float, ...]
    half_width: tuple[float | None, ...]
    is_known: bool
    is_significant: bool

    @classmethod
    def of(cls, shift: SiteShift) -> "ImageShift":
        """Take over an estimate."""
        is_there = all(math.isfinite(length) for length in shift.vector)
        return cls(
            patients=shift.patients,
            vector=shift.vector if is_there else (),
            half_width=tuple(_finite(width) for width in shift.half_width) if is_there else (),
            is_known=shift.is_known,
            is_significant=shift.is_significant,
        )


class ImageMaskShift(JsonRecord):
    """Whether all masks of a site can be moved back, all classes together.

    Args:
        status: whether, or why not.
        patients: behind it.
        shift: where masks are, less where they belong, along each axis; empty where no class says it.
    """

    status: ShiftStatus
    patients: int
    shift: tuple[float, ...]

    @classmethod
    def of(cls, shift: WholeShift) -> "ImageMaskShift":
        """Take over an estimate."""
        return cls(status=shift.status, patients=shift.patients, shift=shift.vector)


class MeasuredMasks(JsonRecord):
    """What an audit has measured, so that nothing else is corrected by it.

    Args:
        data: the folder of the site's data.
        masks_sha256: see :func:`digest_of_masks`.
    """

    data: str
    masks_sha256: str


class ImagePairing(JsonRecord):
    """Whether the masks of a class at a site belong to its images.

    Args:
        patients: behind it.
        cases: compared with the masks of other patients.
        status: what the comparison says.
        misplaced: fraction of cases whose mask fits badly, and the mask of another patient clearly better.
        fitting_best: fraction of cases whose own mask fits best.
        advantage: of own masks over those of other patients, in standard errors.
        lost_advantage: fraction of what the best masks have.
    """

    patients: int
    cases: int
    status: PairingStatus
    misplaced: float
    fitting_best: float
    advantage: float
    lost_advantage: float

    @classmethod
    def of(cls, pairing: MaskPairing) -> "ImagePairing":
        """Take over a comparison."""
        return cls(
            patients=pairing.patients,
            cases=pairing.cases,
            status=pairing.status,
            misplaced=pairing.misplaced,
            fitting_best=pairing.fitting_best,
            advantage=pairing.advantage,
            lost_advantage=pairing.lost_advantage,
        )


class ImageSide(JsonRecord):
    """The side of all objects of a class at a site that is moved alone, as its images show.

    Args:
        patients: behind it.
        is_moved: whether there is such a side; else there are no figures.
        axis: that the contour's normals follow there, from 0.
        is_towards_end: whether they point to higher indices.
        excess: by how much the side lies farther out than the sides between it and the opposite one.
        low: lower end of the 90 % interval.
        high: upper end.
        opposite: the same of the opposite side.
    """

    patients: int
    is_moved: bool
    axis: int | None = None
    is_towards_end: bool | None = None
    excess: float | None = None
    low: float | None = None
    high: float | None = None
    opposite: float | None = None

    @classmethod
    def of(cls, result: OneSidedBias) -> "ImageSide":
        """Take over an estimate."""
        side = result.moved
        if side is None:
            return cls(patients=result.patients, is_moved=False)
        return cls(
            patients=result.patients,
            is_moved=True,
            axis=side.axis,
            is_towards_end=side.is_towards_end,
            excess=side.excess,
            low=side.excess - side.half_width,
            high=side.excess + side.half_width,
            opposite=side.opposite,
        )


class ImageReference(JsonRecord):
    """What counts as zero for one class.

    Args:
        kind: the image boundary, or a convention that all sites have.
        value: by how far it lies outside the image boundary.
        is_confident: whether anything may be corrected by it.
        tolerated: from where to where from it federated averaging has its boundary, where confirmed biases stay for
            that; None where they do not, and in earlier records.
    """

    kind: ReferenceKind
    value: float
    is_confident: bool
    tolerated: tuple[float, float] | None = None


class ImageAudit(JsonRecord):
    """The boundary biases of sites from their images.

    Args:
        version: of the record.
        unit: of all lengths but standard errors.
        excluded: cases of each site that could not be used.
        reference_levels: by class name; None where no site's bias is known.
        biases: by class name and site.
        shifts: of all masks, as above.
        pairings: whether masks belong to their images, as above; empty in earlier records.
        sides: that are moved alone, as above; empty in earlier records.
        mask_shifts: by site whether all masks can be moved back; as above.
        measured: by site which masks these are; as above.
    """

    version: Literal[1] = 1
    unit: Unit
    excluded: dict[str, int]
    reference_levels: dict[str, ImageReference | None]
    biases: dict[str, dict[str, ImageBias]]
    shifts: dict[str, dict[str, ImageShift]]
    pairings: dict[str, dict[str, ImagePairing]] = Field(default_factory=dict)
    sides: dict[str, dict[str, ImageSide]] = Field(default_factory=dict)
    mask_shifts: dict[str, ImageMaskShift] = Field(default_factory=dict)
    measured: dict[str, MeasuredMasks] = Field(default_factory=dict)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
