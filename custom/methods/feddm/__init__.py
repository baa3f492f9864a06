"""FedDM: two other sites' models choose the pixels that a site trains on, and conflicting updates are projected.

Zhu, Chen, Yuan, *FedDM: Federated Weakly Supervised Segmentation via Annotation Calibration and Gradient
De-Conflicting*, IEEE Transactions on Medical Imaging 2023, in the form of the authors' program. It assumes that
annotations are too large, as boxes are.

**Every site receives models of two other sites.** So a job is refused unless the settings and the limits of all
participants allow it.

Equations, by what they define:
    nearest and farthest sites          peers.chosen_peers
    p = 1 − r min(t / T, 1)             pixel_selection.kept_share
    which pixels are kept               pixel_selection.selected_pixels
    −α (1 − p_y)^γ ln p_y               pixel_selection.focal_loss
    a − ⟨a, b⟩ / ‖b‖² b                 projection.without_conflict
    pairs along the history             projection.projected_mean
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ConsensusKind
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedDMSettings

METHOD = Method(
    "feddm",
    "segmentation",
    FedDMSettings,
    f"{__name__}.server:FedDMServer",
    f"{__name__}.site:FedDMSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    # Of pixels that several annotators share there is no loss that is small.
    consensus=frozenset(ConsensusKind) - {ConsensusKind.SOFT},
    models_to_sites=True,
)
