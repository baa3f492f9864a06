"""FedGP without the graph network: class centroids are the last layer, and tell whose labels count.

Chen, Li, Xing, Yuan, *Medical Federated Learning with Joint Graph Purification for Noisy Label Learning*, Medical Image
Analysis 2023, in our reading of the authors' program. There a graph network makes the server's centroids of the sites';
here they are the mean of what that network begins with, the sites' centroids after layer normalisation.

Equations, by what they define:
    p_c ← (p_c + mean f) / 2            centroids.OwnCentroids.add
    (p_c − mean) / deviation            centroids.as_head
    (L(F Pᵀ) + L(F Sᵀ)) / 2 + γ mean ‖f‖    centroid_head.CentroidObjective
    −1/|U| Σ_{c ∈ U} ln(1 − p_c)        centroid_head.negative_losses
    F = (1 − α) (I − α S)⁻¹ Y           neighbour_graph.NeighbourGraph.propagated
    whose labels count                  label_cleaning.cleaned_labels
"""

from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedGPSettings

METHOD = Method(
    "fedgp",
    "classification",
    FedGPSettings,
    f"{__name__}.server:FedGPServer",
    f"{__name__}.site:FedGPSite",
    OUTBOUND_FIELDS,
    consensus=frozenset(ConsensusKind),
)
