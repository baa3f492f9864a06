"""What an audit adds to a run's summary, as records."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ...annotation_bias.estimate import Estimate, received
from ...annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.statuses import Unit
from ...records.plain_values import finite
from ...records.round_records import Record
from .annotator_fields import (
    ANNOTATOR_CONFUSED,
    ANNOTATOR_MAJORITY_OFFSET,
    ANNOTATOR_MISSED,
    ANNOTATOR_OFFSET,
    PLACES,
)
from .outbound import AUROC, FLAGGED


class KindShare(Record):
    """What a site reported of one kind of problem; None where too few patients stand behind it.

    Attributes:
        flagged: fraction of the patients with a finding.
        auroc: how well injected errors of the kind are distinguished from none there.
    """

    flagged: float | None
    auroc: float | None


class ReportedFigure(Record):
    """An estimate that has left a site, with its 90 % interval.

    Attributes:
        value: the estimate.
        low: lower end of the interval.
        high: upper end.
        patients: behind it.
    """

    value: float
    low: float
    high: float
    patients: int

    @classmethod
    def of(cls, estimate: Estimate) -> "ReportedFigure":
        """Take over an estimate that is known."""
        return cls(value=estimate.value, low=estimate.low, high=estimate.high, patients=estimate.patients)


class ReportedAnnotator(Record):
    """What a site reported of one annotator; what it withheld is not there.

    Attributes:
        number: that the site has drawn for the run; it says nothing elsewhere.
        parameters: by parameter, compared with predictions.
        from_majority: by class, the boundary bias against the majority of the annotators of the same cases.
    """

    number: int
    parameters: dict[ParameterKey, ReportedFigure] = Field(default_factory=dict)
    from_majority: dict[int, ReportedFigure] = Field(default_factory=dict)


class AuditRecord(Record):
    """What the sites reported of their cases.

    Attributes:
        version: of this form.
        kinds: by site and kind of problem.
        patients: audited, by site.
        units: of the offsets, by site; empty where contours are not what is audited.
        informed: sites that have what the federation concludes of them.
        is_fit: whether the model found enough of what is annotated to predict it; None where that was not asked.
        annotators: of each site that reported some, in the order of their numbers.
    """

    version: int = 1
    kinds: dict[str, dict[str, KindShare]]
    patients: dict[str, int]
    units: dict[str, Unit] = Field(default_factory=dict)
    informed: tuple[str, ...]
    is_fit: bool | None = None
    annotators: dict[str, tuple[ReportedAnnotator, ...]] = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reported: Mapping[str, Mapping[str, Any]],
        kinds: Sequence[str],
        informed: Sequence[str],
        units: Mapping[str, Unit] | None = None,
        *,
        is_fit: bool | None = None,
    ) -> "AuditRecord":
        """Take over what sites reported.

        Args:
            reported: the fields of each site's answer, which the guard has checked.
            kinds: the kinds of problems, in the order of the fields.
            informed: see above.
            units: see above.
            is_fit: see above.
        """
        record = cls(
            kinds={site: _shares(fields, kinds) for site, fields in reported.items()},
            patients={site: fields["num_patients"] for site, fields in reported.items()},
            informed=tuple(informed),
        )
        annotators = {site: _annotators(fields) for site, fields in reported.items() if ANNOTATOR_OFFSET in fields}
        added = {
            "units": None if units is None else dict(units),
            "is_fit": is_fit,
            "annotators": annotators or None,
        }
        return record.model_copy(update={name: value for name, value in added.items() if value is not None})


class AuditFindings(Record):
    """What the summary of an audit has besides the channels.

    Attributes:
        audit: None before the last round.
    """

    audit: AuditRecord | None


def _shares(fields: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, KindShare]:
    """What a site reported of each kind."""
    columns = zip(kinds, fields[FLAGGED], fields[AUROC], strict=True)
    return {kind: KindShare(**finite({"flagged": flagged, "auroc": auroc})) for kind, flagged, auroc in columns}


def _annotators(fields: Mapping[str, Any]) -> tuple[ReportedAnnotator, ...]:
    """What a site reported of its annotators, place by place; those of which it withheld all are left out."""
    biases, missed = received(ANNOTATOR_OFFSET, fields), received(ANNOTATOR_MISSED, fields)
    majority, confused = received(ANNOTATOR_MAJORITY_OFFSET, fields), received(ANNOTATOR_CONFUSED, fields)
    result = []
    for place in range(PLACES):
        parameters = {CONFUSED_OBJECTS: confused[place]}
        for kind, estimates in ((ParameterKind.OFFSET, biases), (ParameterKind.MISSING, missed)):
            of_classes = enumerate(estimates[place::PLACES], start=1)
            parameters |= {ParameterKey(kind, label): one for label, one in of_classes}
        of_majority = {
            label: ReportedFigure.of(one) for label, one in enumerate(majority[place::PLACES], start=1) if one.is_known
        }
        known = {key: ReportedFigure.of(one) for key, one in sorted(parameters.items()) if one.is_known}
        if known or of_majority:
            result.append(ReportedAnnotator(number=place + 1, parameters=known, from_majority=of_majority))
    return tuple(result)
