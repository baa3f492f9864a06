"""What leaves a site in FedA³I, besides what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import ESTIMATE_QUALITY

OUTBOUND_FIELDS = (
    OutboundField("num_samples", (ESTIMATE_QUALITY,), "count"),
    OutboundField("inner_difficulty", (ESTIMATE_QUALITY,), "numbers", counted_by="num_estimated", sample_bound=2.0),
    OutboundField("outer_difficulty", (ESTIMATE_QUALITY,), "numbers", counted_by="num_estimated", sample_bound=2.0),
    OutboundField("num_estimated", (ESTIMATE_QUALITY,), "counts"),
    OutboundField(
        "predicted_share",
        (ESTIMATE_QUALITY,),
        "number",
        counted_by="num_annotated",
        optional="predicted share",
        sample_bound=1.0,
    ),
    OutboundField("num_annotated", (ESTIMATE_QUALITY,), "count"),
)
