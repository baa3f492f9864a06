"""The Ljubljana data set of patients with multiple sclerosis (Lesjak et al. 2018): FLAIR volumes."""

import re
from pathlib import Path

from ..source import LeftOut, SourceCase, SourceDataset
from .listing import ONE_CLASS, Listing, checked, is_volume, list_files, stem_of

EXPECTED = (
    "patient01/patient01_FLAIR.nii.gz with patient01/patient01_consensus_gt.nii.gz, or patient01/FLAIR.nii.gz with "
    "patient01/consensus_gt.nii.gz"
)

_FILE = re.compile(r"(?:patient\d+_)?(flair|consensus_gt)")
_PATIENT = re.compile(r"patient\d+")
# Parts of a repository that hands the data on: follow-up scans, and images in the space of an atlas.
_OTHER = frozenset({"longitudinal", "mni"})


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find each patient's FLAIR volume and the consensus of the raters.

    The co-registered, bias-corrected volume is taken where there is one, else the raw one; both have the grid of the
    consensus.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    patients: dict[str, dict[str, list[Path]]] = {}
    for file in listing.files:
        match = _FILE.fullmatch(stem_of(file).lower())
        patient = _patient(listing, file)
        if match and patient and is_volume(file):
            patients.setdefault(patient, {}).setdefault(match[1], []).append(file)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for patient, files in patients.items():
        images, labels = (
            sorted(files.get(kind, []), key=lambda file: _is_raw(listing, file)) for kind in ("flair", "consensus_gt")
        )
        if images and labels:
            cases.append(SourceCase(images[0], labels[0], group=patient, source="ljubljana-ms", name=patient))
        else:
            missing = "no consensus" if images else "no FLAIR volume"
            skipped.append(LeftOut(listing.shown((images or labels)[0]), missing))
    dataset = SourceDataset(
        "ljubljana-ms", "segmentation", True, tuple(cases), labels=ONE_CLASS, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)


def _patient(listing: Listing, file: Path) -> str | None:
    """The patient's folder that a file lies in, directly or in its folder ``raw``."""
    parts = [part.lower() for part in file.relative_to(listing.folder).parts[:-1]]
    if _OTHER & set(parts):
        return None
    names = [part for part in parts[-2:] if _PATIENT.fullmatch(part)]
    return names[-1] if names else None


def _is_raw(listing: Listing, file: Path) -> bool:
    return "raw" in (part.lower() for part in file.relative_to(listing.folder).parts[:-1])
