"""Lists of what sites corrected in their annotations, or undid of how they annotate, for their data managers."""

from collections.abc import Sequence
from typing import Literal

from rich.table import Table

from ...custom.data.corrections import CorrectedLabel, find_corrected
from ...transforms.errors import DataError
from ..terminal import Terminal
from .corrections import SiteCorrections, SiteUndone
from .undone_changes import CaseChange, SiteChanges, count, read_changes, undone_in_words

_Columns = dict[str, Literal["left", "right"]]
_CORRECTED: _Columns = {"annotation": "left", "voxels added": "right", "new lesions": "right", "state": "left"}
_LESIONS: _Columns = {"lesion": "right", "voxels": "right", "centre (from 0)": "left", "state": "left"}
_UNDONE: _Columns = {"annotation": "left", "pixels changed": "right", "ignored objects": "right"}
# Where classes of objects were judged.
_RELABELLED = _UNDONE | {"objects of another class": "right"}


def print_record(site: SiteCorrections | SiteUndone, console: Terminal, names: Sequence[str] | None = None) -> None:
    """Print what became of each annotation of a site: how, when, by which model.

    Args:
        site: what a site corrected or undid.
        console: where it is printed.
        names: given annotations, by their path or file name, whose added lesions are listed instead.

    Raises:
        DataError: if what was undone cannot be read, or a name is not that of exactly one corrected annotation.
    """
    if names is not None:
        _print_lesions(site, names, console)
    elif isinstance(site, SiteCorrections):
        _print_corrections(site, console)
    else:
        _print_undone(site, console)


def _print_corrections(site: SiteCorrections, console: Terminal) -> None:
    corrections = site.corrections
    console.print_named(
        corrections.site,
        f": {len(corrections.used)} of {len(corrections.labels)} annotations are used in corrected form",
    )
    _print_facts(
        console,
        f"given annotations: {corrections.data}",
        f"corrected: {site.folder}",
        f"rule: {corrections.method}, {corrections.rule}",
        _made(corrections.made, corrections.round_number, corrections.model_sha256),
    )
    table = _table(_CORRECTED)
    for label in corrections.labels:
        table.add_row(label.label, str(label.added_voxels), str(label.new_lesions), _state_of(label))
    for failed, reason in corrections.failed:
        table.add_row(failed, "-", "-", f"not corrected: {reason}")
    console.print(table)


def _print_lesions(site: SiteCorrections | SiteUndone, names: Sequence[str], console: Terminal) -> None:
    """The lesions that were added to some annotations, by their numbers."""
    if not isinstance(site, SiteCorrections):
        raise DataError(f"{site.folder}: no lesion was added in what was undone; list it without --case.")
    chosen = find_corrected(site.corrections, names, site.folder)
    for label in site.corrections.labels:
        if label.label not in chosen:
            continue
        console.print_named(site.site, f": {label.label}: {_state_of(label)}")
        table = _table(_LESIONS)
        for one in label.lesions:
            state = "reverted" if one.reverted else "waits" if label.waits else "added"
            table.add_row(str(one.number), str(one.voxels), ", ".join(map(str, one.centre)), state)
        console.print(table)


def _state_of(label: CorrectedLabel) -> str:
    if not label.file:
        return "unchanged"
    if label.waits:
        return "waits for a decision"
    if label.reverted:
        return "reverted"
    out = sum(one.reverted for one in label.lesions)
    return f"corrected, without {count(out, 'added lesion')}" if out else "corrected"


def _print_undone(site: SiteUndone, console: Terminal) -> None:
    """The site's data are read to count what moved; where they are gone, the record says the rest."""
    try:
        with read_changes(site) as changes:
            _print_changes(site, changes, changes.cases(), "", console)
    except DataError as error:
        records = [CaseChange(case, None) for case in site.undone.cases]
        _print_changes(site, None, records, f"pixels are not counted: {error}", console)


def _print_changes(
    site: SiteUndone, changes: SiteChanges | None, cases: list[CaseChange], problem: str, console: Terminal
) -> None:
    undone, description = site.undone, None if changes is None else changes.description
    states = [_state(case) for case in cases]
    console.print_named(
        undone.site,
        f": {states.count('undone')} of {count(len(cases), 'annotation')} "
        f"{'counts' if states.count('undone') == 1 else 'count'} otherwise than given",
    )
    _print_facts(
        console,
        *undone_in_words(undone, description),
        f"given annotations: {undone.data}",
        f"undone: {site.folder}",
        f"method: {undone.method}",
        _made(undone.made, undone.round_number, undone.model_sha256),
        *([_earlier_in_words(site, changes)] if site.earlier else []),
        *([problem] if problem else []),
    )
    relabels = undone.swapped > 0
    table = _table((_RELABELLED if relabels else _UNDONE) | {"state": "left"})
    for case, state in zip(cases, states, strict=True):
        moved = "-" if case.moved_pixels is None else str(case.moved_pixels)
        told = f"{state}: {case.problem}" if case.problem else state
        of_other_class = [str(case.relabelled_objects)] if relabels else []
        table.add_row(case.record.label, moved, str(case.record.ignored_objects), *of_other_class, told)
    console.print(table)


def _state(case: CaseChange) -> str:
    if case.record.reverted:
        return "reverted"
    if case.moved_pixels is None:
        return "unknown"
    return "undone" if case.changed_pixels else "unchanged"


def _earlier_in_words(site: SiteUndone, changes: SiteChanges | None) -> str:
    description = None if changes is None else changes.description
    records = (
        f"before round {undone.round_number} ({', '.join(undone_in_words(undone, description))})"
        for undone in site.earlier
    )
    return f"earlier, no longer in use: {'; '.join(records)}"


def _made(when: str, round_number: int, model_sha256: str) -> str:
    return f"made: {when}, before round {round_number}, by model {model_sha256[:16]}"


def _print_facts(console: Terminal, *facts: str) -> None:
    for fact in facts:
        console.print(f"  {fact}", soft_wrap=True)


def _table(columns: _Columns) -> Table:
    table = Table(box=None)
    for name, justify in columns.items():
        table.add_column(name, justify=justify)
    return table
