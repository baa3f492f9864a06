"""What leaves a site in FedHAC, in addition to federated averaging: what the published form of FedIA sends."""

from ..fedia.outbound import OUTBOUND_FIELDS as FEDIA_FIELDS

# Attributes of what is counted of every case, whose sums are sent.
COUNTS = ("annotated", "predicted")
_NAMES = {"num_samples", "num_patients", *(f"num_{name}_lesions" for name in COUNTS), "has_corrected"}

OUTBOUND_FIELDS = tuple(field for field in FEDIA_FIELDS if field.name in _NAMES)
