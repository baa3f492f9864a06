"""What leaves a site in `auto`, beside what leaves it in federated averaging."""

from ...annotation_bias.estimate import estimate_fields
from ...annotation_bias.feature_names import FEATURES
from ...annotation_bias.noisy_fields import noisy_fields
from ...outbound.fields import OutboundField
from ...task_names import COMPARE_SCORES, CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS, KEEP_SCORES, TRAIN

OFFSET, EDGES, REFERENCE, REVIEWED = "offset", "edge_offset", "reference_offset", "reviewed_offset"
COMPLETENESS, CONFUSED_SHARE = "completeness", "swapped"
EXCHANGED_PART = "exchanged_part"
RESAMPLED = "resampled_micrometres"
RELABELLED = "classes_given_anew"
REVIEWED_GAIN, HELD_OUT_GAIN = "reviewed_gain", "held_out_gain"
IMAGE_MEANS, IMAGE_DEVIATIONS = "image_means", "image_deviations"

# What a site reports of its channel, here and in the audit.
BIAS_FIELDS = (
    OutboundField(
        "num_samples", (ESTIMATE_ANNOTATION_BIAS,), "count", "the size of the site's data: pictures, volumes or slices"
    ),
    OutboundField("num_patients", (ESTIMATE_ANNOTATION_BIAS,), "count", "patients or volumes of the site"),
    OutboundField(
        "pixel_size",
        (ESTIMATE_ANNOTATION_BIAS,),
        "number",
        "size of a pixel in millimetres, 1 where it is not known: offsets below half a pixel are not corrected",
        "num_patients",
        limits=(0.0, 1e4),
    ),
    OutboundField(
        RESAMPLED,
        (ESTIMATE_ANNOTATION_BIAS,),
        "count",
        "size of a pixel to which the site resamples all of its images, whoever they are of: the unit of its offsets",
        optional="resampled",
    ),
    OutboundField(
        IMAGE_MEANS,
        (ESTIMATE_ANNOTATION_BIAS,),
        "numbers",
        "means over patients of what images are like, as noise and sharpness: can the model predict contours in them?",
        "num_patients",
        length=len(FEATURES),
    ),
    OutboundField(
        IMAGE_DEVIATIONS,
        (ESTIMATE_ANNOTATION_BIAS,),
        "numbers",
        "standard deviations of the same between patients",
        "num_patients",
        length=len(FEATURES),
    ),
    OutboundField(
        "annotated_patients",
        (ESTIMATE_ANNOTATION_BIAS,),
        "counts",
        "patients in whom each class is annotated: is the model fit as a reference for annotations?",
    ),
    *estimate_fields(
        OFFSET, ESTIMATE_ANNOTATION_BIAS, "how far contours lie outside of the predicted ones", calibrated=True
    ),
    *estimate_fields(
        EDGES,
        ESTIMATE_ANNOTATION_BIAS,
        "how far outside of the predicted contours images have their edges: evidence of where the reference level is",
        calibrated=False,
    ),
    *estimate_fields(
        REFERENCE,
        ESTIMATE_ANNOTATION_BIAS,
        "the same of annotations that were reviewed: where the reference level is",
        calibrated=False,
    ),
    *estimate_fields(
        REVIEWED, ESTIMATE_ANNOTATION_BIAS, "how far given contours lie outside of reviewed ones", calibrated=False
    ),
    *estimate_fields(
        COMPLETENESS,
        ESTIMATE_ANNOTATION_BIAS,
        "fraction of the objects that are annotated, by what the model is as sure of as of annotated ones",
        calibrated=True,
        limits=(0.0, 1.0),
    ),
    *estimate_fields(
        CONFUSED_SHARE,
        ESTIMATE_ANNOTATION_BIAS,
        "fraction of the annotated objects of all classes that look like another class than theirs",
        calibrated=True,
        length=1,
        limits=(0.0, 1.0),
    ),
    OutboundField(
        EXCHANGED_PART,
        (ESTIMATE_ANNOTATION_BIAS,),
        "numbers",
        "fraction of these objects that are given a class whose code is exchanged; 1 where none is",
        f"{CONFUSED_SHARE}_patients",
        length=1,
        limits=(0.0, 1.0),
    ),
    *noisy_fields(
        ESTIMATE_ANNOTATION_BIAS, offset_patients=f"{OFFSET}_patients", completeness_patients=f"{COMPLETENESS}_patients"
    ),
)

OUTBOUND_FIELDS = (
    *BIAS_FIELDS,
    OutboundField(
        "has_undone",
        (TRAIN, CORRECT_ANNOTATION_BIAS),
        "flag",
        "whether the site follows its instruction; else it gets that again",
        optional="undoing",
    ),
    OutboundField(
        RELABELLED,
        (ESTIMATE_ANNOTATION_BIAS,),
        "flag",
        "whether all but the fraction of confused objects is of annotations in which the site gave objects another "
        "class",
        optional="undoing",
    ),
    OutboundField(
        "has_scored",
        (KEEP_SCORES,),
        "flag",
        "whether the site has patients on which models can be compared, and keeps how this one scores on them",
    ),
    *(
        field
        for name, patients in ((REVIEWED_GAIN, "reviewed"), (HELD_OUT_GAIN, "held-out"))
        for field in estimate_fields(
            name,
            COMPARE_SCORES,
            f"how much better this model is on {patients} patients than the one before it: whether the correction "
            "does harm",
            calibrated=False,
            length=1,
            limits=(-1.0, 1.0),
        )
    ),
)

# What the rollback check needs, here and for classes.
ROLLBACK_FIELDS = tuple(item for item in OUTBOUND_FIELDS if {KEEP_SCORES, COMPARE_SCORES} & {*item.tasks})
