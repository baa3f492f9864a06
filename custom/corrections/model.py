"""The corrections of a site: what was decided, by whom, and what became of each case; one record for all kinds."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..data.json_record import JsonRecord
from .kinds import BoundaryShift, Correction, CorrectionBase, CorrectionKind, Kind, in_order, of_kind

# In a site's run folder; in it a folder for each round before which something was corrected.
CORRECTIONS_FOLDER = "corrections"
CORRECTIONS_FILE = "corrections.json"


class CorrectionState(StrEnum):
    """Whether a correction of a case counts: not yet decided, in use, or taken out of use by the data manager."""

    PROPOSED = "proposed"
    ACTIVE = "active"
    REVERTED = "reverted"


class Provenance(JsonRecord):
    """Where corrections come from.

    Args:
        method: the method whose decision it was.
        round_number: the round before whose training it was made; 0 where it was made outside a run.
        model_sha256: hash of the model that was received for that round; empty in records that do not say it.
        made: when, by the site's clock; as above.
        reviewer: who decided, where persons did; separated by commas.
    """

    method: str
    round_number: int
    model_sha256: str = ""
    made: str = ""
    reviewer: str = ""

    @classmethod
    def now(cls, method: str, round_number: int, model_sha256: str) -> Self:
        """Return that of a decision that a method makes now, by the site's clock."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(method=method, round_number=round_number, model_sha256=model_sha256, made=made)


class AddedLesion(JsonRecord):
    """One connected part of what was added to an annotation.

    Args:
        number: from 1, in the order of the first voxels in the file.
        voxels: of it, or pixels.
        centre: the voxel at its middle, by the file's axes from 0; of two-dimensional files row and column.
        state: whether it counts where the case's correction does.
    """

    number: int
    voxels: int
    centre: tuple[int, ...]
    state: CorrectionState = CorrectionState.ACTIVE

    @property
    def is_reverted(self) -> bool:
        """Whether it is background again."""
        return self.state is CorrectionState.REVERTED


class NewMask(JsonRecord):
    """The file that takes the place of a given annotation.

    Args:
        file: relative to the folder of the corrections.
        partial_file: the same without the lesions that are reverted; empty where none is.
        added_voxels: voxels, or pixels, that were background and are foreground now.
        new_lesions: connected lesions that the given annotation has nothing of.
        lesions: the connected parts of what was added; none in records of earlier versions.
    """

    file: str
    partial_file: str = ""
    added_voxels: int = 0
    new_lesions: int = 0
    lesions: tuple[AddedLesion, ...] = ()

    @property
    def counting_file(self) -> str:
        """The file that counts where the correction does."""
        return self.partial_file or self.file

    @property
    def counting_voxels(self) -> int:
        """Number of voxels that are foreground by a correction that counts."""
        return self.added_voxels - sum(lesion.voxels for lesion in self.lesions if lesion.is_reverted)


class NewClass(JsonRecord):
    """Another class of a case.

    Args:
        given: the class in the site's datalist.
        becomes: the class that it is trained on with; empty where the case is left out of training.
        predicted: the class that the model takes it for.
        confidence: the model's probability of that class; None where it is not known.
        clean_probability: how probably the given class is right, as above.
    """

    given: str
    becomes: str
    predicted: str
    confidence: float | None = None
    clean_probability: float | None = None


class ReviewDecision(JsonRecord):
    """The decision of a reviewer on one finding of an audit.

    Args:
        finding: its id.
        sentence: what looked wrong.
        choice: ``accept``, ``keep``, or ``edit``: a mask was drawn in the page.
        reviewer: who decided.
        time: when.
        reason: a comment, may be empty.
        drawn_mask: of ``edit`` the id of that mask, else empty.
    """

    finding: str
    sentence: str
    choice: Literal["accept", "keep", "edit"]
    reviewer: str
    time: str
    reason: str
    drawn_mask: str = ""


class CaseReview(JsonRecord):
    """What reviewers decided on one case.

    Args:
        given_sha256: hash of the given file when the new one was written; in a classification of the class's name.
        origin: ``accepted`` suggestions, ``edited`` in the page or in another tool, or ``kept`` as given.
        changed: pixels or voxels of another class than in the given annotation.
        is_reviewed: whether all findings of the case are decided, so that it counts as a reference.
        decisions: of its findings.
    """

    given_sha256: str
    origin: Literal["accepted", "edited", "kept"]
    changed: int
    is_reviewed: bool
    decisions: tuple[ReviewDecision, ...]


class CaseCorrection(JsonRecord):
    """What is corrected in one case.

    Args:
        image: relative to the site's data.
        label: the given annotation, as above; empty where it is a class and no file.
        state: whether it counts.
        ignored_objects: objects that are probably missing, and are ignored.
        relabelled_objects: annotated objects that get another class.
        mask: a new file in place of the given one.
        new_class: another class, in a classification.
        review: what reviewers decided; None where none did.
        annotator_group: where corrections are by annotator, the number of the group whose correction is the case's;
            None for no group, and no correction.
        overrides_review: whether somebody has restored it after a review had decided the given label.
    """

    image: str
    label: str = ""
    state: CorrectionState = CorrectionState.ACTIVE
    ignored_objects: int = 0
    relabelled_objects: int = 0
    mask: NewMask | None = None
    new_class: NewClass | None = None
    review: CaseReview | None = None
    annotator_group: int | None = None
    overrides_review: bool = False

    @property
    def name(self) -> str:
        """The name that a person calls it by: its annotation's file, else its image's."""
        return self.label or self.image

    @property
    def is_active(self) -> bool:
        """Whether it counts."""
        return self.state is CorrectionState.ACTIVE

    @property
    def is_reverted(self) -> bool:
        """Whether somebody has reverted it."""
        return self.state is CorrectionState.REVERTED


class Corrections(JsonRecord):
    """The content of ``corrections.json``; it stays at the site.

    Args:
        version: of this form; earlier versions wrote others, see :mod:`.earlier_forms`.
        site: the site's name.
        data: the folder with the site's data.
        provenance: where they come from.
        corrections: what was decided, at most one of each kind, in the order in which they are applied; none where
            nothing is corrected any more.
        by_annotator: what was decided of the groups of annotators, by their numbers, in place of what is decided for
            all cases; empty where the site is corrected as a whole.
        cases: what became of each case.
        failed: cases that could not be corrected, and why; they stay as they are.
        consensus: the rule by which given labels were made of several annotations; empty where none was needed.
        ignored_file: the file next to the record with the pixels that are ignored, named by its hash; empty where none
            are.
        relabelled_file: the same for the given and the new classes of relabelled objects.
        replaced_file: the same for the pixels that predictions replace.
    """

    version: Literal[2] = 2
    site: str
    data: str
    provenance: Provenance
    corrections: tuple[Correction, ...]
    by_annotator: dict[int, tuple[Correction, ...]] = Field(default_factory=dict)
    cases: tuple[CaseCorrection, ...]
    failed: tuple[tuple[str, str], ...] = ()
    consensus: str = ""
    ignored_file: Annotated[str, Field(pattern=r"^(ignored-[0-9a-f]{16}\.npz)?$")] = ""
    relabelled_file: Annotated[str, Field(pattern=r"^(relabelled-[0-9a-f]{16}\.npz)?$")] = ""
    replaced_file: Annotated[str, Field(pattern=r"^(replaced-[0-9a-f]{16}\.npz)?$")] = ""

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.corrections and self.by_annotator:
            raise ValueError("expected corrections of all cases or by annotator, found both")
        if any(in_order(of) != of for of in (self.corrections, *self.by_annotator.values())):
            raise ValueError(f"expected corrections in the order {', '.join(CorrectionKind)}")
        return self

    @property
    def round_number(self) -> int:
        """The round before whose training they were made."""
        return self.provenance.round_number

    @property
    def every(self) -> tuple[Correction, ...]:
        """All corrections, of all cases or of some annotator's."""
        return (*self.corrections, *(one for number in sorted(self.by_annotator) for one in self.by_annotator[number]))

    def by_group(self, by_annotator: Mapping[int, tuple[Correction, ...]], cases: Mapping[str, int]) -> "Corrections":
        """Return the same with corrections by annotator.

        Args:
            by_annotator: by the number of the group.
            cases: by the name of a case the number of its group.
        """
        own = tuple(one.model_copy(update={"annotator_group": cases.get(one.name)}) for one in self.cases)
        return self.model_copy(update={"by_annotator": dict(by_annotator), "cases": own})

    def of_group(self, number: int | None) -> "Corrections":
        """Return the corrections of one group of annotators as those of all cases; none of no group."""
        own = () if number is None else self.by_annotator.get(number, ())
        return self.model_copy(update={"corrections": own, "by_annotator": {}})

    def of_case(self, name: str) -> "Corrections":
        """Return the corrections that are a case's, by the name of the case."""
        if not self.by_annotator:
            return self
        return self.of_group(next((case.annotator_group for case in self.cases if case.name == name), None))

    def of(self, kind: type[Kind]) -> Kind | None:
        """Return the correction of a kind, None without one."""
        return of_kind(self.corrections, kind)

    def only(self, *kinds: type[CorrectionBase]) -> "Corrections":
        """Return the same with the corrections of some kinds alone."""
        return self.model_copy(
            update={
                "corrections": tuple(correction for correction in self.corrections if isinstance(correction, kinds)),
                "by_annotator": {
                    number: tuple(correction for correction in own if isinstance(correction, kinds))
                    for number, own in self.by_annotator.items()
                },
            }
        )

    @property
    def reverted(self) -> frozenset[str]:
        """The names of the cases that count as they were given."""
        return frozenset(case.name for case in self.cases if case.is_reverted)

    @property
    def changes_labels(self) -> bool:
        """Whether labels that are loaded count otherwise than they were given."""
        acts = any(correction.acts_on_labels for correction in self.every)
        return acts and any(case.is_active for case in self.cases)

    @property
    def used_masks(self) -> tuple[CaseCorrection, ...]:
        """The cases that are trained on with a new file."""
        return tuple(case for case in self.cases if case.is_active and case.mask is not None)

    def with_states(self, names: Collection[str], state: CorrectionState) -> "Corrections":
        """Return the same with another state of the named cases."""
        cases = tuple(case.model_copy(update={"state": state}) if case.name in names else case for case in self.cases)
        return self.model_copy(update={"cases": cases})


def moves_of(corrections: Corrections) -> dict[int, float]:
    """Return the distance by which contours of each class move, positive outward; empty where none do."""
    shift = corrections.of(BoundaryShift)
    return {} if shift is None else shift.moves
