"""The inside part of IOP-FL: federated averaging, and for each site a moving average of its own trained models.

Jiang et al., *IOP-FL: Inside-Outside Personalization for Federated Medical Image Segmentation*, IEEE Transactions on
Medical Imaging 2023. The outside part, which routes images of others by all sites' models, is left out.

Equations, by what they define:
    u ← α u + (1 − α) w             site.OwnAverage.add
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS, PERSONAL_SERVER
from .settings import IopFlSettings

METHOD = Method(
    "iop_fl",
    "segmentation",
    IopFlSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:IopFlSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
