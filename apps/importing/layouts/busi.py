"""BUSI, the breast ultrasound images of Al-Dhabyani et al. 2020; called BUS in the FedA³I paper."""

import re
from pathlib import Path

from ..source import LeftOut, SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, list_files, pair_files

EXPECTED = (
    "Dataset_BUSI_with_GT/benign/benign (1).png with benign (1)_mask.png and, for further lesions, "
    "benign (1)_mask_1.png, and so in malignant"
)

_WITH_LESION = ("benign", "malignant")
_WITHOUT_LESION = "normal"
_MASK = re.compile(r"(.+)_mask(_\d+)?")


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the benign and malignant images of BUSI and their masks, one file for each lesion.

    Images of the folder ``normal`` show no lesion and are left out.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    images: list[tuple[str, Path]] = []
    masks: list[tuple[str, Path]] = []
    normal: list[LeftOut] = []
    for file in listing.pictures():
        match = _MASK.fullmatch(file.stem)
        if file.parent.name.lower() in _WITH_LESION:
            entry = (listing.shown(file.with_name(match[1] if match else file.stem)), file)
            (masks if match else images).append(entry)
        elif file.parent.name.lower() == _WITHOUT_LESION and not match:
            normal.append(LeftOut(listing.shown(file), "shows no lesion"))
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(pair.image, pair.masks[0] if len(pair.masks) == 1 else pair.masks, source="busi") for pair in pairs
    )
    dataset = SourceDataset(
        "busi", "segmentation", False, cases, labels=ONE_CLASS, skipped=(*skipped, *normal), unites_masks=True
    )
    return checked(dataset, listing, EXPECTED)
