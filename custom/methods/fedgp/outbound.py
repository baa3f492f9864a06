"""What leaves a site in FedGP without the graph network, in addition to federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import TRAIN
from ..fedhac.outbound import LARGEST_FEATURE

CENTROIDS, CENTROID_PATIENTS = "class_centroids", "num_centroid_patients"

OUTBOUND_FIELDS = (
    # C · D numbers.
    OutboundField(
        CENTROIDS,
        (TRAIN,),
        "numbers",
        counted_by=CENTROID_PATIENTS,
        optional="centroids",
        limits=(-LARGEST_FEATURE, LARGEST_FEATURE),
        largest_width=4096,
    ),
    OutboundField(CENTROID_PATIENTS, (TRAIN,), "counts", optional="centroids"),
)
