"""RMD: two networks choose the pixels that the other is trained on, and teach each other where they are certain.

Fang et al., *Reliable Mutual Distillation for Medical Image Segmentation Under Imperfect Annotations*, IEEE TMI 2023.
It is of one machine. Here both networks are federated, in the form that FedA³I and FedIA compare with; the first one is
the result. The paper's text could not be read: what is here follows descriptions of the authors' program.

Equations, by what they define:
    R(e) = τ min(e / t, 1); the (1 − R) n pixels with the smallest loss     pixel_choice.smallest_pixels
    Σ_c (f(a(x)) − a(f(x)))²; KL(a(f₂(x)) ‖ f₁(a(x)))                       distillation.distillation_loss
    L₁ + L₂ + λ exp(−5 (1 − e / t)²) (KL₁ + KL₂)                            mutual_objective.MutualObjective
    a: mirroring, noise, rotation, zoom, deformation                        image_changes.ImageChange
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import RmdSettings

METHOD = Method(
    "rmd",
    "segmentation",
    RmdSettings,
    f"{__name__}.server:RmdServer",
    f"{__name__}.site:RmdSite",
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
