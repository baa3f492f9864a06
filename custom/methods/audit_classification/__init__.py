"""The audit of class labels: an early model of federated averaging predicts every site's labels.

With more than one fold sites split their patients into parts, as in `audit`, and each part is predicted by a model that
was trained on the others. A site reports its noise level as in `auto_classification`. It scores every label by how much
more another class is probable, by the model and by the labels of samples that look alike. Labels and scores stay at
the site, which alone gets what is concluded of it.

Equations, by what they define:
    parts of the patients                fedannot.custom.methods.audit.folds.parts
    noise level and interval          fedannot.custom.methods.auto_classification.confident_samples.estimate_noise_level
    doubted labels that are wrong        fedannot.custom.methods.auto_classification.confident_samples.estimate_support
    what is confirmed (Holm)             fedannot.custom.annotation_bias.significance.effect_tests
    what look-alikes say                 label_scores.with_look_alikes
    score of a label                     label_scores.score_labels
    probability that a label is wrong    label_calibration.calibrate_scores
"""

from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import AuditClassificationSettings

METHOD = Method(
    "audit_classification",
    "classification",
    AuditClassificationSettings,
    f"{__name__}.server:AuditClassificationServer",
    f"{__name__}.site:AuditClassificationSite",
    OUTBOUND_FIELDS,
)
