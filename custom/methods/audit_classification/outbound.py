"""What leaves a site in an audit of class labels, besides what leaves it in federated averaging: never a case."""

from ...audit.kind_names import CLASSIFICATION_KINDS
from ...task_names import AUDIT_LABELS
from ..audit.outbound import FOLDS_FIELDS, share_fields
from ..auto_classification.outbound import CONFUSION_FIELDS
from .annotator_fields import LABEL_ANNOTATOR_FIELDS

OUTBOUND_FIELDS = (
    *CONFUSION_FIELDS,
    *FOLDS_FIELDS,
    *share_fields(AUDIT_LABELS, len(CLASSIFICATION_KINDS)),
    *LABEL_ANNOTATOR_FIELDS,
)
