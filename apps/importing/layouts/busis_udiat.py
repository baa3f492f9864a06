"""BUSIS and UDIAT (Dataset B): breast ultrasound with a folder of images and a folder of masks."""

import re
from pathlib import Path

from ..source import SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, list_files, pair_files, single_mask

EXPECTED_BUSIS = "Original/case1.png with GT/case1_GT.bmp (any picture format)"
EXPECTED_UDIAT = "original/000001.png with GT/000001.png"

_NAME = re.compile(r"(.*?)0*(\d*)(_gt)?")


def read_busis(folder: Path, *, seed: int) -> SourceDataset:
    """Find the images and masks of BUSIS.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    return _read(folder, "busis", EXPECTED_BUSIS)


def read_udiat(folder: Path, *, seed: int) -> SourceDataset:
    """Find the images and masks of UDIAT's Dataset B.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    return _read(folder, "udiat", EXPECTED_UDIAT)


def _read(folder: Path, name: str, expected: str) -> SourceDataset:
    listing = list_files(folder)
    pictures = [(file.parent.name.lower(), _key(file), file) for file in listing.pictures()]
    images = [(key, file) for parent, key, file in pictures if parent == "original"]
    masks = [(key, file) for parent, key, file in pictures if parent == "gt"]
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(pair.image, single_mask(listing, pair, skipped), source=name, name=f"{name}_{pair.image.stem}")
        for pair in pairs
    )
    return checked(
        SourceDataset(name, "segmentation", False, cases, labels=ONE_CLASS, skipped=tuple(skipped)), listing, expected
    )


def _key(file: Path) -> str:
    """What an image and its mask share: the name without ``_GT`` and without zeros before its number."""
    match = _NAME.fullmatch(file.stem.lower())
    return f"{match[1]}{match[2]}" if match else file.stem.lower()
