"""Federated averaging, for segmentation and for classification; what other methods begin with.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017. Sites train
the global model on their own data; the server averages what they send by their numbers of samples. The background of a
site that does not annotate some classes stands for them, too (Shi et al., Medical Image Analysis 2021).

Equations, by what they define:
    Σ_k n_k/n θ_k                   fedannot.custom.aggregation.weighting.quantity_weights
    p_0 + Σ p_j, marginal           fedannot.custom.training.marginal_classes.MarginalClasses.logits
    μ/2 ‖θ − θ_t‖², FedProx         fedannot.custom.training.objectives.ProximalPenalty
"""

from ...annotation_gaps import AnnotationGap
from ...interface.declaration import Method
from .settings import ClassificationSettings, FedAvgSettings

_HALVES = (f"{__name__}.server:FedAvgServer", f"{__name__}.site:FedAvgSite")

METHODS = (
    Method("fedavg", "segmentation", FedAvgSettings, *_HALVES, supports=frozenset(AnnotationGap)),
    Method("fedavg", "classification", ClassificationSettings, *_HALVES),
)
