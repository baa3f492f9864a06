"""What leaves a site in FedIA, beside what leaves it in federated averaging."""

from ...outbound.fields import TRAIN, OutboundField

ESTIMATE_COMPLETENESS = "estimate_completeness"
CORRECT_ANNOTATIONS = "correct_annotations"

LEAVES = (
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
    OutboundField(
        "has_corrected",
        (TRAIN, CORRECT_ANNOTATIONS),
        "flag",
        "whether the site trains on corrected annotations: FedIA ends its second stage when all do",
        optional="correction",
    ),
)
