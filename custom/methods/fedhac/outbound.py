"""What leaves a site in FedHAC, in addition to federated averaging: what FedIA's published form sends, and means."""

from ...outbound.fields import OutboundField
from ...task_names import TRAIN
from ..fedia.outbound import OUTBOUND_FIELDS as FEDIA_FIELDS

# Attributes of what is counted of every case, whose sums are sent.
COUNTS = ("annotated", "predicted")
_NAMES = {"num_samples", "num_patients", *(f"num_{name}_lesions" for name in COUNTS), "has_corrected"}

PROTOTYPES, PROTOTYPE_PATIENTS = "prototypes", "num_prototype_patients"
# Means of normalised activations are near 1. Of a network whose features are larger none are sent.
LARGEST_FEATURE = 1e3

OUTBOUND_FIELDS = (
    *(field for field in FEDIA_FIELDS if field.name in _NAMES),
    # (C + 1) · D numbers.
    OutboundField(
        PROTOTYPES,
        (TRAIN,),
        "numbers",
        counted_by=PROTOTYPE_PATIENTS,
        optional="prototypes",
        limits=(-LARGEST_FEATURE, LARGEST_FEATURE),
        has_background=True,
        largest_width=4096,
    ),
    OutboundField(PROTOTYPE_PATIENTS, (TRAIN,), "counts", optional="prototypes", has_background=True),
)
