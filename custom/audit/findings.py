"""Findings of an audit: what looks wrong in which case; one file for all commands, which stays at the site."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from ...transforms.errors import DataError
from ..annotation_bias.annotators.records import AnnotatorsAudit
from ..annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from ..annotation_bias.parameters import ParameterKey
from ..annotation_bias.statuses import Evidence, Unit
from ..data.json_record import JsonRecord, read_record, write_record
from .version_1 import audit_of_version_1, finding_of_version_1, kind_of_version_1

if TYPE_CHECKING:
    from ...transforms.array_types import Array

AUDIT_FOLDER = "audit"
FINDINGS_FILE = "findings.json"
CASES_FOLDER = "cases"
# The kind of what a reviewer is asked about a case that nothing was found in.
REFERENCE = "reference"
# The same of every other case that nothing was found in; made where cases are listed, never stored.
NOTHING_FOUND = "nothing_found"
QUESTIONS = frozenset({REFERENCE, NOTHING_FOUND})

Share = Annotated[float, Field(ge=0, le=1)]
SizeUnit = Literal["px", "mm²", "ml"]


class Place(JsonRecord):
    """Where a finding is in the network's image of a case.

    Args:
        sample: index of the first sample: a slice of a volume that is read slice by slice, else 0.
        start: first pixel along each spatial axis of the samples.
        stop: the pixel after the last one, as above.
        samples: number of samples: the slices that an object spans, else 1.
    """

    sample: int
    start: tuple[int, ...]
    stop: tuple[int, ...]
    samples: Annotated[int, Field(ge=1)] = 1

    def of(self, array: "Array") -> "Array":
        """Return the part of all samples ``(S, H, W[, D])`` that is this place, a view: ``(h, w[, d])`` of one sample.

        Of several samples it is ``(samples, h, w)``. A suggestion has the same shape, and is put into it.
        """
        box = tuple(slice(start, stop) for start, stop in zip(self.start, self.stop, strict=True))
        part = array[self.sample : self.sample + self.samples][(slice(None), *box)]
        return part[0] if self.samples == 1 else part


class Finding(JsonRecord):
    """One thing that looks wrong: a contour, a lesion, a label, or a whole annotation.

    Args:
        id: names the finding in decisions; the same in a repeated audit of the same annotation and object.
        kind: name of the kind of problem.
        classes: names of the classes concerned; of a label the given one, then the one that it looks like.
        score: from 0 to 1, the larger the more likely an error; comparable within a kind alone.
        probability: that a reviewer would change the annotation, as far as injected errors at this site tell; None
            where nothing tells.
        disagreement: from 0 to 1, how far annotation and prediction differ there.
        uncertainty: from 0 to 1, how uncertain the model is there.
        amount: signed, what the kind measures: of a contour by how far it lies too far outside; None where there is
            no such number.
        amount_unit: ``mm`` or ``px`` of a length; None of everything else.
        size: of the object concerned: area or volume; None where it is none.
        size_unit: ``px``, ``mm²`` or ``ml``.
        place: where it is; None of a whole annotation.
        has_suggestion: whether the case's arrays have an annotation that is suggested in its place.
        figures: what the kind measures besides amount and size, by name; see the kinds.
        text: the sentence of an audit of version 1; empty since.
    """

    id: str
    kind: str
    classes: tuple[str, ...]
    score: Share
    probability: Share | None = None
    disagreement: Share = 0.0
    uncertainty: Share = 0.0
    amount: float | None = None
    amount_unit: Unit | None = None
    size: float | None = None
    size_unit: SizeUnit | None = None
    place: Place | None = None
    has_suggestion: bool = False
    figures: dict[str, float] = Field(default_factory=dict)
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return finding_of_version_1(values)


class AuditedCase(JsonRecord):
    """A case with its findings, the worst first.

    Args:
        image: the image, relative to the site's data.
        label: the given annotation, as above; of a classification the name of the given class.
        unit: the patient or volume.
        annotator: who annotated it, where the datalist says so.
        several_annotators: who did, where the label was made of several annotations; else empty.
        disagreement: from 0 to 1, of the whole case.
        uncertainty: from 0 to 1, as above.
        arrays: the file with its arrays, relative to the folder of the audit; empty where there is none.
        findings: what looks wrong in it.
    """

    image: str
    label: str
    unit: str
    annotator: str | None = None
    several_annotators: tuple[str, ...] = ()
    disagreement: Share = 0.0
    uncertainty: Share = 0.0
    arrays: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def annotators(self) -> tuple[str, ...]:
        """Who made the label, or the annotations that it was made of, as far as the datalist says so."""
        return self.several_annotators if self.annotator is None else (self.annotator,)

    @property
    def has_problem(self) -> bool:
        """Whether anything looks wrong in it; to be asked for a reference is no problem."""
        return any(finding.kind not in QUESTIONS for finding in self.findings)

    @property
    def score(self) -> float:
        """The largest probability, or score, of its findings; 0 without any."""
        return max(
            (finding.score if finding.probability is None else finding.probability for finding in self.findings),
            default=0.0,
        )


class KindResult(JsonRecord):
    """What an audit found of one kind of problem, and how well it finds such problems on these data.

    Args:
        kind: its name.
        auroc: how well injected errors of the kind, put into copies of this site's annotations, were distinguished from
            none; None where that could not be tried.
        patients: of how many patients that is.
        num_cases: cases with such a finding.
        num_findings: findings.
        shows: what all cases show together, likely and not confirmed; empty where that is nothing.
    """

    kind: str
    auroc: float | None
    patients: int
    num_cases: int
    num_findings: int
    shows: tuple[Evidence, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return kind_of_version_1(values)


class Conclusion(ParameterRecord):
    """What the federation concludes of one parameter of this site's annotation bias.

    Args:
        parameter: kind and class.
        class_name: name of the class; empty for all.
        unit: of the figures; None of a share.
    """

    parameter: ParameterKey
    class_name: str = ""
    unit: Unit | None = None
    p_value: float | None = None


class ReferenceModelKind(JsonRecord):
    """Which model predicted which cases.

    Args:
        folds: number of models, each of which predicts the patients that it has not learnt; 1 where one predicts all.
        num_absent: models of these that were not kept here, so that the last one predicts in their place.
        text: the sentence of an audit of version 1; empty since.
    """

    folds: Annotated[int, Field(ge=1)]
    num_absent: Annotated[int, Field(ge=0)] = 0
    text: str = ""


class SiteAudit(JsonRecord):
    """The content of ``findings.json``: an audit of one site; version 1, with sentences, is read as well.

    Args:
        version: of this form.
        site: the site's name.
        data: the folder with the site's data.
        method: the method that audited.
        made: when, by the site's clock.
        model_sha256: hash of the last reference model.
        predicted_by: what model predicted which cases.
        task: ``segmentation`` or ``classification``.
        classes: names of the classes; for segmentation of the foreground classes.
        unit: of lengths; None of a classification.
        num_cases: audited.
        num_patients: of them.
        left_out: images that could not be audited, and why.
        reference_levels: of the offsets, by name of the class; empty before the federation has concluded.
        conclusions: of this site's annotation bias; empty before that, too.
        kinds: what was looked for.
        cases: all audited cases, the worst first.
        annotators: how single annotators annotate; None where fewer than two are named.
    """

    version: Literal[2] = 2
    site: str
    data: str
    method: str
    made: str
    model_sha256: str
    predicted_by: ReferenceModelKind
    task: Literal["segmentation", "classification"]
    classes: tuple[str, ...]
    unit: Unit | None
    num_cases: int
    num_patients: int
    left_out: tuple[tuple[str, str], ...] = ()
    reference_levels: dict[str, ReferenceLevelRecord] = Field(default_factory=dict)
    conclusions: tuple[Conclusion, ...] = ()
    kinds: tuple[KindResult, ...] = ()
    cases: tuple[AuditedCase, ...] = ()
    annotators: AnnotatorsAudit | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return audit_of_version_1(values)


def read_audit(folder: Path) -> SiteAudit:
    """Read the findings in the folder of an audit.

    Raises:
        DataError: if there are none, or they cannot be read.
    """
    audit = read_record(folder / FINDINGS_FILE, SiteAudit)
    if audit is None:
        raise DataError(f"{folder}: found no {FINDINGS_FILE}; expected the folder of a site's audit.")
    return audit


def write_audit(folder: Path, audit: SiteAudit) -> None:
    """Write the findings in one step."""
    write_record(folder / FINDINGS_FILE, audit)
