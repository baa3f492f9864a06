"""What an audit of class labels adds to a run's summary, as records."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from ...annotation_bias.estimate import received
from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.statuses import Evidence
from ...records.round_records import Record
from ..audit.annotator_fields import PLACES
from ..audit.records import AuditRecord, ReportedFigure
from ..auto_classification.version_1 import with_right_labels
from .annotator_fields import ANNOTATOR_CLASS, ANNOTATOR_CLASS_GIVEN, ANNOTATOR_OTHER_CLASS, ANNOTATORS_KAPPA


class ReportedClass(Record):
    """How often an annotator gives another class than one that most others give.

    Attributes:
        fraction: of the cases to which most others give this class.
        given: the class from 0 that is mostly given in its place; None where too few patients have it.
    """

    fraction: ReportedFigure
    given: int | None = None


class ReportedLabelAnnotator(Record):
    """What a site reported of one annotator of class labels; what it withheld is not there.

    Attributes:
        number: that the site has drawn for the run; it says nothing elsewhere.
        other_class: fraction of the cases with another class than most others give.
        classes: the same by the class of the others, from 0.
    """

    number: int
    other_class: ReportedFigure | None = None
    classes: dict[int, ReportedClass] = Field(default_factory=dict)

    def swaps(self, label: int) -> bool:
        """Return whether a class is mostly given in place of another one, and this in place of the first."""
        given = self.classes[label].given
        return given in self.classes and self.classes[given].given == label


class ReportedLabels(Record):
    """What a site reported of its annotators of class labels.

    Attributes:
        annotators: in the order of their numbers.
        kappa: Fleiss' κ of all of them; None where it was withheld.
    """

    annotators: tuple[ReportedLabelAnnotator, ...]
    kappa: ReportedFigure | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "ReportedLabels | None":
        """Take over the fields of a site's answer, which the guard has checked; None where the site sent none.

        Args:
            fields: of the answer.
        """
        if ANNOTATOR_CLASS not in fields:
            return None
        of_all, of_classes = received(ANNOTATOR_OTHER_CLASS, fields), received(ANNOTATOR_CLASS, fields)
        given, result = fields[ANNOTATOR_CLASS_GIVEN], []
        for place in range(PLACES):
            known = {
                label: ReportedClass(fraction=ReportedFigure.of(estimate), given=_other(given_class, label))
                for label, (estimate, given_class) in enumerate(
                    zip(of_classes[place::PLACES], given[place::PLACES], strict=True)
                )
                if estimate.is_known
            }
            of_place = ReportedFigure.of(of_all[place]) if of_all[place].is_known else None
            if known or of_place is not None:
                result.append(ReportedLabelAnnotator(number=place + 1, other_class=of_place, classes=known))
        (kappa,) = received(ANNOTATORS_KAPPA, fields)
        return cls(annotators=tuple(result), kappa=ReportedFigure.of(kappa) if kappa.is_known else None)


def _other(number: int, label: int) -> int | None:
    """A class by its number from 1; None of 0, and of the class itself, which is no other one."""
    return number - 1 if number and number - 1 != label else None


class LabelAuditFindings(Record):
    """What the summary of an audit of labels has; the form of version 1 is read as well.

    Attributes:
        noise_levels: by site, what was estimated and concluded.
        right_labels: what is taken as the noise level of right labels; None before the last round.
        audit: shares that sites reported; None before the last round.
        annotators: by site, of those that reported some.
    """

    earlier_names: ClassVar[frozenset[str]] = frozenset({"neutral_is"})

    noise_levels: dict[str, ParameterRecord]
    right_labels: Evidence | None
    audit: AuditRecord | None
    annotators: dict[str, ReportedLabels] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return with_right_labels(values)
