"""Every site by itself: nothing is averaged but what all were sent."""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS, PERSONAL_SERVER
from .settings import SingleSiteSettings

METHOD = Method(
    "single_site",
    "segmentation",
    SingleSiteSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:LoneSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=frozenset(ConsensusKind),
)
