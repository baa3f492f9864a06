"""What an audit of class labels adds to a run's summary, as records."""

from ...records.round_records import Record
from ..audit.records import AuditRecord
from ..auto.records import ParameterRecord


class LabelAuditFindings(Record):
    """What the summary of an audit of labels has.

    Attributes:
        noise_levels: by site, what was estimated and concluded.
        neutral_is: what is taken as the noise level of right labels, in words; empty before the last round.
        audit: shares that sites reported; None before the last round.
    """

    noise_levels: dict[str, ParameterRecord]
    neutral_is: str
    audit: AuditRecord | None
