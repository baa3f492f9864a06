"""FedRep: the representation is averaged, every site has a head of its own.

Collins et al., *Exploiting Shared Representations for Personalized Federated Learning*, ICML 2021.

Equations, by what they define:
    head first, then representation     site.FedRepSite.train_both
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS, PERSONAL_SERVER
from .settings import FedRepSettings

METHOD = Method(
    "fedrep",
    "segmentation",
    FedRepSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:FedRepSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
