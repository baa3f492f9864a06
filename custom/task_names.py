"""Names of all tasks that a server gives sites: those of every method, and those of single methods."""

# Of every method.
TRAIN = "train"
VALIDATE = "validate"
VALIDATE_CLASSES = "validate_classes"

# FedA³I and FedIA.
ESTIMATE_QUALITY = "estimate_quality"
ESTIMATE_COMPLETENESS = "estimate_completeness"
CORRECT_ANNOTATIONS = "correct_annotations"

# The own method, for segmentation and for classification.
ESTIMATE_CHANNEL = "estimate_channel"
UNDO_CHANNEL = "undo_channel"
KEEP_SCORES = "keep_scores"
COMPARE_SCORES = "compare_scores"
ESTIMATE_CONFUSION = "estimate_confusion"
UNDO_CONFUSION = "undo_confusion"
USE_GIVEN_LABELS = "use_given_labels"

# The audits.
KEEP_JUDGE = "keep_judge"
AUDIT_CASES = "audit_cases"
AUDIT_LABELS = "audit_labels"
CONCLUDE = "conclude"

# Methods with personal layers.
KEEP_MODEL = "keep_model"
