"""What images alone say of each site's masks: seconds, no model, one site suffices.

The boundary bias, a shift of all masks, one side that is moved alone, and whether masks belong to their images.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...custom.annotation_bias.fedavg_boundary import FedAvgBoundary
from ...custom.annotation_bias.given_annotations import GivenAnnotations
from ...custom.annotation_bias.parameters import ParameterKey, ParameterKind
from ...custom.annotation_bias.profile.decision import ProfileEstimate
from ...custom.annotation_bias.profile.estimation import estimate_from_images
from ...custom.annotation_bias.profile.mask_pairing import compare_masks
from ...custom.annotation_bias.profile.mask_shift import shift_of_all_masks
from ...custom.annotation_bias.profile.one_sided import estimate_one_sided
from ...custom.annotation_bias.profile.scales import ProfileCase, profile_cases
from ...custom.annotation_bias.profile.site_shift import SiteShift, estimate_site_shift
from ...custom.annotation_bias.statuses import (
    ReferenceLevel,
    Unit,
)
from ...custom.corrections.kinds import BoundaryShift, of_kind
from ...custom.data.datalist import REFERENCE, TRAINING, VALIDATION, read_datalist
from ...custom.data.description import DESCRIPTION_FILE, SegmentationDescription, read_site_description
from ...custom.data.federation import FEDERATION_FILE, read_federation
from ...custom.data.json_record import write_record
from ...custom.data.site_data import LoadedCase, SiteData, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import private_folder
from ...custom.methods.auto.image_decisions import ImageDecisions, decide_by_images
from ...custom.methods.auto.settings import BiasSettings
from ...transforms.errors import DataError
from ...transforms.shift_mask import shifted_mask
from .image_records import (
    ImageAudit,
    ImageBias,
    ImageMaskShift,
    ImagePairing,
    ImageReference,
    ImageShift,
    ImageSide,
    MeasuredMasks,
)

IMAGE_AUDIT_FILE = "image_audit.json"


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
