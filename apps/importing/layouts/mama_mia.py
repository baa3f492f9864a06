"""MAMA-MIA: breast MRI with contrast, the tumour annotated by experts and by a network whose masks they corrected."""

import re
from pathlib import Path

from ....custom.data.annotations import UNDECIDED, Annotation, checked_annotations
from ....transforms.folded_names import folded
from ..source import LeftOut, SourceCase, SourceDataset
from .listing import ONE_CLASS, Listing, Pair, checked, is_volume, list_files, pair_files, single_mask, stem_of

EXPECTED = "images/CASE/CASE_0001.nii.gz with segmentations/expert/CASE.nii.gz and segmentations/automatic/CASE.nii.gz"

ANNOTATORS = ("expert", "automatic")
_MASKS = "segmentations"
_PHASE = re.compile(r"(.+)_(\d{4})")
_FIRST_POST_CONTRAST = 1
_COHORT = re.compile(r"[a-z]+\d*", re.IGNORECASE)


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the first phase after contrast of each patient with all masks, each with its annotator.

    The source of a case is its cohort, which the name begins with: DUKE, ISPY1, ISPY2 or NACT.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    volumes = [file for file in listing.files if is_volume(file)]
    images = [(folded(match[1]), file) for file in volumes if (match := _first_phase(file)) is not None]
    masks = [(folded(stem_of(file)), file) for file in volumes if _annotator(file) is not None]
    pairs, skipped = pair_files(listing, images, masks)
    cases = []
    for pair in pairs:
        patient = pair.image.parent.name
        annotations = _annotations(listing, pair, skipped)
        cohort = _COHORT.match(patient)
        cases.append(
            SourceCase(
                pair.image,
                UNDECIDED,
                group=patient,
                source=cohort[0].lower() if cohort else None,
                name=patient,
                annotations=checked_annotations(annotations, f"{listing.shown(pair.image)} has masks"),
            )
        )
    dataset = SourceDataset(
        "mama-mia", "segmentation", True, tuple(cases), ("tumour",), labels=ONE_CLASS, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)


def _first_phase(file: Path) -> re.Match[str] | None:
    match = _PHASE.fullmatch(stem_of(file))
    is_phase = match is not None and int(match[2]) == _FIRST_POST_CONTRAST
    return match if is_phase and match is not None and folded(match[1]) == folded(file.parent.name) else None


def _annotator(file: Path) -> str | None:
    """Whose mask a file is by its folder, None if it is none."""
    name = file.parent.name.lower()
    return name if name in ANNOTATORS and file.parent.parent.name.lower() == _MASKS else None


def _annotations(listing: Listing, pair: Pair, skipped: list[LeftOut]) -> list[Annotation]:
    """The first mask of each annotator, the experts' first; further ones are added to what was left out."""
    of_each = [
        (annotator, tuple(file for file in pair.masks if _annotator(file) == annotator)) for annotator in ANNOTATORS
    ]
    return [
        Annotation(single_mask(listing, Pair(pair.image, masks), skipped), annotator)
        for annotator, masks in of_each
        if masks
    ]
