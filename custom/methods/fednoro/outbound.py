"""What leaves a site in FedNoRo for classification, in addition to federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import ESTIMATE_CLASS_LOSSES

OUTBOUND_FIELDS = (
    OutboundField("num_samples", (ESTIMATE_CLASS_LOSSES,), "count"),
    OutboundField(
        "class_losses", (ESTIMATE_CLASS_LOSSES,), "numbers", counted_by="num_loss_patients", sample_bound=2.0
    ),
    OutboundField("num_loss_patients", (ESTIMATE_CLASS_LOSSES,), "counts"),
)
