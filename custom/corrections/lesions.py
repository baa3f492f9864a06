"""The lesions that a correction has added to an annotation, one by one: listed, reverted, and restored."""

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError
from ..data.description import SegmentationDescription, read_site_description
from ..data.masks import plain_name, read_classes, write_changed
from .case_states import cases_named
from .model import CORRECTIONS_FILE, AddedLesion, CaseCorrection, Corrections, CorrectionState, NewMask
from .reviews_since import reviewed_labels
from .store import read_corrections, write_corrections

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


def set_lesions(folder: Path, name: str, numbers: Collection[int], *, reverted: bool) -> CaseCorrection:
    """Revert or restore added lesions of one annotation; its other lesions, and other annotations, stay as they are.

    What counts then is a new file next to the corrected one. The given one and the corrected one stay.

    Args:
        folder: the folder of the record.
        name: the given annotation, by its path in the site's data or its file name.
        numbers: of the lesions.
        reverted: whether they are background again, or count.

    Returns:
        What is recorded of the case now.

    Raises:
        DataError: if there is no record, the name is not that of exactly one corrected case, it has no lesion of such a
            number, or a file cannot be read or has changed.
    """
    corrections = read_corrections(folder)
    (chosen,) = cases_named(corrections, [name], folder / CORRECTIONS_FILE)
    case = next(item for item in corrections.cases if item.name == chosen)
    mask = case.mask
    known = set() if mask is None else {lesion.number for lesion in mask.lesions}
    if mask is None or not set(numbers) <= known:
        absent = min(set(numbers) - known)
        if not known:
            raise DataError(
                f"{folder}: {case.name} has no added lesion {absent}; expected a number of: none, as no lesion of it "
                "was recorded; revert all of it."
            )
        raise DataError(f"{folder}: {case.name} has no added lesion {absent}; expected a number of: 1 to {len(known)}.")
    out = _reverted_numbers(case, mask, frozenset(numbers), reverted=reverted)
    lesions = tuple(item.model_copy(update={"state": _state(is_out=item.number in out)}) for item in mask.lesions)
    everything = len(out) == len(lesions)
    partial = _write_partial(folder, corrections, case, mask, sorted(out)) if out and not everything else ""
    changes: dict[str, object] = {"mask": mask.model_copy(update={"lesions": lesions, "partial_file": partial})}
    if case.is_active or not reverted:
        changes["state"] = _state(is_out=everything)
    if not reverted:
        changes["overrides_review"] = case.name in reviewed_labels(Path(corrections.data))
    changed = case.model_copy(update=changes)
    cases = tuple(changed if item is case else item for item in corrections.cases)
    write_corrections(folder, corrections.model_copy(update={"cases": cases}))
    return changed


def _state(*, is_out: bool) -> CorrectionState:
    return CorrectionState.REVERTED if is_out else CorrectionState.ACTIVE


def _reverted_numbers(
    case: CaseCorrection, mask: NewMask, numbers: frozenset[int], *, reverted: bool
) -> frozenset[int]:
    """The lesions that are background from now on; where no correction counts, a restored lesion does alone."""
    before = frozenset(lesion.number for lesion in mask.lesions if lesion.is_reverted)
    if reverted:
        return before | numbers
    if case.is_active:
        return before - numbers
    return frozenset(lesion.number for lesion in mask.lesions) - numbers


def _write_partial(folder: Path, corrections: Corrections, case: CaseCorrection, mask: NewMask, out: list[int]) -> str:
    """Write the corrected annotation without some lesions, and return its file, relative to the folder."""
    data, full = Path(corrections.data), folder / mask.file
    description = read_site_description(data)
    assert isinstance(description, SegmentationDescription)
    given, corrected = (read_classes(file, description).classes for file in (data / case.label, full))
    added = np.where(given == corrected, 0, corrected) if given.shape == corrected.shape else np.zeros_like(corrected)
    result, known = added_lesions(added), mask.lesions
    if [(item.voxels, item.centre) for item in result] != [(item.voxels, item.centre) for item in known]:
        raise DataError(
            f"{data / case.label}: it, or its corrected form, is no longer as it was corrected; expected lesions as "
            "they are recorded. Revert all of its correction instead."
        )
    is_out = np.isin(label_lesions(added)[0], out)
    # A name for each choice: what was read of another file under this name must not count.
    choice = "_".join(map(str, out))
    if len(choice) > _LONGEST_CHOICE:
        choice = hashlib.sha256(choice.encode()).hexdigest()[:_LONGEST_CHOICE]
    target = full.with_name(f"{plain_name(full)}_without_{choice}")
    return str(write_changed(target, full, np.where(is_out, given, corrected), description).relative_to(folder))
