"""What images alone say of each site's masks: seconds, no model, one site suffices.

The boundary bias, a shift of all masks, one side that is moved alone, and whether masks belong to their images.
"""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from ...custom.annotation_bias.fedavg_boundary import FedAvgBoundary
from ...custom.annotation_bias.given_annotations import GivenAnnotations
from ...custom.annotation_bias.parameters import ParameterKey, ParameterKind
from ...custom.annotation_bias.profile.decision import ProfileEstimate
from ...custom.annotation_bias.profile.estimation import estimate_from_images
from ...custom.annotation_bias.profile.mask_pairing import MaskPairing, PairingStatus, compare_masks
from ...custom.annotation_bias.profile.mask_shift import ShiftStatus, WholeShift, shift_of_all_masks
from ...custom.annotation_bias.profile.one_sided import OneSidedBias, estimate_one_sided
from ...custom.annotation_bias.profile.scales import ProfileCase, profile_cases
from ...custom.annotation_bias.profile.site_shift import SiteShift, estimate_site_shift
from ...custom.annotation_bias.statuses import (
    EvidenceCode,
    ReferenceKind,
    ReferenceLevel,
    Status,
    TestResult,
    Unit,
    has,
)
from ...custom.corrections.kinds import BoundaryShift, of_kind
from ...custom.data.datalist import REFERENCE, TRAINING, VALIDATION, read_datalist
from ...custom.data.description import DESCRIPTION_FILE, SegmentationDescription, read_site_description
from ...custom.data.federation import FEDERATION_FILE, read_federation
from ...custom.data.json_record import JsonRecord, write_record
from ...custom.data.site_data import LoadedCase, SiteData, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import private_folder
from ...custom.methods.auto.image_decisions import ImageDecisions, decide_by_images
from ...custom.methods.auto.settings import BiasSettings
from ...transforms.errors import DataError
from ...transforms.shift_mask import shifted_mask

IMAGE_AUDIT_FILE = "image_audit.json"


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


def audit_images(data: Path, *, seed: int = 0) -> ImageAudit:
    """Estimate boundary bias and shift of each class at each site from the images; no file is changed.

    Of a reviewed case the mask that the site gave counts, where the datalist has it; else the case does not.

    The shift of all masks comes first: where it is significant, all else is said of the masks moved back, but
    for their sides: a side that is moved alone looks like a shift of half of it.

    Args:
        data: a federation's folder, or one site's.
        seed: decides the draws of patients.

    Raises:
        DataError: if the data are neither, are labelled images, or a site cannot be used.
    """
    folders = _folders(data)
    # Before masks are read: what changes meanwhile is not what was measured.
    measured = {site: _measured(folder) for site, folder in folders.items()}
    sites = {site: _load(folder, site) for site, folder in folders.items()}
    classes = {site: loaded.classes for site, loaded in sites.items()}
    names = next(iter(classes.values()))
    if other := [site for site, found in classes.items() if found != names]:
        raise DataError(
            f"{data}: found other classes at {', '.join(other)}; expected {', '.join(names)} at every site."
        )
    cases = {
        site: profile_cases(_given(folder, site, sites[site]), sites[site].description)
        for site, folder in folders.items()
    }
    profiles: list[dict[str, ProfileEstimate]] = []
    shifts: dict[str, dict[str, ImageShift]] = {}
    pairings: dict[str, dict[str, ImagePairing]] = {}
    sides: dict[str, dict[str, ImageSide]] = {}
    of_classes: dict[str, list[SiteShift]] = {site: [] for site in sites}
    for label, name in enumerate(names, start=1):
        moved = {site: estimate_site_shift(some, label, seed=seed) for site, some in cases.items() if some}
        for site, shift in moved.items():
            of_classes[site].append(shift)
        placed = {site: _moved_back(some, moved.get(site)) for site, some in cases.items()}
        estimates = estimate_from_images(placed, label, seed=seed)
        profiles.append(estimates)
        shifts[name] = {site: ImageShift.of(shift) for site, shift in moved.items()}
        pairings[name] = {site: ImagePairing.of(compare_masks(some, label)) for site, some in placed.items()}
        sides[name] = {
            site: ImageSide.of(estimate_one_sided(some, label, bias=_known_bias(estimates[site]), seed=seed))
            for site, some in cases.items()
            if some
        }
    decided = decide_by_images(profiles, BiasSettings())
    return ImageAudit(
        unit=_unit(cases),
        excluded={site: len(loaded.excluded) for site, loaded in sites.items()},
        reference_levels={
            name: _reference(level, decided.tolerated.get(label))
            for label, (name, level) in enumerate(zip(names, decided.reference_levels, strict=True), start=1)
        },
        biases={
            name: _biases(estimates, decided, label)
            for label, (name, estimates) in enumerate(zip(names, profiles, strict=True), start=1)
        },
        shifts=shifts,
        pairings=pairings,
        sides=sides,
        mask_shifts={site: ImageMaskShift.of(shift_of_all_masks(found)) for site, found in of_classes.items()},
        measured=measured,
    )


def write_image_audit(audit: ImageAudit, out: Path) -> Path:
    """Write the record into an output folder, made if need be; it stays at its owner's."""
    private_folder(out)
    write_record(out / IMAGE_AUDIT_FILE, audit)
    return out / IMAGE_AUDIT_FILE


def digest_of_masks(folder: Path) -> str:
    """Return a hash of all masks for training and validation, given and in use, with their names in the datalist.

    Args:
        folder: of the site's data.

    Raises:
        DataError: if the description or the datalist cannot be used, or a file cannot be read.
    """
    digest, datalist = hashlib.sha256(), folder / read_site_description(folder).datalist
    cases = read_datalist(datalist)
    files = [
        file
        for section in (TRAINING, VALIDATION)
        for case in cases.section(section)
        for file in (case.label, case.given_label)
        if isinstance(file, Path)
    ]
    for file in files:
        digest.update(f"{os.path.relpath(file, folder)}\n".encode(errors="surrogateescape"))
        # What is not there is not used, and cannot be moved.
        if file.is_file():
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _measured(folder: Path) -> MeasuredMasks:
    return MeasuredMasks(data=str(folder.resolve()), masks_sha256=digest_of_masks(folder))


def _folders(data: Path) -> dict[str, Path]:
    if (data / FEDERATION_FILE).is_file():
        return {site: data / site for site in read_federation(data).sites}
    if (data / DESCRIPTION_FILE).is_file():
        return {data.resolve().name: data}
    raise DataError(
        f"{data}: found neither {FEDERATION_FILE} nor {DESCRIPTION_FILE}; expected a federation's folder or a site's."
    )


def _load(folder: Path, site: str) -> SiteData:
    if not isinstance(read_site_description(folder), SegmentationDescription):
        raise DataError(f"Site {site}: found labelled images; expected masks, since images show the bias of contours.")
    return load_site_data(folder, participant_store(), section=TRAINING, site=site)


def _given(folder: Path, site: str, training: SiteData) -> list[LoadedCase]:
    """The cases as the site has annotated them: what a review has made of some is no annotation of the site's."""
    has_reviewed = count_cases(folder, REFERENCE) > 0
    reviewed = load_site_data(folder, participant_store(), section=REFERENCE, site=site).cases if has_reviewed else ()
    return GivenAnnotations.of(training.cases, reviewed).own()


def _moved_back(cases: Sequence[ProfileCase], shift: SiteShift | None) -> list[ProfileCase]:
    """The cases with their masks where they belong, if the shift is significant."""
    if shift is None or not shift.is_significant:
        return list(cases)
    back = [-length for length in shift.vector]
    return [replace(case, annotation=shifted_mask(case.annotation, back, case.spacing)) for case in cases]


def _known_bias(estimate: ProfileEstimate) -> float:
    return estimate.bias if estimate.is_known else 0.0


def _unit(cases: Mapping[str, list[ProfileCase]]) -> Unit:
    """Millimetres where all images have a spacing.

    Raises:
        DataError: if some have one and some have none.
    """
    have = {case.spacing is not None for some in cases.values() for case in some}
    if len(have) > 1:
        raise DataError("Found images with and without a spacing; expected millimetres for all or for none.")
    return "mm" if True in have else "px"


def _reference(level: ReferenceLevel | None, tolerated: FedAvgBoundary | None) -> ImageReference | None:
    if level is None:
        return None
    return ImageReference(
        kind=level.kind,
        value=level.value,
        is_confident=level.is_confident,
        tolerated=None if tolerated is None else (tolerated.low, tolerated.high),
    )


def _biases(estimates: Mapping[str, ProfileEstimate], decided: ImageDecisions, label: int) -> dict[str, ImageBias]:
    """What is said of a class at each site."""
    key = ParameterKey(ParameterKind.OFFSET, label)
    asked = {site: of_kind(corrections, BoundaryShift) for site, corrections in decided.corrections.items()}
    moved = {site for site, shift in asked.items() if shift is not None and label in shift.bias}
    return {
        site: ImageBias.of(estimate, decided.findings[site][key], is_to_correct=site in moved)
        for site, estimate in estimates.items()
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
