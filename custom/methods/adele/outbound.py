"""What leaves a site in ADELE, in addition to federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import CORRECT_ANNOTATIONS, MEASURE_OVERLAP, TRAIN

TRUE_POSITIVE, PREDICTED, ANNOTATED = "true_positive_pixels", "predicted_pixels", "annotated_pixels"
ANNOTATED_PATIENTS = "num_annotated_patients"
# More pixels than any site has, and few enough that sums over sites are exact.
_MOST_PIXELS = 2.0**50


def _pixels(name: str, *at_most: str) -> OutboundField:
    return OutboundField(
        name,
        (MEASURE_OVERLAP,),
        "counts",
        counted_by=ANNOTATED_PATIENTS,
        optional="overlap",
        limits=(0.0, _MOST_PIXELS),
        at_most=at_most,
    )


OUTBOUND_FIELDS = (
    OutboundField("num_samples", (MEASURE_OVERLAP,), "count"),
    _pixels(TRUE_POSITIVE, PREDICTED, ANNOTATED),
    _pixels(PREDICTED),
    _pixels(ANNOTATED),
    OutboundField(ANNOTATED_PATIENTS, (MEASURE_OVERLAP,), "counts", optional="overlap", at_most=(ANNOTATED,)),
    OutboundField("has_corrected", (TRAIN, CORRECT_ANNOTATIONS), "flag", optional="correction"),
)
