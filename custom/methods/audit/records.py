"""What an audit adds to a run's summary, as records."""

from typing import Literal

from ...run.records import Record


class KindShare(Record):
    """What a site reported of one kind of problem; None where too few patients stand behind it.

    Attributes:
        flagged: share of the patients with a finding.
        auroc: how well known errors of the kind are told from none there.
    """

    flagged: float | None
    auroc: float | None


class AuditRecord(Record):
    """What the sites reported of their cases.

    Attributes:
        version: of this form.
        kinds: by site and kind of problem.
        patients: audited, by site.
        units: of the offsets, ``mm`` or ``px``, by site.
        told: sites that have what the federation concludes of them.
    """

    version: int = 1
    kinds: dict[str, dict[str, KindShare]]
    patients: dict[str, int]
    units: dict[str, Literal["px", "mm"]]
    told: tuple[str, ...]


class AuditFindings(Record):
    """What the summary of an audit has beside the channels.

    Attributes:
        audit: None before the last round.
    """

    audit: AuditRecord | None
