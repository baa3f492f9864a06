"""What leaves a site in FedIA, besides what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS, TRAIN

# Attributes of what is counted of every case, whose sums are sent as `num_…_lesions`.
COUNTS = ("annotated", "predicted", "matched")
# Three digits each.
ASSESSMENT = ("completeness", "completeness_low", "completeness_high", "lesion_recall", "lesion_precision")

OUTBOUND_FIELDS = (
    OutboundField("num_samples", (ESTIMATE_COMPLETENESS,), "count"),
    OutboundField("num_patients", (ESTIMATE_COMPLETENESS,), "count", optional="means"),
    *(
        OutboundField(
            f"num_{name}_lesions",
            (ESTIMATE_COMPLETENESS,),
            "count",
            counted_by="num_patients",
            optional="means",
            sample_bound=20.0,
        )
        for name in COUNTS
    ),
    *(
        OutboundField(
            name, (ESTIMATE_COMPLETENESS,), "number", counted_by="num_patients", optional="judgement", limits=(0.0, 1.0)
        )
        for name in ASSESSMENT
    ),
    OutboundField("has_corrected", (TRAIN, CORRECT_ANNOTATIONS), "flag", optional="correction"),
)
