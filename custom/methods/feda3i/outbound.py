"""What leaves a site in FedA³I, beside what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import ESTIMATE_QUALITY

OUTBOUND_FIELDS = (
    OutboundField(
        "num_samples", (ESTIMATE_QUALITY,), "count", "the size of the site's data: pictures, volumes or slices"
    ),
    OutboundField(
        "inner_difficulty", (ESTIMATE_QUALITY,), "numbers", "FedA³I's q_in (Eq. 3)", "num_estimated", sample_bound=2.0
    ),
    OutboundField(
        "outer_difficulty", (ESTIMATE_QUALITY,), "numbers", "FedA³I's q_out (Eq. 4)", "num_estimated", sample_bound=2.0
    ),
    OutboundField("num_estimated", (ESTIMATE_QUALITY,), "counts", "patients or volumes behind the difficulties"),
    OutboundField(
        "predicted_share",
        (ESTIMATE_QUALITY,),
        "number",
        "fraction of annotated samples in which the warm-up model finds anything: is it fit as a reference for "
        "annotations?",
        "num_annotated",
        optional="predicted share",
        sample_bound=1.0,
    ),
    OutboundField(
        "num_annotated",
        (ESTIMATE_QUALITY,),
        "count",
        "patients or volumes with any annotated object, behind that share",
    ),
)
