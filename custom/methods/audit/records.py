"""What an audit adds to a run's summary, as records."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ...annotation_bias.statuses import Unit
from ...records.plain_values import finite
from ...records.round_records import Record
from .outbound import AUROC, FLAGGED


class KindShare(Record):
    """What a site reported of one kind of problem; None where too few patients stand behind it.

    Attributes:
        flagged: fraction of the patients with a finding.
        auroc: how well injected errors of the kind are distinguished from none there.
    """

    flagged: float | None
    auroc: float | None


class AuditRecord(Record):
    """What the sites reported of their cases.

    Attributes:
        version: of this form.
        kinds: by site and kind of problem.
        patients: audited, by site.
        units: of the offsets, by site; empty where contours are not what is audited.
        informed: sites that have what the federation concludes of them.
        is_fit: whether the model found enough of what is annotated to predict it; None where that was not asked.
    """

    version: int = 1
    kinds: dict[str, dict[str, KindShare]]
    patients: dict[str, int]
    units: dict[str, Unit] = Field(default_factory=dict)
    informed: tuple[str, ...]
    is_fit: bool | None = None

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
        added = {"units": None if units is None else dict(units), "is_fit": is_fit}
        return record.model_copy(update={name: value for name, value in added.items() if value is not None})


class AuditFindings(Record):
    """What the summary of an audit has beside the channels.

    Attributes:
        audit: None before the last round.
    """

    audit: AuditRecord | None


def _shares(fields: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, KindShare]:
    """What a site reported of each kind."""
    columns = zip(kinds, fields[FLAGGED], fields[AUROC], strict=True)
    return {kind: KindShare(**finite({"flagged": flagged, "auroc": auroc})) for kind, flagged, auroc in columns}
