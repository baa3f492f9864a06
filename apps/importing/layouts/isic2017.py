"""ISIC 2017: dermoscopic images with a mask of the skin lesion."""

import re
from pathlib import Path

from ..source import SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, list_files, pair_files, single_mask

EXPECTED = (
    "ISIC-2017_Training_Data/ISIC_0000000.jpg with ISIC-2017_Training_Part1_GroundTruth/ISIC_0000000_segmentation.png, "
    "and so in Validation and Test_v2"
)

_IMAGE = re.compile(r"(isic_\d+)\.(jpg|jpeg|png)")
_MASK = re.compile(r"(isic_\d+)_segmentation\.png")


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the images of ISIC 2017 and the masks of its part 1; the published sections are kept.

    Superpixels and the ground truth of parts 2 and 3 are not used.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    result = [(f"{listing.section(file)}/", file) for file in listing.files]
    images = [(section + match[1], file) for section, file in result if (match := _IMAGE.fullmatch(file.name.lower()))]
    masks = [(section + match[1], file) for section, file in result if (match := _MASK.fullmatch(file.name.lower()))]
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(pair.image, single_mask(listing, pair, skipped), section=listing.section(pair.image))
        for pair in pairs
    )
    dataset = SourceDataset(
        "isic2017", "segmentation", False, cases, labels=ONE_CLASS, channels=3, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)
