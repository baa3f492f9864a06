"""What leaves a site in `auto`, besides what leaves it in federated averaging."""

from ...annotation_bias.estimate import estimate_fields
from ...annotation_bias.feature_names import FEATURES
from ...annotation_bias.noisy_fields import noise_of, noisy_fields
from ...outbound.fields import OutboundField
from ...task_names import (
    COMPARE_SCORES,
    CORRECT_ANNOTATION_BIAS,
    ESTIMATE_ANNOTATION_BIAS,
    KEEP_SCORES,
    MEASURE_BOUNDARY_PROFILE,
    MEASURE_PROFILE_ERROR,
    TRAIN,
)

OFFSET, EDGES, REFERENCE, REVIEWED = "offset", "edge_offset", "reference_offset", "reviewed_offset"
COMPLETENESS, CONFUSED_SHARE = "completeness", "swapped"
EXCHANGED_PART = "exchanged_part"
RESAMPLED = "resampled_micrometres"
RELABELLED = "classes_given_anew"
REVIEWED_GAIN, HELD_OUT_GAIN = "reviewed_gain", "held_out_gain"
IMAGE_MEANS, IMAGE_DEVIATIONS = "image_means", "image_deviations"

NUM_SAMPLES = "num_samples"
PROFILE_CURVE, PROFILE_PATIENTS = "profile_curve", "profile_patients"
PROFILE_UNIT, PROFILE_HALVINGS = "profile_unit", "profile_halvings"
PROFILE_RADIUS = "profile_radius"
# Behind the shift of all masks that a site has corrected; the shift itself stays there.
MOVED_PATIENTS = "moved_patients"
# How many annotators have groups of their own, and how many may.
ANNOTATOR_GROUPS, MOST_GROUPS = "annotator_groups", 8
PROFILE_ERROR, PROFILE_ERROR_PATIENTS = "profile_error", "profile_error_patients"
GRID_HALVINGS, GRID_MICROMETRES = "grid_halvings", "grid_micrometres"
PROFILE_VECTOR = "profile_vector"
# Levels of a curve, and the largest value of one; the settings of a method load no numpy.
CURVE_LEVELS, LARGEST_CHANGE = 97, 6.0
# Entries of a class in a curve that hides single patients, and the length that a patient's part is cut to.
VECTOR_ENTRIES, LARGEST_DEPARTURE = 13, 3.0

# What a site reports of its channel, here and in the audit.
BIAS_FIELDS = (
    OutboundField(NUM_SAMPLES, (ESTIMATE_ANNOTATION_BIAS,), "count"),
    OutboundField("num_patients", (ESTIMATE_ANNOTATION_BIAS,), "count"),
    OutboundField("pixel_size", (ESTIMATE_ANNOTATION_BIAS,), "number", counted_by="num_patients", limits=(0.0, 1e4)),
    OutboundField(RESAMPLED, (ESTIMATE_ANNOTATION_BIAS,), "count", optional="resampled"),
    OutboundField(IMAGE_MEANS, (ESTIMATE_ANNOTATION_BIAS,), "numbers", counted_by="num_patients", length=len(FEATURES)),
    OutboundField(
        IMAGE_DEVIATIONS, (ESTIMATE_ANNOTATION_BIAS,), "numbers", counted_by="num_patients", length=len(FEATURES)
    ),
    OutboundField("annotated_patients", (ESTIMATE_ANNOTATION_BIAS,), "counts"),
    *estimate_fields(OFFSET, ESTIMATE_ANNOTATION_BIAS, calibrated=True),
    *estimate_fields(EDGES, ESTIMATE_ANNOTATION_BIAS, calibrated=False),
    *estimate_fields(REFERENCE, ESTIMATE_ANNOTATION_BIAS, calibrated=False),
    *estimate_fields(REVIEWED, ESTIMATE_ANNOTATION_BIAS, calibrated=False),
    *estimate_fields(COMPLETENESS, ESTIMATE_ANNOTATION_BIAS, calibrated=True, limits=(0.0, 1.0)),
    *estimate_fields(CONFUSED_SHARE, ESTIMATE_ANNOTATION_BIAS, calibrated=True, length=1, limits=(0.0, 1.0)),
    OutboundField(
        EXCHANGED_PART,
        (ESTIMATE_ANNOTATION_BIAS,),
        "numbers",
        counted_by=f"{CONFUSED_SHARE}_patients",
        length=1,
        limits=(0.0, 1.0),
    ),
    *noisy_fields(
        ESTIMATE_ANNOTATION_BIAS, offset_patients=f"{OFFSET}_patients", completeness_patients=f"{COMPLETENESS}_patients"
    ),
)

# What a site sends of its boundary profile, before the first round.
PROFILE_FIELDS = (
    OutboundField(NUM_SAMPLES, (MEASURE_BOUNDARY_PROFILE,), "count", optional="weight"),
    OutboundField("num_patients", (MEASURE_BOUNDARY_PROFILE,), "count"),
    OutboundField(
        PROFILE_HALVINGS,
        (MEASURE_BOUNDARY_PROFILE,),
        "count",
        counted_by="num_patients",
        optional="own scale",
        limits=(0.0, 16.0),
    ),
    OutboundField(PROFILE_UNIT, (MEASURE_BOUNDARY_PROFILE,), "number", counted_by="num_patients", limits=(1e-6, 1e3)),
    OutboundField(
        PROFILE_CURVE,
        (MEASURE_BOUNDARY_PROFILE,),
        "numbers",
        counted_by=PROFILE_PATIENTS,
        limits=(0.0, LARGEST_CHANGE),
        per_class=CURVE_LEVELS,
    ),
    OutboundField(
        PROFILE_RADIUS, (MEASURE_BOUNDARY_PROFILE,), "numbers", counted_by=PROFILE_PATIENTS, limits=(0.0, 1e6)
    ),
    OutboundField(PROFILE_PATIENTS, (MEASURE_BOUNDARY_PROFILE,), "counts", follows_model=True),
    OutboundField(GRID_HALVINGS, (MEASURE_BOUNDARY_PROFILE,), "count", optional="fixed grid", limits=(0.0, 16.0)),
    OutboundField(GRID_MICROMETRES, (MEASURE_BOUNDARY_PROFILE,), "count", optional="fixed grid", limits=(1.0, 1e6)),
    OutboundField(
        PROFILE_VECTOR,
        (MEASURE_BOUNDARY_PROFILE,),
        "numbers",
        counted_by="num_patients",
        optional="noisy curve",
        limits=(-1e6, 1e6),
        per_class=VECTOR_ENTRIES,
        sample_bound=LARGEST_DEPARTURE,
        only_private=True,
    ),
    OutboundField(
        noise_of(PROFILE_VECTOR),
        (MEASURE_BOUNDARY_PROFILE,),
        "numbers",
        counted_by="num_patients",
        optional="noisy curve",
        limits=(0.0, 1e6),
        per_class=VECTOR_ENTRIES,
        only_private=True,
        noise_of=PROFILE_VECTOR,
    ),
    OutboundField(
        MOVED_PATIENTS, (TRAIN, MEASURE_BOUNDARY_PROFILE), "count", counted_by=MOVED_PATIENTS, optional="moved masks"
    ),
    OutboundField(
        ANNOTATOR_GROUPS,
        (MEASURE_BOUNDARY_PROFILE, ESTIMATE_ANNOTATION_BIAS),
        "count",
        optional="by annotator",
        limits=(0.0, float(MOST_GROUPS)),
    ),
    OutboundField(
        PROFILE_ERROR, (MEASURE_PROFILE_ERROR,), "numbers", counted_by=PROFILE_ERROR_PATIENTS, limits=(0.0, 16.0)
    ),
    OutboundField(PROFILE_ERROR_PATIENTS, (MEASURE_PROFILE_ERROR,), "counts", follows_model=True),
)

OUTBOUND_FIELDS = (
    *BIAS_FIELDS,
    *PROFILE_FIELDS,
    OutboundField("has_undone", (TRAIN, CORRECT_ANNOTATION_BIAS), "flag", optional="undoing"),
    OutboundField(RELABELLED, (ESTIMATE_ANNOTATION_BIAS,), "flag", optional="undoing"),
    OutboundField("has_scored", (KEEP_SCORES,), "flag"),
    *(
        field
        for name in (REVIEWED_GAIN, HELD_OUT_GAIN)
        for field in estimate_fields(name, COMPARE_SCORES, calibrated=False, length=1, limits=(-1.0, 1.0))
    ),
)

# What the rollback check needs, here and for classes.
ROLLBACK_FIELDS = tuple(item for item in OUTBOUND_FIELDS if {KEEP_SCORES, COMPARE_SCORES} & {*item.tasks})
