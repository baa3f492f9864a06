"""FedRobust: the model is trained against the affine change of the images that is worst at each site.

Reisizadeh et al., *Robust Federated Learning: The Case of Affine Distribution Shifts*, NeurIPS 2020. There Λ is a
matrix over all numbers of an image. Here it is a matrix over its channels, and δ one offset for each of them.

Equations, by what they define:
    Λ x + δ                                 channel_change.ChannelChange.forward
    + s/(2λ) ∂ℓ/∂(Λ, δ) − s (Λ − I, δ)      channel_change.ChannelChange.adversary
    ℓ(w; Λ x + δ, y)                        site.ChangedImages
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import FedRobustClassificationSettings, FedRobustSettings

_PARTS = ("fedannot.custom.methods.fedavg.server:FedAvgServer", f"{__name__}.site:FedRobustSite")

METHODS = (
    Method(
        "fedrobust",
        "segmentation",
        FedRobustSettings,
        *_PARTS,
        supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
        consensus=frozenset(ConsensusKind),
    ),
    Method("fedrobust", "classification", FedRobustClassificationSettings, *_PARTS, consensus=frozenset(ConsensusKind)),
)
