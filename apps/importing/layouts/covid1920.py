"""COVID-19-20: CT volumes of lungs with a mask of the lesions."""

import re
from pathlib import Path

from ..source import SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, is_volume, list_files, pair_files, single_mask, stem_of

EXPECTED = "Train/volume-covid19-A-0003_ct.nii.gz with Train/volume-covid19-A-0003_seg.nii.gz"

_FILE = re.compile(r"(volume-covid19-([a-z])-\d+)_(ct|seg)")


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the CT volumes of COVID-19-20 and their masks; the letter in a name is the case's source.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    volumes = [
        (match, file) for file in listing.files if is_volume(file) and (match := _FILE.fullmatch(stem_of(file).lower()))
    ]
    images = [(match[1], file) for match, file in volumes if match[3] == "ct"]
    masks = [(match[1], file) for match, file in volumes if match[3] == "seg"]
    source_of = {file: match[2].upper() for match, file in volumes}
    pairs, skipped = pair_files(listing, images, masks)
    cases = tuple(
        SourceCase(
            pair.image,
            single_mask(listing, pair, skipped),
            group=stem_of(pair.image).removesuffix("_ct"),
            source=source_of[pair.image],
            section=listing.section(pair.image),
        )
        for pair in pairs
    )
    dataset = SourceDataset("covid1920", "segmentation", True, cases, labels=ONE_CLASS, skipped=tuple(skipped))
    return checked(dataset, listing, EXPECTED)
