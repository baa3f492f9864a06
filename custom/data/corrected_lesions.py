"""The lesions that a correction has added to an annotation, one by one: listed, reverted, and restored."""

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError
from .corrections import (
    CORRECTIONS_FILE,
    AddedLesion,
    CorrectedLabel,
    Corrections,
    find_corrected,
    read_corrections,
    write_corrections,
)
from .description import SegmentationDescription, read_site_description
from .masks import plain_name, read_classes, write_changed

# Characters of a file's name that say which lesions are reverted; a hash says it where they are many.
_LONGEST_CHOICE = 32


def added_lesions(added: Classes) -> tuple[AddedLesion, ...]:
    """Return the connected parts of what was added to an annotation.

    >>> [(one.number, one.voxels, one.centre) for one in added_lesions(np.eye(3, 4, dtype=np.uint8))]
    [(1, 3, (1, 1))]

    Args:
        added: added classes in the geometry of the file, ``(H, W)`` or ``(I, J, K)``; 0 where nothing was.
    """
    numbers, count = label_lesions(added)
    voxels = np.bincount(numbers.ravel(), minlength=count + 1)
    return tuple(
        AddedLesion(
            number=number,
            voxels=int(voxels[number]),
            centre=tuple((part.start + part.stop - 1) // 2 for part in place),
        )
        for number, place in enumerate(ndimage.find_objects(numbers), start=1)
    )


def set_lesions(folder: Path, name: str, numbers: Collection[int], *, reverted: bool) -> CorrectedLabel:
    """Revert or restore added lesions of one annotation; the others of it, and all other annotations, stay as they are.

    What counts then is a new file beside the corrected one. The given one and the corrected one stay.

    Args:
        folder: the folder of the corrections.
        name: the given annotation, by its path in the site's data or its file name.
        numbers: of the lesions.
        reverted: whether they are background again, or count.

    Returns:
        What is recorded of the annotation now.

    Raises:
        DataError: if there are no corrections, the name is not that of exactly one corrected annotation, it has no
            lesion of such a number, or a file cannot be read or has changed.
    """
    corrections = read_corrections(folder)
    if corrections is None:
        raise DataError(f"{folder}: found no {CORRECTIONS_FILE}; expected the folder of a site's corrections.")
    (chosen,) = find_corrected(corrections, [name], folder)
    label = next(one for one in corrections.labels if one.label == chosen)
    known = {lesion.number for lesion in label.lesions}
    if unknown := sorted(set(numbers) - known):
        told = f"1 to {len(known)}" if known else "none, as an earlier version has recorded them; revert all of it"
        raise DataError(f"{folder}: {label.label} has no added lesion {unknown[0]}; expected a number of: {told}.")
    out = _reverted_numbers(label, frozenset(numbers), reverted=reverted)
    lesions = tuple(one.model_copy(update={"reverted": one.number in out}) for one in label.lesions)
    everything = len(out) == len(lesions)
    changes: dict[str, object] = {"lesions": lesions, "partial_file": ""}
    if out and not everything:
        changes["partial_file"] = _write_partial(folder, corrections, label, sorted(out))
    if label.is_used or not reverted:
        changes |= {"waits": False, "reverted": everything}
    changed = label.model_copy(update=changes)
    labels = tuple(changed if one is label else one for one in corrections.labels)
    write_corrections(folder, corrections.model_copy(update={"labels": labels}))
    return changed


def _reverted_numbers(label: CorrectedLabel, numbers: frozenset[int], *, reverted: bool) -> frozenset[int]:
    """The lesions that are background from now on; where no correction counts, a restored lesion does alone."""
    before = frozenset(one.number for one in label.lesions if one.reverted)
    if reverted:
        return before | numbers
    if label.is_used:
        return before - numbers
    return frozenset(one.number for one in label.lesions) - numbers


def _write_partial(folder: Path, corrections: Corrections, label: CorrectedLabel, out: list[int]) -> str:
    """Write the corrected annotation without some lesions, and return its file, relative to the folder."""
    data, full = Path(corrections.data), folder / label.file
    description = read_site_description(data)
    assert isinstance(description, SegmentationDescription)
    given, corrected = (read_classes(file, description).classes for file in (data / label.label, full))
    added = np.where(given == corrected, 0, corrected) if given.shape == corrected.shape else np.zeros_like(corrected)
    found, known = added_lesions(added), label.lesions
    if [(one.voxels, one.centre) for one in found] != [(one.voxels, one.centre) for one in known]:
        raise DataError(
            f"{data / label.label}: it, or its corrected form, is no longer as it was corrected; expected lesions as "
            "they are recorded. Revert all of its correction instead."
        )
    is_out = np.isin(label_lesions(added)[0], out)
    # A name for each choice: what was read of another file under this name must not count.
    choice = "_".join(map(str, out))
    if len(choice) > _LONGEST_CHOICE:
        choice = hashlib.sha256(choice.encode()).hexdigest()[:_LONGEST_CHOICE]
    target = full.with_name(f"{plain_name(full)}_without_{choice}")
    return str(write_changed(target, full, np.where(is_out, given, corrected), description).relative_to(folder))
