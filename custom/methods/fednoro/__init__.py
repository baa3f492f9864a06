"""FedNoRo: sites with noisy labels are found after a warm-up, learn from the global model, and weigh less.

Wu et al., *FedNoRo: Towards Noise-Robust Federated Learning by Addressing Class Imbalance and Label Noise
Heterogeneity*, IJCAI 2023, in the form of the authors' program. It is of classification; for segmentation the losses
are FedA³I's along the contours, and logits are not adjusted unless asked for.

Equations, by what they define:
    CE(z + ln π_k)                          prior.AdjustedNetwork
    who is noisy                            noisy_sites.noisy_sites
    w KL(s ‖ softmax(z + ln π)) + (1 − w) CE    distillation.DistillationObjective
    w(t) = w_max exp(−5 (1 − t)²)           distillation.distillation_weight
    n_i exp(−D_i)                           distance_weights.distance_weights
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..feda3i.outbound import OUTBOUND_FIELDS as DIFFICULTY_FIELDS
from .outbound import OUTBOUND_FIELDS
from .settings import FedNoRoClassificationSettings, FedNoRoSettings

_HALVES = (f"{__name__}.server:FedNoRoServer", f"{__name__}.site:FedNoRoSite")

METHODS = (
    Method(
        "fednoro",
        "segmentation",
        FedNoRoSettings,
        *_HALVES,
        DIFFICULTY_FIELDS,
        supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
        consensus=frozenset(ConsensusKind),
    ),
    Method(
        "fednoro",
        "classification",
        FedNoRoClassificationSettings,
        *_HALVES,
        OUTBOUND_FIELDS,
        consensus=frozenset(ConsensusKind),
    ),
)
