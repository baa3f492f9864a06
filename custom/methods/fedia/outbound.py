"""What leaves a site in FedIA, beside what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS, TRAIN

# Three digits each.
ASSESSMENT = {
    "completeness": "fraction of the lesions that the site annotates: its weight, and whether it is to correct",
    "completeness_low": "lower end of its 90 % interval over patients",
    "completeness_high": "upper end: only what is confirmed below one is acted on",
    "lesion_recall": "fraction of the annotated lesions that the model finds: is it fit as a reference?",
    "lesion_precision": "fraction of their predicted voxels that are annotated: as above",
}

OUTBOUND_FIELDS = (
    OutboundField(
        "num_samples", (ESTIMATE_COMPLETENESS,), "count", "the size of the site's data: pictures, volumes or slices"
    ),
    OutboundField(
        "num_patients",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "patients or volumes behind the numbers of lesions, never slices",
        optional="means",
    ),
    OutboundField(
        "num_annotated_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "connected lesions in all annotations of the site together, FedIA's Σ c^n (Eq. 3)",
        "num_patients",
        optional="means",
        sample_bound=20.0,
    ),
    OutboundField(
        "num_predicted_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "connected lesions in all predictions of the site together, FedIA's Σ c^p (Eq. 3)",
        "num_patients",
        optional="means",
        sample_bound=20.0,
    ),
    OutboundField(
        "num_matched_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "predicted lesions that touch an annotated one, for the other estimate of completeness",
        "num_patients",
        optional="means",
        sample_bound=20.0,
    ),
    *(
        OutboundField(
            name, (ESTIMATE_COMPLETENESS,), "number", reason, "num_patients", optional="judgement", limits=(0.0, 1.0)
        )
        for name, reason in ASSESSMENT.items()
    ),
    OutboundField(
        "has_corrected",
        (TRAIN, CORRECT_ANNOTATIONS),
        "flag",
        "whether the site trains on corrected annotations: FedIA ends its second stage when all do",
        optional="correction",
    ),
)
