"""FedA³I: aggregation by annotation quality, for contours that sites draw too large or too small.

Wu et al., *FedA³I: Annotation Quality-Aware Aggregation for Federated Medical Image Segmentation against Heterogeneous
Annotation Noise*, AAAI 2024. After a warm-up by federated averaging the server tells from the model's errors along the
contours which sites draw larger and which smaller. The noisier a site, the less it weighs, above all in deep layers.

Equations:
    Eq. 1   fedannot.transforms.noise.federation_noise.FederationNoise.draw
    Eq. 2   fedannot.custom.aggregation.weighting.quantity_weights
    Eq. 3   learning_difficulty.band_difficulty, learning_difficulty.site_difficulty
    Eq. 4   learning_difficulty.band_difficulty, learning_difficulty.site_difficulty
    Eq. 5   weights.noise_strength
    Eq. 6   weights.quality_weights
    Eq. 7   weights.layer_coefficients, weights.layer_weights
"""

from ...annotation_gaps import AnnotationGap
from ...consensus_rule import ONE_LABEL
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import FedA3ISettings

METHOD = Method(
    "feda3i",
    "segmentation",
    FedA3ISettings,
    f"{__name__}.server:FedA3IServer",
    f"{__name__}.site:FedA3ISite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
    consensus=ONE_LABEL,
)
