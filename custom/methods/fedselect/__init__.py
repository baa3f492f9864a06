"""FedSelect: a small network learns how much a case's loss says that it is worth training on.

Zhang, Miao, Li, Wu, Shang, *Proxy-validated importance-aware … meta learning*, KDD 2025, in the form of the authors'
program where nothing else is said.

Equations, by what they define:
    V(ℓ) = σ(w₂ᵀ max(w₁ ℓ + b₁, 0) + b₂)        scorer.selection_weights
    m, m̂                                        margins.smoothed_margins
    ∇_V L(θ'), θ' = θ − η ∇ mean V(ℓ) ℓ        meta_step.scorer_gradient
    draws ∝ V(ℓ), with replacement               drawing.drawn_cases
"""

from ...annotation_gaps import AnnotationGap
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedSelectClassificationSettings, FedSelectSettings

_HALVES = (f"{__name__}.server:FedSelectServer", f"{__name__}.site:FedSelectSite", OUTBOUND_FIELDS)

METHODS = (
    Method(
        "fedselect",
        "segmentation",
        FedSelectSettings,
        *_HALVES,
        supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    ),
    Method("fedselect", "classification", FedSelectClassificationSettings, *_HALVES),
)
