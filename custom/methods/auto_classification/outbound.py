"""What leaves a site in `auto` for classification, beside what leaves it in federated averaging."""

from ...channel.estimate import estimate_fields
from ...outbound.fields import OutboundField
from ...task_names import ESTIMATE_CONFUSION, TRAIN, UNDO_CONFUSION, USE_GIVEN_LABELS

NOISE_LEVEL = "noise_level"
SUPPORT = "support"
UNDOES = "undoes_confusion"

CONFUSION_FIELDS = (
    *estimate_fields(
        NOISE_LEVEL,
        ESTIMATE_CONFUSION,
        "share of the site's labels that are wrong, as far as the model can tell: whether to undo it",
        calibrated=True,
        length=1,
    ),
    *estimate_fields(
        SUPPORT,
        ESTIMATE_CONFUSION,
        "share of the doubted labels in which other samples side with the model: whether it knows the site's images",
        calibrated=False,
        length=1,
    ),
)

LEAVES = (
    *CONFUSION_FIELDS,
    OutboundField(
        UNDOES,
        (TRAIN, UNDO_CONFUSION, USE_GIVEN_LABELS),
        "flag",
        "whether the site undoes wrong labels, so that one that lost what it has to undo is told again",
    ),
)
