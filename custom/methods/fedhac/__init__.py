"""FedHAC: FedIA's weights and corrections, with prototypes in training and two groups of sites that correct in turn.

Xiang et al., *Towards Robust Federated Multi-Lesion Segmentation with Heterogeneous Annotation Completeness*, IEEE
Journal of Biomedical and Health Informatics 2025, in the form of the authors' program; of the paper its abstract was
read. After a warm-up, sites weigh by their completeness. As soon as the loss of any site rises, the sites whose losses
were higher correct their annotations, later the others, and at last all do once more, from the given annotations.

Equations, by what they define:
    γ mean (⟨f_i, P_c⟩ 1[c = y_i] − 1)²     prototypes.prototype_loss
    Σ max(0, 1 − ‖P_c − P_d‖)           prototypes.separation_loss
    μ ‖w − w_t‖²                    fedannot.custom.training.objectives.ProximalPenalty
    softmax(â_k / ℓ_k)              fedannot.custom.methods.fedia.completeness.completeness_weights
    IoU_k(t) < line(t) − λ          fedannot.custom.methods.fedia.loss_trigger.sites_below
    who is noisy                    groups.noisy_group
"""

from ...annotation_gaps import AnnotationGap
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedHACSettings

METHOD = Method(
    "fedhac",
    "segmentation",
    FedHACSettings,
    f"{__name__}.server:FedHACServer",
    f"{__name__}.site:FedHACSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
)
