"""Which corrections of a record count: reverted and restored case by case; no file is removed."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ...transforms.errors import DataError
from .kinds import Correction
from .model import CORRECTIONS_FILE, CaseCorrection, Corrections, CorrectionState
from .reviews_since import reviewed_labels, with_reviews
from .store import read_corrections, write_corrections


def revert(folder: Path, names: Sequence[str] | None = None) -> Corrections:
    """Let given annotations count from the site's next training on; files of the corrections stay for the record.

    Args:
        folder: the folder of the record.
        names: cases by the path or the file name of their annotation (image without one); None for all.

    Returns:
        The corrections as they are now.

    Raises:
        DataError: if the record cannot be read, or a name is not that of exactly one case.
    """
    return _with_state(folder, names, CorrectionState.REVERTED)


def restore(folder: Path, names: Sequence[str] | None = None) -> Corrections:
    """Let corrections count that were reverted or proposed, also by a review; their provenance stays as it is.

    Args:
        folder: the folder of the record.
        names: as for :func:`revert`.

    Returns:
        The corrections as they are now.

    Raises:
        DataError: as :func:`revert`, or if a corrected file is absent, or the datalist that says what is reviewed
            cannot be read; then none is restored.
    """
    return _with_state(folder, names, CorrectionState.ACTIVE)


def cases_named(corrections: Corrections, names: Sequence[str] | None, source: Path) -> frozenset[str]:
    """Return the names of the corrected cases that some names stand for.

    Args:
        corrections: they.
        names: such names, or file names; None for all.
        source: the record, for an error.

    Raises:
        DataError: if a name is not that of exactly one corrected case.
    """
    known = [case.name for case in corrections.cases if _can_change(case, corrections.every)]
    if names is None:
        return frozenset(known)
    meant = set()
    for name in names:
        result = [name] if name in known else sorted({path for path in known if name == Path(path).name})
        if len(result) != 1:
            count = "no corrected case" if not result else f"{len(result)} corrected cases"
            raise DataError(f"{source}: found {count} {name!r}; expected one of: {', '.join(known) or 'none'}.")
        meant.add(result[0])
    return frozenset(meant)


def _can_change(case: CaseCorrection, corrections: Collection[Correction]) -> bool:
    """Whether a case has something to revert or restore; a shift of contours is of all cases."""
    return case.mask is not None or not any(not correction.acts_on_labels for correction in corrections)


def _with_state(folder: Path, names: Sequence[str] | None, state: CorrectionState) -> Corrections:
    """Set the state of all named cases in one step."""
    corrections = read_corrections(folder)
    chosen = cases_named(corrections, names, folder / CORRECTIONS_FILE)
    changed = corrections.with_states(chosen, state)
    reviewed = reviewed_labels(Path(corrections.data))
    if state is CorrectionState.ACTIVE:
        cases = tuple(_restored(case, reviewed) if case.name in chosen else case for case in changed.cases)
        changed = changed.model_copy(update={"cases": cases})
        files = [case.mask.counting_file for case in changed.used_masks if case.mask is not None]
        if gone := [file for file in files if not (folder / file).is_file()]:
            raise DataError(
                f"{folder}: found no {', '.join(gone)}; expected the corrected annotations that are to count. Restore "
                "the others one by one."
            )
    write_corrections(folder, changed)
    return with_reviews(changed, reviewed)


def _restored(case: CaseCorrection, reviewed: Collection[str]) -> CaseCorrection:
    """Return a case that somebody restores, perhaps after a review had decided its given label."""
    return _with_lesions(case.model_copy(update={"overrides_review": case.name in reviewed}))


def _with_lesions(case: CaseCorrection) -> CaseCorrection:
    """Return a restored case; if all of its lesions were reverted, with all of them, else as somebody decided."""
    if case.mask is None or not all(lesion.is_reverted for lesion in case.mask.lesions):
        return case
    lesions = tuple(item.model_copy(update={"state": CorrectionState.ACTIVE}) for item in case.mask.lesions)
    return case.model_copy(update={"mask": case.mask.model_copy(update={"lesions": lesions})})
