"""What an audit of class labels adds to a run's summary, as records."""

from typing import Any, ClassVar

from pydantic import model_validator

from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.statuses import Evidence
from ...records.round_records import Record
from ..audit.records import AuditRecord
from ..auto_classification.version_1 import with_right_labels


class LabelAuditFindings(Record):
    """What the summary of an audit of labels has; the form of version 1 is read as well.

    Attributes:
        noise_levels: by site, what was estimated and concluded.
        right_labels: what is taken as the noise level of right labels; None before the last round.
        audit: shares that sites reported; None before the last round.
    """

    earlier_names: ClassVar[frozenset[str]] = frozenset({"neutral_is"})

    noise_levels: dict[str, ParameterRecord]
    right_labels: Evidence | None
    audit: AuditRecord | None

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return with_right_labels(values)
