"""Which structure set belongs to which DICOM series, by the series that it was drawn on."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import DicomHeader, SeriesIdentity, dicom_files
from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.folder_search import FoundFile
from .structure_sets import read_structure_set


def series_of(source: Path) -> SeriesIdentity | None:
    """Return what identifies a DICOM image, a file or the series in a folder; None of what is no readable DICOM."""
    candidates = [*source.iterdir()] if source.is_dir() else [source]
    files = sorted(file for file in dicom_files(candidates) if not is_structure_set(file))
    try:
        return DicomHeader(files[0]).identity if files else None
    except RuntimeError:
        # Who reads its pixels says what is wrong with it.
        return None


def paired_by_series(
    images: Sequence[FoundFile], masks: Sequence[FoundFile]
) -> tuple[dict[int, list[FoundFile]], list[FoundFile]]:
    """Pair structure sets with the series that they name.

    Returns:
        Position of an image → its structure sets; and all masks that name no series of the images, or several.
    """
    structure_sets = [mask for mask in masks if mask.is_structure_set]
    if not structure_sets:
        return {}, list(masks)
    known: dict[str, list[int]] = defaultdict(list)
    for place, image in enumerate(images):
        if (identity := series_of(image.file)) is not None and identity.series:
            known[identity.series].append(place)
    pairs: dict[int, list[FoundFile]] = defaultdict(list)
    others = [mask for mask in masks if not mask.is_structure_set]
    for mask in structure_sets:
        places = [place for series in sorted(_named(mask.file)) for place in known[series]]
        if len(places) == 1:
            pairs[places[0]].append(mask)
        else:
            others.append(mask)
    return dict(pairs), others


def _named(file: Path) -> frozenset[str]:
    try:
        return read_structure_set(file).series
    except DataError:
        # Who draws its contours says what is wrong with it.
        return frozenset()
