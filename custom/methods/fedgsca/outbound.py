"""What leaves a site in FedGSCA, besides what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import TRAIN

OUTBOUND_FIELDS = (
    OutboundField(
        "noise_level", (TRAIN,), "number", counted_by="num_patients", optional="noise level", limits=(0.0, 1.0)
    ),
    OutboundField("selector_means", (TRAIN,), "numbers", counted_by="selector_patients", optional="selector", length=2),
    OutboundField(
        "selector_variances", (TRAIN,), "numbers", counted_by="selector_patients", optional="selector", length=2
    ),
    OutboundField(
        "selector_priors", (TRAIN,), "numbers", counted_by="selector_patients", optional="selector", length=2
    ),
    OutboundField("selector_patients", (TRAIN,), "counts", optional="selector", length=2),
)
