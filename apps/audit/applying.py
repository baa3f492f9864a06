"""What becomes of decisions: suggestions, drawn and edited masks as new files, reviewed cases as a reference."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ...custom.audit.case_list import listed_cases
from ...custom.audit.decisions import Choice, Decision, Decisions
from ...custom.audit.findings import AuditedCase
from ...custom.corrections.kinds import MasksReplaced
from ...custom.corrections.model import (
    CaseCorrection,
    CaseReview,
    Corrections,
    NewClass,
    NewMask,
    Provenance,
    ReviewDecision,
)
from ...custom.data.description import SegmentationDescription
from ...custom.data.json_record import write_record
from ...custom.data.masks import write_changed
from ...custom.data.whole_files import new_folder
from ...transforms.errors import DataError
from ..checking.finding import plural
from ..wording.findings import finding_in_words
from .case_files import CaseReader
from .contradictions import check_accepted
from .datalist_update import REVIEWED, prepare_update
from .edited_exports import find_all_edited
from .edited_masks import EditedFile, EditedMask, count_changed
from .mending import stored_mask
from .reference_list import updated_content, write_reference
from .stored_decisions import check_decisions
from .suggested_files import SuggestedFiles, target_of

_LABELS = "labels"
_Origin = Literal["accepted", "edited", "kept"]
# Next to the new annotations: the corrections that they are.
PROVENANCE_FILE = "provenance.json"


@dataclass(frozen=True)
class Applied:
    """What was written.

    Attributes:
        record: the content of ``provenance.json``.
        reference: the list of the reviewed cases; None where there are none.
        datalist: the datalist that counts now; None where no update was asked for.
    """

    record: Corrections
    reference: Path | None
    datalist: Path | None


def apply_decisions(
    reader: CaseReader,
    decisions: Decisions,
    out: Path,
    *,
    edited: Path | None = None,
    dicom: Path | None = None,
    update_datalist: bool = False,
) -> Applied:
    """Write new annotations as reviewers have decided, with where they come from; given files never change.

    Nothing is written unless everything can be.

    Args:
        reader: of the audit.
        decisions: of its findings.
        out: folder of the new files, absent or empty.
        edited: where masks are that were edited elsewhere, see :func:`.edited_exports.find_all_edited`; they count in
            place of suggestions and drawn masks.
        dicom: folder of the DICOM series that edited DICOM segmentations are of.
        update_datalist: put a copy of the site's datalist in force, with the new annotations and the reference; see
            :mod:`.datalist_update`.

    Raises:
        DataError: if the decisions are of another audit, an annotation has changed since it was shown, two accepted
            suggestions of a case differ, a file cannot be used, or there is nothing to write.
    """
    check_decisions(decisions, reader.audit, "the decisions")
    masks = {} if edited is None else find_all_edited(edited, reader, dicom=dicom)
    cases = [case for case in listed_cases(reader.audit) if _is_decided(case, decisions) or case.label in masks]
    if not cases:
        raise DataError(
            f"{reader.folder}: no finding of {reader.audit.site} is accepted or kept, and no mask was edited; there is "
            "nothing to write. Decide with: fedannot audit review"
        )
    _check_unchanged(reader, cases, decisions)
    edited_masks = _drawn_masks(reader, cases, decisions) | {label: mask for label, (_, mask) in masks.items()}
    counting = decisions.counting
    for case in cases:
        if case.label not in edited_masks:
            accepted = [item.id for item in case.findings if item.id in counting]
            check_accepted(reader, case, [name for name in accepted if counting[name].choice == "accept"])
    update = prepare_update(reader.data, out, REVIEWED) if update_datalist else None
    with new_folder(out) as folder:
        writer = _Writer(reader, decisions, folder, edited_masks)
        reviewed = tuple(writer.write(position, case) for position, case in enumerate(cases))
        record = _record(reader, reviewed)
        write_record(folder / PROVENANCE_FILE, record)
        reference = write_reference(folder, out, reader, reviewed)
        content = updated_content(out, reader, reviewed)
    datalist = None if update is None else update.put_in_force(content, out)
    return Applied(record, None if reference is None else out / reference.name, datalist)


class _Writer:
    """Writes the annotations of one site, one after the other."""

    def __init__(
        self, reader: CaseReader, decisions: Decisions, folder: Path, edited: Mapping[str, EditedMask]
    ) -> None:
        self._reader, self._counting, self._folder, self._edited = reader, decisions.counting, folder, edited
        description = reader.description
        self._masks = description if isinstance(description, SegmentationDescription) else None
        self._suggested = None if self._masks is None else SuggestedFiles(reader, self._masks)

    def write(self, position: int, case: AuditedCase) -> CaseCorrection:
        """Write what was decided of a case."""
        digest = self._reader.shown(case)
        accepted = [finding.id for finding in case.findings if self._choice(finding.id) == "accept"]
        origin, file, changed = self._written(position, case, accepted)
        if digest != self._reader.shown(case):
            raise DataError(f"{case.label}: changed while it was read; expected nobody to write it. Try again.")
        decided = [finding for finding in case.findings if self._choice(finding.id) in ("accept", "keep", "edit")]
        review = CaseReview(
            given_sha256=digest,
            origin=origin,
            changed=changed,
            # Who edits a mask has looked at all of it.
            is_reviewed=origin == "edited" or len(decided) == len(case.findings),
            decisions=tuple(_decided(self._counting[item.id], finding_in_words(item)) for item in decided),
        )
        if self._masks is None:
            new_class = NewClass(given=case.label, becomes=file or case.label, predicted=file or case.label)
            return CaseCorrection(image=case.image, new_class=new_class, review=review)
        mask = NewMask(file=file) if file else None
        return CaseCorrection(image=case.image, label=case.label, mask=mask, review=review)

    def _written(self, position: int, case: AuditedCase, accepted: list[str]) -> tuple[_Origin, str, int]:
        """Where the annotation comes from, its new file or class, and how many pixels differ."""
        if case.label in self._edited:
            return self._write_edited(position, case)
        if not accepted:
            return "kept", "", 0
        if self._suggested is None:
            return self._new_class(case, accepted)
        file, changed = self._suggested.write(target_of(self._folder / _LABELS, position, case), case, accepted)
        return "accepted", str(file.relative_to(self._folder)), changed

    def _write_edited(self, position: int, case: AuditedCase) -> tuple[_Origin, str, int]:
        if self._masks is None:
            raise DataError(f"{case.label}: edited masks were given for images that have classes; expected masks.")
        given = self._reader.files(case).label
        assert isinstance(given, Path)
        before, after = self._edited[case.label].read(given, self._masks)
        changed = count_changed(before, after)
        if not changed:
            return "edited", "", 0
        file = write_changed(target_of(self._folder / _LABELS, position, case), given, after.classes, self._masks)
        return "edited", str(file.relative_to(self._folder)), changed

    def _new_class(self, case: AuditedCase, accepted: list[str]) -> tuple[_Origin, str, int]:
        suggested = {
            self._reader.description.classes[index]
            for finding in case.findings
            if finding.id in accepted and (index := self._reader.suggested_class(case, finding)) is not None
        }
        if len(suggested) != 1:
            raise DataError(f"{case.image}: {len(suggested)} classes are accepted for it; expected one.")
        return "accepted", suggested.pop(), 0

    def _choice(self, finding: str) -> Choice | None:
        return self._counting[finding].choice if finding in self._counting else None


def _is_decided(case: AuditedCase, decisions: Decisions) -> bool:
    counting = decisions.counting
    return any(finding.id in counting and counting[finding.id].choice != "later" for finding in case.findings)


def _drawn_masks(reader: CaseReader, cases: list[AuditedCase], decisions: Decisions) -> dict[str, EditedMask]:
    """The masks that were drawn in the page, by the given annotation that each takes the place of."""
    counting = decisions.counting
    drawn: dict[str, EditedMask] = {}
    for case in cases:
        decided = [counting[finding.id] for finding in case.findings if finding.id in counting]
        masks = {decision.mask for decision in decided if decision.choice == "edit"}
        if not masks:
            continue
        if len(masks) > 1 or any(decision.choice == "accept" for decision in decided):
            raise DataError(
                f"{case.label}: found a drawn mask, and another one or a suggestion that is to take its place, too; "
                "expected one of them. Decide about the case again."
            )
        drawn[case.label] = EditedFile(stored_mask(reader, case, masks.pop(), reader.shown(case)))
    return drawn


def _check_unchanged(reader: CaseReader, cases: list[AuditedCase], decisions: Decisions) -> None:
    """Check that the annotations are those that the reviewers saw, of all cases before anything is written."""
    counting, changed = decisions.counting, []
    for case in cases:
        shown = {counting[finding.id].shown for finding in case.findings if finding.id in counting}
        if shown - {reader.shown(case)}:
            changed.append(case.label)
    if changed:
        raise DataError(
            f"{reader.data}: {plural(len(changed), 'annotation')} changed since the reviewers saw them: "
            f"{', '.join(changed[:5])}{' …' if len(changed) > 5 else ''}. Nothing was written; review these cases "
            "again."
        )


def _decided(decision: Decision, sentence: str) -> ReviewDecision:
    assert decision.choice != "later"
    assert decision.choice != "undo"
    return ReviewDecision(
        finding=decision.finding,
        sentence=sentence,
        choice=decision.choice,
        reviewer=decision.reviewer,
        time=decision.time,
        reason=decision.reason,
        drawn_mask=decision.mask,
    )


def _record(reader: CaseReader, cases: tuple[CaseCorrection, ...]) -> Corrections:
    audit = reader.audit
    decisions = [decision for case in cases if case.review is not None for decision in case.review.decisions]
    return Corrections(
        site=audit.site,
        data=audit.data,
        provenance=Provenance(
            method=audit.method,
            round_number=0,
            model_sha256=audit.model_sha256,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            reviewer=", ".join(sorted({decision.reviewer for decision in decisions})),
        ),
        corrections=(MasksReplaced(source=str(reader.folder.resolve()), audited=audit.made),),
        cases=cases,
    )
