"""What leaves a site in an audit, besides what leaves it in federated averaging: never a case."""

from ...audit.kind_names import SEGMENTATION_KINDS
from ...outbound.fields import OutboundField
from ...task_names import AUDIT_CASES, CONCLUDE, KEEP_REFERENCE_MODEL
from ..auto.outbound import BIAS_FIELDS
from .annotator_fields import ANNOTATOR_FIELDS

FLAGGED, AUROC = "flagged_shares", "kind_aurocs"

# What every method leaves whose reference models predict patients that they have not learnt.
FOLDS_FIELDS = (
    OutboundField("has_kept", (KEEP_REFERENCE_MODEL,), "flag"),
    OutboundField("has_concluded", (CONCLUDE,), "flag"),
)


def share_fields(task: str, num_kinds: int) -> tuple[OutboundField, ...]:
    """Return what leaves of the cases that a site has scored.

    Args:
        task: whose answer holds it.
        num_kinds: number of kinds of problems.
    """
    return (
        OutboundField("num_patients", (task,), "count"),
        OutboundField(FLAGGED, (task,), "numbers", counted_by="num_patients", length=num_kinds, limits=(0.0, 1.0)),
        OutboundField(AUROC, (task,), "numbers", counted_by="num_patients", length=num_kinds, limits=(0.0, 1.0)),
    )


OUTBOUND_FIELDS = (
    *BIAS_FIELDS,
    *FOLDS_FIELDS,
    *share_fields(AUDIT_CASES, len(SEGMENTATION_KINDS)),
    *ANNOTATOR_FIELDS,
)
