"""What leaves a site of its annotators of class labels, under numbers that mean nothing elsewhere: never a name."""

from ...outbound.fields import OutboundField
from ...task_names import AUDIT_LABELS
from ..audit.annotator_fields import FRACTION, GROUP, PLACES, annotator_fields

ANNOTATOR_OTHER_CLASS, ANNOTATOR_CLASS = "annotator_other_class", "annotator_class"
# Of each class of the others, the class that an annotator mostly gives in its place; from 1.
ANNOTATOR_CLASS_GIVEN = f"{ANNOTATOR_CLASS}_given"
ANNOTATORS_KAPPA = "annotators_kappa"

LABEL_ANNOTATOR_FIELDS = (
    *annotator_fields(ANNOTATOR_OTHER_CLASS, FRACTION, task=AUDIT_LABELS, length=PLACES),
    *annotator_fields(ANNOTATOR_CLASS, FRACTION, task=AUDIT_LABELS),
    OutboundField(
        ANNOTATOR_CLASS_GIVEN,
        (AUDIT_LABELS,),
        "counts",
        counted_by=f"{ANNOTATOR_CLASS}_patients",
        optional=GROUP,
        per_class=PLACES,
        names_classes=True,
    ),
    *annotator_fields(ANNOTATORS_KAPPA, (-1.0, 1.0), task=AUDIT_LABELS, length=1),
)
