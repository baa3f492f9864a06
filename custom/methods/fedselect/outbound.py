"""What leaves a site in FedSelect, in addition to federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import MEASURE_SCORER_GRADIENT, TRAIN

# Of the network that weighs cases: 100 weights and 100 biases, 100 weights and one bias.
NUM_PARAMETERS = 301
SELECTION_WEIGHT, SCORER_GRADIENT, PROXY_PATIENTS = "selection_weight", "scorer_gradient", "num_proxy_patients"

OUTBOUND_FIELDS = (
    OutboundField(
        SELECTION_WEIGHT, (TRAIN,), "number", counted_by="num_scored_patients", optional="selection", limits=(0.0, 1.0)
    ),
    OutboundField("num_scored_patients", (TRAIN,), "count", optional="selection"),
    OutboundField(
        SCORER_GRADIENT,
        (MEASURE_SCORER_GRADIENT,),
        "numbers",
        counted_by=PROXY_PATIENTS,
        limits=(-1e6, 1e6),
        length=NUM_PARAMETERS,
    ),
    OutboundField(PROXY_PATIENTS, (MEASURE_SCORER_GRADIENT,), "count"),
)
