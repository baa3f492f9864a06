"""What the images of a federation are like, in aggregates of which a training is planned; see ``fedannot plan``.

Sites describe their training cases before any resampling. The server weighs what they send by numbers of cases, which
gives the fingerprint of all cases together. Then a round of federated averaging follows, as in every run.

Equations, by what they define:
    Σ_k n_k/n f_k, pooled           fedannot.custom.planning.fingerprint.Fingerprint.pooled
    levels of a U-Net               fedannot.custom.planning.topology.Topology.of
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FingerprintSettings

METHOD = Method(
    "fingerprint",
    "segmentation",
    FingerprintSettings,
    f"{__name__}.server:FingerprintServer",
    f"{__name__}.site:FingerprintSite",
    OUTBOUND_FIELDS,
    supports=frozenset(AnnotationGap),
    consensus=frozenset(ConsensusKind),
)
