"""Decoupled predictions: a global and a personal one, for sites that annotate by different protocols.

Gao et al., *Decoupling Predictions in Distributed Learning for Multi-Center Left Atrial MRI Segmentation*, MICCAI 2022.
The shared network predicts generic annotations. A small network that never leaves the site turns them into the site's
own by a matrix at every pixel, which depends on a latent code of image and annotation.

Equations:
    Eq. 1   codes.Gaussian.divergence_from, loss.DecoupledLoss
    Eq. 2   codes.DistributionEncoder
    Eq. 3   network.DecoupledNetwork.encode_annotated
    Eq. 4   adaptation.log_local_probabilities
    Eq. 5   loss.mean_trace
    Eq. 6   loss.noise_robust_loss
    Eq. 7   loss.DecoupledLoss
    Eq. 8   loss.DecoupledLoss
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ONE_LABEL
from ...interface.declaration import Method
from ..personal import OUTBOUND_FIELDS
from .settings import DecoupledSettings

METHOD = Method(
    "decoupled",
    "segmentation",
    DecoupledSettings,
    f"{__name__}.server:DecoupledServer",
    f"{__name__}.site:DecoupledSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=ONE_LABEL,
)
