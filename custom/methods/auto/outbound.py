"""What leaves a site in `auto`, beside what leaves it in federated averaging."""

from ...channel.estimate import estimate_fields
from ...channel.feature_names import FEATURES
from ...channel.noisy_fields import noisy_fields
from ...outbound.fields import OutboundField
from ...task_names import COMPARE_SCORES, ESTIMATE_CHANNEL, KEEP_SCORES, TRAIN, UNDO_CHANNEL

OFFSET, EDGES, REFERENCE, REVIEWED = "offset", "edge_offset", "reference_offset", "reviewed_offset"
COMPLETENESS, SWAPPED_SHARE = "completeness", "swapped"
EXCHANGED_PART = "exchanged_part"
RESAMPLED = "resampled_micrometres"
CLASSES_ANEW = "classes_given_anew"
REVIEWED_GAIN, HELD_OUT_GAIN = "reviewed_gain", "held_out_gain"
IMAGE_MEANS, IMAGE_DEVIATIONS = "image_means", "image_deviations"

# What a site reports of its channel, here and in the audit.
CHANNEL_FIELDS = (
    OutboundField(
        "num_samples", (ESTIMATE_CHANNEL,), "count", "the size of the site's data: pictures, volumes or slices"
    ),
    OutboundField("num_patients", (ESTIMATE_CHANNEL,), "count", "patients or volumes of the site"),
    OutboundField(
        "pixel_size",
        (ESTIMATE_CHANNEL,),
        "number",
        "size of a pixel in millimetres, 1 where it is not known: offsets below half a pixel are not undone",
        "num_patients",
        limits=(0.0, 1e4),
    ),
    OutboundField(
        RESAMPLED,
        (ESTIMATE_CHANNEL,),
        "count",
        "size of a pixel to which the site resamples all of its images, whoever they are of: the unit of its offsets",
        optional="resampled",
    ),
    OutboundField(
        IMAGE_MEANS,
        (ESTIMATE_CHANNEL,),
        "numbers",
        "means over patients of what images are like, as noise and sharpness: can the model judge contours in them?",
        "num_patients",
        length=len(FEATURES),
    ),
    OutboundField(
        IMAGE_DEVIATIONS,
        (ESTIMATE_CHANNEL,),
        "numbers",
        "standard deviations of the same between patients",
        "num_patients",
        length=len(FEATURES),
    ),
    OutboundField(
        "annotated_patients",
        (ESTIMATE_CHANNEL,),
        "counts",
        "patients in whom each class is annotated: is the model fit to judge annotations?",
    ),
    *estimate_fields(OFFSET, ESTIMATE_CHANNEL, "how far contours lie outside of the predicted ones", calibrated=True),
    *estimate_fields(
        EDGES,
        ESTIMATE_CHANNEL,
        "how far outside of the predicted contours images have their edges: evidence of where zero lies",
        calibrated=False,
    ),
    *estimate_fields(
        REFERENCE, ESTIMATE_CHANNEL, "the same of annotations that were reviewed: where zero lies", calibrated=False
    ),
    *estimate_fields(
        REVIEWED, ESTIMATE_CHANNEL, "how far given contours lie outside of reviewed ones", calibrated=False
    ),
    *estimate_fields(
        COMPLETENESS,
        ESTIMATE_CHANNEL,
        "share of the objects that are annotated, by what the model is as sure of as of annotated ones",
        calibrated=True,
        limits=(0.0, 1.0),
    ),
    *estimate_fields(
        SWAPPED_SHARE,
        ESTIMATE_CHANNEL,
        "share of the annotated objects of all classes that look like another class than theirs",
        calibrated=True,
        length=1,
        limits=(0.0, 1.0),
    ),
    OutboundField(
        EXCHANGED_PART,
        (ESTIMATE_CHANNEL,),
        "numbers",
        "share of these objects that are given a class whose code is exchanged; 1 where none is",
        f"{SWAPPED_SHARE}_patients",
        length=1,
        limits=(0.0, 1.0),
    ),
    *noisy_fields(
        ESTIMATE_CHANNEL, offset_patients=f"{OFFSET}_patients", completeness_patients=f"{COMPLETENESS}_patients"
    ),
)

LEAVES = (
    *CHANNEL_FIELDS,
    OutboundField(
        "has_undone",
        (TRAIN, UNDO_CHANNEL),
        "flag",
        "whether the site has undone what it was told; else it is told again",
        optional="undoing",
    ),
    OutboundField(
        CLASSES_ANEW,
        (ESTIMATE_CHANNEL,),
        "flag",
        "whether all but the share of swapped objects is of annotations in which the site gave objects another class",
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
            f"how much better this model is on {patients} patients than the one before it: whether undoing does harm",
            calibrated=False,
            length=1,
            limits=(-1.0, 1.0),
        )
    ),
)
