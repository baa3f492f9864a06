"""FedBN: federated averaging in which every site keeps its own normalisation layers.

Li et al., *FedBN: Federated Learning on Non-IID Features via Local Batch Normalization*, ICLR 2021. It has no formula
but that of federated averaging, over the other layers.
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS
from .settings import FedBnSettings

METHOD = Method(
    "fedbn",
    "segmentation",
    FedBnSettings,
    f"{__name__}.server:FedBnServer",
    f"{__name__}.site:FedBnSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
