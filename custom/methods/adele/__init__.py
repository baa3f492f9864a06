"""ADELE: masks are corrected, class by class, where the fit to them slows down; training agrees across scales.

Liu et al., *Adaptive Early-Learning Correction for Segmentation from Noisy Annotations*, CVPR 2022. It is of one
machine. Here the IoU with the given masks is that of all sites together, in the form that FedA³I compares with.

Equations, by what they define:
    λ Σ_s KL(p_s ‖ q) + mean_s L(z_s)               multi_scale.MultiScaleObjective, multi_scale.consistency_term
    f(x) = a (1 − exp(−x^b / c))                    iou_curve.IouCurve
    |f'(1) − f'(t)| / |f'(1)| > r                   iou_curve.IouCurve.slows_down_at
    y → ŷ, where p_ŷ > τ and y, ŷ are 0 or c        confident_pixels.decided_pixels
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import AdeleSettings

METHOD = Method(
    "adele",
    "segmentation",
    AdeleSettings,
    f"{__name__}.server:AdeleServer",
    f"{__name__}.site:AdeleSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
