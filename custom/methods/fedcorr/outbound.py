"""What leaves a site in FedCorr, in addition to federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_NOISE_SHARE, ESTIMATE_SITE_NOISE, TRAIN

MEAN_LOSS, DIMENSIONALITY, NOISE_SHARE, HAS_CORRECTED = (
    "mean_case_loss",
    "local_dimensionality",
    "noise_share",
    "has_corrected",
)

_OF_ALL = (
    OutboundField("num_statistic_patients", (ESTIMATE_SITE_NOISE,), "count"),
    OutboundField(NOISE_SHARE, (ESTIMATE_NOISE_SHARE,), "number", counted_by="num_share_patients", limits=(0.0, 1.0)),
    OutboundField("num_share_patients", (ESTIMATE_NOISE_SHARE,), "count"),
    OutboundField(HAS_CORRECTED, (TRAIN, CORRECT_ANNOTATIONS), "flag", optional="correction"),
)
_LOSS = OutboundField(
    MEAN_LOSS,
    (ESTIMATE_SITE_NOISE,),
    "number",
    counted_by="num_statistic_patients",
    optional="mean loss",
    limits=(0.0, 1e6),
    sample_bound=2.0,
)
# Of every case it follows from all cases of the site, so that no bound of a case's own value hides a patient.
_DIMENSIONALITY = OutboundField(
    DIMENSIONALITY,
    (ESTIMATE_SITE_NOISE,),
    "number",
    counted_by="num_statistic_patients",
    optional="dimensionality",
    limits=(0.0, 1e9),
)

SEGMENTATION_FIELDS = (*_OF_ALL, _LOSS)
CLASSIFICATION_FIELDS = (*_OF_ALL, _LOSS, _DIMENSIONALITY)
