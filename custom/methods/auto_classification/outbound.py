"""What leaves a site in `auto` for classification, besides what leaves it in federated averaging."""

from ...annotation_bias.estimate import estimate_fields
from ...outbound.fields import OutboundField
from ...task_names import CORRECT_LABELS, ESTIMATE_CONFUSION, TRAIN, USE_GIVEN_LABELS
from ..auto.outbound import ROLLBACK_FIELDS

NOISE_LEVEL = "noise_level"
SUPPORT = "support"
CORRECTS_LABELS = "undoes_confusion"

CONFUSION_FIELDS = (
    *estimate_fields(NOISE_LEVEL, ESTIMATE_CONFUSION, calibrated=True, length=1, limits=(0.0, 1.0)),
    *estimate_fields(SUPPORT, ESTIMATE_CONFUSION, calibrated=False, length=1, limits=(0.0, 1.0)),
)

OUTBOUND_FIELDS = (
    *CONFUSION_FIELDS,
    *ROLLBACK_FIELDS,
    OutboundField(CORRECTS_LABELS, (TRAIN, CORRECT_LABELS, USE_GIVEN_LABELS), "flag"),
)
