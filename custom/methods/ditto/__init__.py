"""Ditto: federated averaging, and besides it a model of each site near the global one.

Li et al., *Ditto: Fair and Robust Federated Learning Through Personalization*, ICML 2021.

Equations, by what they define:
    F_k(v) + λ/2 ‖v − w_t‖²         site.DittoSite.train_both
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS, PERSONAL_SERVER
from .settings import DittoSettings

METHOD = Method(
    "ditto",
    "segmentation",
    DittoSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:DittoSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind) - {ConsensusKind.SOFT},
)
