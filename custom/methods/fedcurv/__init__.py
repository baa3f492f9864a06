"""FedCurv: a penalty for leaving what other sites have learnt, for sites with data of different kinds.

Shoham et al., *Overcoming Forgetting in Federated Learning on Non-IID Data*, 2019. Every site sends with its parameters
how sharply its loss bends around them. The others' loss grows where they move parameters that bend it sharply.

Equations, by what they define:
    diag(I_j)                                   curvature.fisher_diagonal
    Σ_j diag(I_j) and Σ_j diag(I_j) θ_j         curvature.OthersCurvature.of
    Σ_j (θ − θ_j)ᵀ diag(I_j) (θ − θ_j)          curvature.OthersCurvature.penalty
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .settings import FedCurvSettings

METHOD = Method(
    "fedcurv",
    "segmentation",
    FedCurvSettings,
    f"{__name__}.server:FedCurvServer",
    f"{__name__}.site:FedCurvSite",
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind) - {ConsensusKind.SOFT},
)
