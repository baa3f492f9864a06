"""Kvasir-Capsule: frames of capsule endoscopy videos in a folder for each finding."""

import re
from pathlib import Path

from ..source import LeftOut, SourceCase, SourceDataset
from .listing import checked, list_files

EXPECTED = "labelled_images/Angiectasia/VIDEO_FRAME.jpg, and so in a folder for each finding"

# The ten findings with the most frames, in the FedGSCA paper's order. It calls 'Reduced Mucosal View' Mucosal Atrophy.
CLASSES = (
    "Normal",
    "Ileocecal Valve",
    "Reduced Mucosal View",
    "Pylorus",
    "Angiectasia",
    "Ulcer",
    "Foreign Body",
    "Lymphangiectasia",
    "Erosion",
    "Blood",
)
_FOLDERS = {
    "normal clean mucosa": 0,
    "ileocecal valve": 1,
    "reduced mucosal view": 2,
    "pylorus": 3,
    "angiectasia": 4,
    "ulcer": 5,
    "foreign body": 6,
    "lymphangiectasia": 7,
    "erosion": 8,
    "blood fresh": 9,
}
_RARE_FOLDERS = ("ampulla of vater", "blood hematin", "erythema", "polyp")


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the frames of the ten findings that the FedGSCA paper uses; frames of a video stay together.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for file in listing.pictures():
        finding = re.sub(r"[\s_-]+", " ", file.parent.name).lower()
        if finding in _FOLDERS:
            video, separator, _ = file.stem.rpartition("_")
            cases.append(SourceCase(file, _FOLDERS[finding], group=video if separator else None))
        else:
            reason = "a finding with few frames" if finding in _RARE_FOLDERS else "its folder is none of the findings"
            skipped.append(LeftOut(listing.shown(file), reason))
    dataset = SourceDataset(
        "kvasir-capsule", "classification", False, tuple(cases), CLASSES, channels=3, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)
