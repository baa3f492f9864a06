"""The list of what a site corrected, case by case, for its data manager; one form for all kinds of correction."""

from collections.abc import Callable, Sequence
from typing import Literal

from rich.table import Table

from ...custom.corrections.case_states import cases_named
from ...custom.corrections.kinds import CasesRelabelled
from ...custom.corrections.model import CORRECTIONS_FILE, CorrectionState
from ...custom.corrections.store import StoredCorrections
from ...custom.data.description import SegmentationDescription
from ...transforms.errors import DataError
from ..terminal import Terminal
from .correction_changes import CaseChange, count, in_words, read_changes

_Columns = dict[str, Literal["left", "right"]]
_LESIONS: _Columns = {"lesion": "right", "voxels": "right", "centre (from 0)": "left", "state": "left"}

# Earlier records that are listed; some methods correct again in every round.
_EARLIER = 3
# The columns between name and state, of which those are shown that say something of any case.
_COUNTS: dict[str, Callable[[CaseChange], int | str | None]] = {
    "pixels changed": lambda change: change.moved_pixels,
    "ignored objects": lambda change: change.record.ignored_objects,
    "relabelled objects": lambda change: change.relabelled_objects,
    "voxels added": lambda change: None if change.record.mask is None else change.record.mask.added_voxels,
    "new lesions": lambda change: None if change.record.mask is None else change.record.mask.new_lesions,
    "given": lambda change: None if change.record.new_class is None else change.record.new_class.given,
    "trained as": lambda change: None if change.record.new_class is None else trained_as(change),
}


def trained_as(change: CaseChange) -> str:
    """Return the class that a case is trained as, or why it has none."""
    new_class = change.record.new_class
    if new_class is None or not change.record.is_active:
        return "as given"
    return new_class.becomes or "not used"


def print_record(site: StoredCorrections, console: Terminal, names: Sequence[str] | None = None) -> None:
    """Print what became of each case of a site: by which corrections, when, by which model.

    Args:
        site: its corrections.
        console: where it is printed.
        names: given annotations, by their path or file name, whose added lesions are listed instead.

    Raises:
        DataError: if a name is not that of exactly one corrected annotation, or no lesion was added.
    """
    if names is not None:
        _print_lesions(site, names, console)
        return
    changes, description, problem = _changes(site)
    counting = sum(change.state.startswith("corrected") for change in changes)
    console.print_named(
        site.site,
        f": {counting} of {count(len(changes), 'case')} {'counts' if counting == 1 else 'count'} otherwise than given",
    )
    _print_facts(site, description, problem, console)
    _print_cases(site, changes, console)


def _changes(site: StoredCorrections) -> tuple[list[CaseChange], SegmentationDescription | None, str]:
    """What became of the cases, the site's description, and why pixels are not counted; empty where they are."""
    corrections = site.corrections
    recorded = [CaseChange(case) for case in corrections.cases]
    if not corrections.every:
        return [CaseChange(case, 0) for case in corrections.cases], None, ""
    acts_on_masks = any(correction.acts_on_labels for correction in corrections.every)
    if not acts_on_masks or corrections.of(CasesRelabelled) is not None:
        return [CaseChange(case, 0) for case in corrections.cases], None, ""
    # The site's data are read to count what moved; where they are gone, the record says the rest.
    try:
        changes = read_changes(site)
    except DataError as error:
        return recorded, None, f"pixels are not counted: {error}"
    return changes.cases(), changes.description, ""


def _print_facts(
    site: StoredCorrections, description: SegmentationDescription | None, problem: str, console: Terminal
) -> None:
    corrections, origin = site.corrections, site.corrections.provenance
    by = f", by model {origin.model_sha256[:16]}" if origin.model_sha256 else ""
    when = f"{origin.made}, " if origin.made else ""
    reviewer = f", {origin.reviewer}" if origin.reviewer else ""
    earlier = [f"before round {item.round_number} ({', '.join(in_words(item, description))})" for item in site.earlier]
    facts = [
        *in_words(corrections, description),
        f"given annotations: {corrections.data}",
        f"corrections: {site.folder}",
        f"method: {origin.method}{reviewer}",
        f"made: {when}before round {origin.round_number}{by}",
        *([f"earlier, no longer in use: {'; '.join(earlier)}"] if earlier else []),
        *([problem] if problem else []),
    ]
    for fact in facts:
        console.print(f"  {fact}", soft_wrap=True)


def _print_cases(site: StoredCorrections, changes: Sequence[CaseChange], console: Terminal) -> None:
    shown = {name: cell for name, cell in _COUNTS.items() if any(cell(change) for change in changes)}
    table = _table({"case": "left", **dict.fromkeys(shown, "right"), "state": "left"})
    for change in changes:
        cells = ["-" if (cell := value(change)) is None else str(cell) for value in shown.values()]
        state = f"{change.state}: {change.problem}" if change.problem else change.state
        table.add_row(change.record.name, *cells, state)
    for failed, reason in site.corrections.failed:
        table.add_row(failed, *["-"] * len(shown), f"not corrected: {reason}")
    console.print(table)


def _print_lesions(site: StoredCorrections, names: Sequence[str], console: Terminal) -> None:
    """The lesions that were added to some annotations, by their numbers."""
    if not any(case.mask is not None for case in site.corrections.cases):
        raise DataError(f"{site.folder}: no lesion was added by these corrections; list them without --case.")
    chosen = cases_named(site.corrections, names, site.folder / CORRECTIONS_FILE)
    for case in site.corrections.cases:
        if case.name not in chosen or case.mask is None:
            continue
        console.print_named(site.site, f": {case.name}: {CaseChange(case).state}")
        table = _table(_LESIONS)
        for lesion in case.mask.lesions:
            is_proposed = case.state is CorrectionState.PROPOSED
            state = "reverted" if lesion.is_reverted else "proposed" if is_proposed else "added"
            table.add_row(str(lesion.number), str(lesion.voxels), ", ".join(map(str, lesion.centre)), state)
        console.print(table)


def _table(columns: _Columns) -> Table:
    table = Table(box=None)
    for name, justify in columns.items():
        table.add_column(name, justify=justify)
    return table
