"""Names of all tasks that a server gives sites: those of every method, and those of single methods."""

import warnings

# Of every method.
TRAIN = "train"
VALIDATE = "validate"
VALIDATE_CLASSES = "validate_classes"

# FedA³I and FedIA.
ESTIMATE_QUALITY = "estimate_quality"
ESTIMATE_COMPLETENESS = "estimate_completeness"
CORRECT_ANNOTATIONS = "correct_annotations"

# ADELE; it corrects by FedIA's task.
MEASURE_OVERLAP = "measure_overlap"

# FedNoRo for classification.
ESTIMATE_CLASS_LOSSES = "estimate_class_losses"

# FedCorr.
ESTIMATE_SITE_NOISE = "estimate_site_noise"
ESTIMATE_NOISE_SHARE = "estimate_noise_share"

# FedSelect.
MEASURE_SCORER_GRADIENT = "measure_scorer_gradient"

# FedDM.
KEEP_PEER_MODEL = "keep_peer_model"

# The own method, for segmentation and for classification.
MEASURE_BOUNDARY_PROFILE = "measure_boundary_profile"
MEASURE_PROFILE_ERROR = "measure_profile_error"
ESTIMATE_ANNOTATION_BIAS = "estimate_annotation_bias"
CORRECT_ANNOTATION_BIAS = "correct_annotation_bias"
KEEP_SCORES = "keep_scores"
COMPARE_SCORES = "compare_scores"
ESTIMATE_CONFUSION = "estimate_confusion"
CORRECT_LABELS = "correct_labels"
USE_GIVEN_LABELS = "use_given_labels"

# The audits.
KEEP_REFERENCE_MODEL = "keep_reference_model"
AUDIT_CASES = "audit_cases"
AUDIT_LABELS = "audit_labels"
CONCLUDE = "conclude"

# What images are like, for a plan.
FINGERPRINT = "fingerprint"

# Methods with personal layers.
KEEP_MODEL = "keep_model"

# Former name of a task → its name. A server of an earlier version asks by these.
FORMER_TASKS = {
    "estimate_channel": ESTIMATE_ANNOTATION_BIAS,
    "undo_channel": CORRECT_ANNOTATION_BIAS,
    "undo_confusion": CORRECT_LABELS,
    "keep_judge": KEEP_REFERENCE_MODEL,
}


def current_task(name: str) -> str:
    """Return the name of a task by a name that it has or had; of a former one a warning is given.

    Example:
        >>> current_task("train")
        'train'
    """
    if name not in FORMER_TASKS:
        return name
    current = FORMER_TASKS[name]
    warnings.warn(
        f"The task {name!r} is called {current!r} now; the server is of an earlier version.", FutureWarning, 2
    )
    return current
