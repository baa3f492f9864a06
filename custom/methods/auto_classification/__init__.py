"""What classes sites take for each other is estimated, and corrected at the site: an own method, for classification.

A model of some rounds of federated averaging predicts every site's labels. Where it is most confident it is right often
enough that its disagreement with the labels is the site's noise level (Patrini et al., *Making Deep Neural Networks
Robust to Label Noise: a Loss Correction Approach*, CVPR 2017, take the most confident samples for what they seem to be,
too). A site whose level is confirmed gives its wrong labels the class that they look like, and corrects its loss for
the rest.

Equations, by what they define:
    Q, counts of given and seeming classes   confident_samples.confident_confusion
    noise level, 1 − Σ_c Q_cc, and interval  confident_samples.estimate_noise_level
    doubted labels that are wrong            confident_samples.estimate_support
    what is confirmed (Holm)                 fedannot.custom.annotation_bias.significance.effect_tests
    labels that are changed                  relabelling.relabel
    classes that the model may mix up        relabelling.mixed_up
    T of what is left of the noise           relabelling.residual_transition
    −log Σ_c p_c T_c,given                   fedannot.custom.training.corrected_loss.ForwardCorrected
"""

from ...interface.declaration import Method
from ..fedgsca import outbound as fedgsca
from .outbound import OUTBOUND_FIELDS
from .settings import AutoClassificationSettings

METHOD = Method(
    "auto_classification",
    "classification",
    AutoClassificationSettings,
    f"{__name__}.server:AutoClassificationServer",
    f"{__name__}.site:AutoClassificationSite",
    # A published method may be the treatment.
    (*OUTBOUND_FIELDS, *fedgsca.OUTBOUND_FIELDS),
)
