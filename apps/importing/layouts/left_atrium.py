"""Left atria in late gadolinium enhanced MRI: the challenges of 2018 (Utah) and of ISBI 2012 (three centres)."""

import re
from pathlib import Path

from ..source import SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, list_files, pair_files, single_mask

EXPECTED_2018 = "Training Set/CASE/lgemri.nrrd with Training Set/CASE/laendo.nrrd, and so in Testing Set"
EXPECTED_2012 = "pre/p1/de_a_1.nrrd with pre/p1/la_seg_a_1.nrrd, and post/p1/de_b_1.nrrd with post/p1/la_seg_b_1.nrrd"

_CLASSES = ("left atrium",)
_FILE_2012 = re.compile(r"(de|la_seg)_([ab]_(\d+))\.nrrd")


def read_2018(folder: Path, *, seed: int) -> SourceDataset:
    """Find the scans of the 2018 challenge with the mask of the atrium's cavity; the published sections are kept.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    images = [(listing.shown(file.parent), file) for file in listing.files if file.name.lower() == "lgemri.nrrd"]
    masks = [(listing.shown(file.parent), file) for file in listing.files if file.name.lower() == "laendo.nrrd"]
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(
            pair.image,
            single_mask(listing, pair, skipped),
            group=pair.image.parent.name,
            source="utah",
            section=listing.section(pair.image),
            name=pair.image.parent.name,
        )
        for pair in pairs
    )
    dataset = SourceDataset("la2018", "segmentation", True, cases, _CLASSES, labels=ONE_CLASS, skipped=tuple(skipped))
    return checked(dataset, listing, EXPECTED_2018)


def read_2012(folder: Path, *, seed: int) -> SourceDataset:
    """Find the scans of ISBI 2012 before (a) and after (b) ablation with the mask of the atrium.

    Scans of the same number stay together. The files do not say which centre a scan comes from.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    volumes = [(match, file) for file in listing.files if (match := _FILE_2012.fullmatch(file.name.lower()))]
    images = [(match[2], file) for match, file in volumes if match[1] == "de"]
    masks = [(match[2], file) for match, file in volumes if match[1] == "la_seg"]
    number_of = {file: match[3] for match, file in volumes}
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(pair.image, single_mask(listing, pair, skipped), group=f"p{number_of[pair.image]}") for pair in pairs
    )
    dataset = SourceDataset(
        "isbi2012-la", "segmentation", True, cases, _CLASSES, labels=ONE_CLASS, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED_2012)
