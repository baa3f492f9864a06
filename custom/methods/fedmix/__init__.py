"""The aggregation of FedMix: federated averaging in which sites with a larger Dice loss weigh more.

Wicaksana et al., *FedMix: Mixed Supervised Federated Learning for Medical Image Segmentation*, IEEE Transactions on
Medical Imaging 2023. Its two networks serve sites with weaker annotations than masks, and are left out: with masks
alone, which is how FedA³I compares it, the aggregation is what remains.

Equations, by what they define:
    (n_k/n + λ ℓ_k^β / Σ ℓ_j^β) / (1 + λ)   weights.loss_weights
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import FedMixSettings

METHOD = Method(
    "fedmix",
    "segmentation",
    FedMixSettings,
    f"{__name__}.server:FedMixServer",
    "fedannot.custom.methods.fedavg.site:FedAvgSite",
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind) - {ConsensusKind.SOFT},
)
