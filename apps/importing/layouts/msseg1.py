"""MSSEG-1, the MICCAI 2016 challenge: FLAIR volumes of patients with multiple sclerosis."""

import re
from pathlib import Path

from ..source import LeftOut, SourceCase, SourceDataset
from .listing import ONE_CLASS, Listing, checked, is_volume, list_files, stem_of

EXPECTED = (
    "Training/Center_01/Patient_01/Preprocessed_Data/FLAIR_preprocessed.nii.gz with Masks/Consensus.nii.gz, or "
    "01016SACH/3DFLAIR.nii.gz with 01016SACH/Consensus.nii.gz"
)

# Preferred first: the preprocessed volume has the grid of the raw one, on which the consensus was drawn.
_IMAGES = ("flair_preprocessed", "flair", "3dflair")
_LABEL = "consensus"
_KINDS = frozenset({"masks", "raw_data", "preprocessed_data"})
_CODE = re.compile(r"(\d{2})\d{3}[A-Z]{4}")
_CENTRE = re.compile(r"cent(?:er|re)[ _-]?(\d+)", re.IGNORECASE)


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find each patient's FLAIR volume and the consensus of the seven raters.

    The preprocessed volume is taken where there is one, else the raw one. The centre is the case's source.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    patients: dict[str, dict[str, Path]] = {}
    for file in listing.files:
        kind = stem_of(file).lower()
        if is_volume(file) and kind in (*_IMAGES, _LABEL):
            patients.setdefault(_patient(listing, file), {}).setdefault(kind, file)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for patient, files in patients.items():
        image = next((files[kind] for kind in _IMAGES if kind in files), None)
        if image is None:
            skipped.append(LeftOut(listing.shown(files[_LABEL]), "no FLAIR volume"))
        elif _LABEL not in files:
            skipped.append(LeftOut(listing.shown(image), "no consensus"))
        else:
            cases.append(_case(listing, patient, image, files[_LABEL]))
    dataset = SourceDataset("msseg1", "segmentation", True, tuple(cases), labels=ONE_CLASS, skipped=tuple(skipped))
    return checked(dataset, listing, EXPECTED)


def _patient(listing: Listing, file: Path) -> str:
    """What a patient's files share: the code such as 01016SACH, else the patient's folder."""
    folder = file.parent.parent if file.parent.name.lower() in _KINDS else file.parent
    place = folder.relative_to(listing.folder).as_posix()
    code = _CODE.search(place)
    return code[0] if code else place


def _case(listing: Listing, patient: str, image: Path, label: Path) -> SourceCase:
    # The first two digits of a patient's code are the centre's number.
    centre = _CODE.fullmatch(patient) or _CENTRE.search(patient)
    return SourceCase(
        image,
        label,
        group=patient,
        source=f"center-{centre[1]}" if centre else None,
        section=listing.section(label),
        name="_".join(Path(patient).parts),
    )
