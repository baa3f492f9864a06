"""FedCorr: sites with wrong labels are found and relabel, the clean ones train alone for a while, then all of them.

Xu, Chen, Quek, Chong, *FedCorr: Multi-Stage Federated Learning for Label Noise Correction*, CVPR 2022. It is of
classification; for segmentation pixels are relabelled, and sites are divided by their mean losses.

Equations, by what they define:
    LID(x) = −k / Σ_{j ≤ k} ln(d_j / (d_k + ε))     dimensionality.local_dimensionality
    who is noisy                            fedannot.custom.methods.fednoro.noisy_sites.noisy_sites
    μ_k, the share of noisy labels          loss_groups.higher_losses
    which labels are replaced               relabelling.Relabelling
    λ L(y_a) + (1 − λ) L(y_b)               local_objectives.MixupObjective
    β μ_k ‖w − w_t‖                         local_objectives.DistancePenalty
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .outbound import CLASSIFICATION_FIELDS, SEGMENTATION_FIELDS
from .settings import FedCorrClassificationSettings, FedCorrSettings

_HALVES = (f"{__name__}.server:FedCorrServer", f"{__name__}.site:FedCorrSite")

METHODS = (
    Method(
        "fedcorr",
        "segmentation",
        FedCorrSettings,
        *_HALVES,
        SEGMENTATION_FIELDS,
        supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
        consensus=frozenset(ConsensusKind),
    ),
    Method(
        "fedcorr",
        "classification",
        FedCorrClassificationSettings,
        *_HALVES,
        CLASSIFICATION_FIELDS,
        consensus=frozenset(ConsensusKind),
    ),
)
