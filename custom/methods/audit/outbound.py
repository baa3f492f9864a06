"""What leaves a site in an audit, beside what leaves it in federated averaging: never a case."""

from ...audit.kind_names import SEGMENTATION_KINDS
from ...outbound.fields import OutboundField
from ..auto.outbound import CHANNEL_FIELDS

KEEP_JUDGE = "keep_judge"
AUDIT_CASES = "audit_cases"
CONCLUDE = "conclude"

FLAGGED, AUROC = "flagged_shares", "kind_aurocs"

LEAVES = (
    *CHANNEL_FIELDS,
    OutboundField("has_kept", (KEEP_JUDGE,), "flag", "whether the site has kept the model that judges a part of it"),
    OutboundField("num_patients", (AUDIT_CASES,), "count", "patients or volumes that were audited"),
    OutboundField(
        FLAGGED,
        (AUDIT_CASES,),
        "numbers",
        "share of the patients with a finding, by kind of problem: what the federation's page shows",
        "num_patients",
        length=len(SEGMENTATION_KINDS),
        limits=(0.0, 1.0),
    ),
    OutboundField(
        AUROC,
        (AUDIT_CASES,),
        "numbers",
        "how well known errors of each kind are told from none at the site: what its findings are worth",
        "num_patients",
        length=len(SEGMENTATION_KINDS),
        limits=(0.0, 1.0),
    ),
    OutboundField("has_concluded", (CONCLUDE,), "flag", "whether the site has what the federation concludes of it"),
)
