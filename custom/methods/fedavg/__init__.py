"""Federated averaging, for segmentation and for classification; what other methods begin with.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017. Sites train
the global model on their own data; the server averages what they send by their numbers of samples. The background of a
site that does not annotate some classes stands for them, too (Shi et al., Medical Image Analysis 2021).

Equations, by what they define:
    Σ_k n_k/n θ_k                   fedannot.custom.aggregation.weighting.quantity_weights
    p_0 + Σ p_j, marginal           fedannot.custom.training.marginal_classes.MarginalClasses.logits
    μ/2 ‖θ − θ_t‖², FedProx         fedannot.custom.training.objectives.ProximalPenalty
    FedAvgM, FedAdam, FedYogi       fedannot.custom.aggregation.server_optimizer.ServerOptimizer
    ⟨c − c_k, θ⟩, SCAFFOLD          control_variates.DriftPenalty
    c_k, option II of SCAFFOLD      control_variates.next_variate
    c + S/K mean (c_k⁺ − c_k)       control_variates.ServerVariate
    ‖a‖₁, FedNova                   local_progress.accumulated_steps
    θ − τ_eff Σ p_k d_k, FedNova    averaging_server.AveragingServer.combine
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ...outbound.fields import OutboundField
from ...task_names import TRAIN
from .averaging_settings import ClassificationAveragingSettings, SegmentationAveragingSettings

_HALVES = (f"{__name__}.averaging_server:AveragingServer", f"{__name__}.averaging_site:AveragingSite")
_OUTBOUND_FIELDS = (OutboundField("num_steps", (TRAIN,), "count", optional="local steps", limits=(1.0, 2.0**31)),)

METHODS = (
    Method(
        "fedavg",
        "segmentation",
        SegmentationAveragingSettings,
        *_HALVES,
        _OUTBOUND_FIELDS,
        supports=frozenset(AnnotationGap),
        consensus=frozenset(ConsensusKind),
    ),
    Method(
        "fedavg",
        "classification",
        ClassificationAveragingSettings,
        *_HALVES,
        _OUTBOUND_FIELDS,
        consensus=frozenset(ConsensusKind),
    ),
)
