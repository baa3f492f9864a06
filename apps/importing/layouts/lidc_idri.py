"""LIDC-IDRI as NIfTI, in the form of MIC-DKFZ/LIDC-IDRI-processing: CT of lungs, a mask of each reader's nodules."""

import re
from collections import defaultdict
from pathlib import Path

from ....custom.data.annotations import UNDECIDED
from ....transforms.natural_order import natural_order
from ..source import LeftOut, SourceAnnotation, SourceCase, SourceDataset
from .listing import ONE_CLASS, checked, is_volume, list_files, stem_of

EXPECTED = "0001a/0001a_ct_scan.nrrd with 0001a/0001a_SESSION_NODULE_TRUENODULE.nii.gz for each nodule of each reader"

_SCAN = re.compile(r"((\d{4})[a-z]?)_ct_scan", re.IGNORECASE)
_NODULE = re.compile(r"(\d{4}[a-z]?)_(\w)_(\d{8})_(\d{8})", re.IGNORECASE)


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the scans, with all nodules of a reading session in one mask.

    A session is a reader of its scan alone: the same number on two scans may be two radiologists. Who marked no nodule
    has no file, and is no annotator of the scan. Scans without a nodule are left out.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    volumes = [file for file in listing.files if is_volume(file)]
    scans: dict[str, tuple[str, Path]] = {}
    nodules: defaultdict[str, defaultdict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    skipped, unknown = [], []
    for file in volumes:
        stem = stem_of(file)
        if match := _SCAN.fullmatch(stem):
            if match[1].lower() in scans:
                skipped.append(LeftOut(listing.shown(file), "there is another file of its name"))
            else:
                scans[match[1].lower()] = (match[2], file)
        elif match := _NODULE.fullmatch(stem):
            nodules[match[1].lower()][match[2].lower()].append(file)
        else:
            unknown.append(file)
    # What lies elsewhere is something else, such as planar masks.
    beside = {file.parent for _, file in scans.values()}
    skipped += [
        LeftOut(listing.shown(file), "its name is neither of a scan nor of a nodule")
        for file in unknown
        if file.parent in beside
    ]
    skipped += [LeftOut(listing.shown(scans[name][1]), "no mask") for name in scans if name not in nodules]
    skipped += [
        LeftOut(listing.shown(file), "no image")
        for name, sessions in nodules.items()
        if name not in scans
        for files in sessions.values()
        for file in files
    ]
    cases = tuple(
        SourceCase(
            scans[name][1],
            UNDECIDED,
            group=f"LIDC-IDRI-{scans[name][0]}",
            name=f"LIDC-IDRI-{name}",
            annotations=tuple(
                SourceAnnotation(tuple(nodules[name][session]), f"session-{session}")
                for session in sorted(nodules[name], key=natural_order)
            ),
        )
        for name in sorted(scans.keys() & nodules.keys(), key=natural_order)
    )
    dataset = SourceDataset(
        "lidc-idri",
        "segmentation",
        True,
        cases,
        ("nodule",),
        labels=ONE_CLASS,
        skipped=tuple(skipped),
        unites_masks=True,
    )
    return checked(dataset, listing, EXPECTED)
