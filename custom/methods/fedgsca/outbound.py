"""What leaves a site in FedGSCA, beside what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import TRAIN

OUTBOUND_FIELDS = (
    OutboundField(
        "noise_level",
        (TRAIN,),
        "number",
        "fraction of the samples whose label does not look right, FedGSCA's δ (Eq. 8): to tell a site that it has many",
        "num_patients",
        optional="noise level",
        limits=(0.0, 1.0),
    ),
    OutboundField(
        "selector_means",
        (TRAIN,),
        "numbers",
        "means of the mixture over the site's losses, FedGSCA's μ (Eq. 2), for the global sample selector",
        "selector_patients",
        optional="selector",
        length=2,
    ),
    OutboundField(
        "selector_variances",
        (TRAIN,),
        "numbers",
        "its variances, σ²",
        "selector_patients",
        optional="selector",
        length=2,
    ),
    OutboundField(
        "selector_priors", (TRAIN,), "numbers", "its weights, π", "selector_patients", optional="selector", length=2
    ),
    OutboundField(
        "selector_patients",
        (TRAIN,),
        "counts",
        "patients with a sample that is more probably of each component: a component of few tells their losses",
        optional="selector",
        length=2,
    ),
)
