"""Why each field leaves a site: one sentence for each field of every method, by its name."""

from ...custom import task_names as tasks
from ...custom.outbound.fields import OutboundField

# A sentence holds for all tasks whose answers have the field, unless REASONS_OF_TASK has another.
REASONS = {
    # Training and validation.
    "params": "the locally trained model, to be averaged",
    "num_samples": "the size of the site's data: pictures, volumes or slices",
    "num_excluded": "how many cases could not be used; which ones stays at the site",
    "embedded_data": "whether the site runs on the embedded phantom, which has a test set",
    "num_threads": "threads that the site trains with: bits are the same for the same number",
    "train_loss": "mean training loss of the round, to watch training",
    "num_patients": "patients or volumes behind means and scores, never slices",
    "dice_loss": (
        "mean Dice loss of the round, to watch training; FedIA's weights and the time to correct follow from it"
    ),
    "num_dice_patients": "patients or volumes behind the Dice loss",
    "dice": "mean Dice on the site's own validation cases, of each class over those in which it is annotated",
    "num_class_cases": (
        "cases in which each class is annotated, the weight of its Dice; the others are the weight of left_empty"
    ),
    "left_empty": (
        "fraction of the validation cases without each class in which it is found nowhere: false findings in them"
    ),
    "num_empty_patients": "patients or volumes with a case without each class, behind that share",
    "num_class_patients": (
        "patients or volumes with each class, in segmentation in an annotation: behind Dice and counts of classes"
    ),
    "hd95": "mean HD95 on the site's own validation cases",
    "num_distance_patients": "patients or volumes behind the mean HD95",
    "num_defined": "cases behind the mean HD95, its weight; it is undefined for the others",
    "num_correct": (
        "validation cases of each class that are predicted as it: F1, recall and precision follow from such counts"
    ),
    "num_labelled": "validation cases of each class, without those of a class with too few patients",
    "num_predicted": "those validation cases that are predicted as each class",
    # Privacy by noise.
    "privacy_epsilon": (
        "ε of the site's taking part, by updates where they are private; it follows from their number and the noise"
    ),
    "privacy_delta": "the delta for which that is",
    "patient_epsilon": (
        "ε of a patient by updates and quality statistics together; it follows from their numbers and the noise"
    ),
    "statistics_epsilon": (
        "ε of a patient by quality statistics alone, where they get noise; it follows from their number and the noise"
    ),
    "statistics_delta": "the delta for which that is",
    # Annotation bias.
    "pixel_size": (
        "size of a pixel in millimetres, 1 where it is not known: offsets below half a pixel are not corrected"
    ),
    "resampled_micrometres": (
        "size of a pixel to which the site resamples all of its images, whoever they are of: the unit of its offsets"
    ),
    "image_means": (
        "means over patients of what images are like, as noise and sharpness: can the model predict contours in them?"
    ),
    "image_deviations": "standard deviations of the same between patients",
    "annotated_patients": "patients in whom each class is annotated: is the model fit as a reference for annotations?",
    "offset": "how far contours lie outside of the predicted ones",
    "edge_offset": (
        "how far outside of the predicted contours images have their edges: evidence of where the reference level is"
    ),
    "reference_offset": "the same of annotations that were reviewed: where the reference level is",
    "reviewed_offset": "how far given contours lie outside of reviewed ones",
    "completeness": "fraction of the objects that are annotated, by what the model is as sure of as of annotated ones",
    "swapped": "fraction of the annotated objects of all classes that look like another class than theirs",
    "exchanged_part": "fraction of these objects that are given a class whose code is exchanged; 1 where none is",
    "offset_mean": "mean offset of patients in pixels, for their median, by a site that hides single patients",
    "offset_difference": (
        "mean difference of two patients' offsets, for its spread, by a site that hides single patients"
    ),
    "objects_matched": (
        "predicted objects that are annotated, for the fraction of them, by a site that hides single patients"
    ),
    "objects_predicted": "predicted objects, as above, by a site that hides single patients",
    "objects_annotated": (
        "annotated objects: does the model see such objects there?, by a site that hides single patients"
    ),
    "has_undone": "whether the site follows its instruction; else it gets that again",
    "classes_given_anew": (
        "whether all but the fraction of confused objects is of annotations in which the site gave objects another "
        "class"
    ),
    "has_scored": (
        "whether the site has patients on which models can be compared, and keeps how this one scores on them"
    ),
    "reviewed_gain": (
        "how much better this model is on reviewed patients than the one before it: whether the correction does harm"
    ),
    "held_out_gain": (
        "how much better this model is on held-out patients than the one before it: whether the correction does harm"
    ),
    # Class labels.
    "noise_level": (
        "fraction of the site's labels that are wrong, as far as the model can tell: whether to correct it"
    ),
    "support": (
        "fraction of the doubted labels in which other samples side with the model: whether it knows the site's images"
    ),
    "undoes_confusion": "whether the site corrects wrong labels, so that one that lost its instruction gets it again",
    "selector_means": (
        "means of the mixture over the site's losses, FedGSCA's μ (Eq. 2), for the global sample selector"
    ),
    "selector_variances": "its variances, σ²",
    "selector_priors": "its weights, π",
    "selector_patients": (
        "patients with a sample that is more probably of each component: a component of few tells their losses"
    ),
    # Audits.
    "has_kept": "whether the site has kept the reference model a part of it",
    "has_concluded": "whether the site has what the federation concludes of it",
    "flagged_shares": "fraction of the patients with a finding, by kind of problem: what the federation's page shows",
    "kind_aurocs": (
        "how well injected errors of each kind are distinguished from none at the site: what its findings are worth"
    ),
    # FedA³I, FedIA and personal layers.
    "inner_difficulty": "FedA³I's q_in (Eq. 3)",
    "outer_difficulty": "FedA³I's q_out (Eq. 4)",
    "num_estimated": "patients or volumes behind the difficulties",
    "predicted_share": (
        "fraction of annotated samples in which the warm-up model finds anything: is it fit as a reference for "
        "annotations?"
    ),
    "num_annotated": "patients or volumes with any annotated object, behind that share",
    "num_annotated_lesions": "connected lesions in all annotations of the site together, FedIA's Σ c^n (Eq. 3)",
    "num_predicted_lesions": "connected lesions in all predictions of the site together, FedIA's Σ c^p (Eq. 3)",
    "num_matched_lesions": "predicted lesions that touch an annotated one, for the other estimate of completeness",
    "lesion_recall": "fraction of the annotated lesions that the model finds: is it fit as a reference?",
    "lesion_precision": "fraction of their predicted voxels that are annotated: as above",
    "has_corrected": "whether the site trains on corrected annotations: FedIA ends its second stage when all do",
    "has_model": "whether the site has stored the last shared model with its personal layers, which stay there",
}

_WEIGHTS = "weights of means: pictures, volumes or slices; for validation, pictures or volumes"
_AUDITED = "patients or volumes that were audited"

# What a field is for in the answer to one task: (task, field).
REASONS_OF_TASK = {
    (tasks.TRAIN, "num_samples"): _WEIGHTS,
    (tasks.VALIDATE, "num_samples"): _WEIGHTS,
    (tasks.VALIDATE_CLASSES, "num_samples"): _WEIGHTS,
    (tasks.TRAIN, "noise_level"): (
        "fraction of the samples whose label does not look right, FedGSCA's δ (Eq. 8): to tell a site that it has many"
    ),
    (tasks.AUDIT_CASES, "num_patients"): _AUDITED,
    (tasks.AUDIT_LABELS, "num_patients"): _AUDITED,
    (tasks.ESTIMATE_ANNOTATION_BIAS, "num_patients"): "patients or volumes of the site",
    (tasks.ESTIMATE_COMPLETENESS, "num_patients"): "patients or volumes behind the numbers of lesions, never slices",
    (tasks.ESTIMATE_COMPLETENESS, "completeness"): (
        "fraction of the lesions that the site annotates: its weight, and whether it is to correct"
    ),
    (tasks.ESTIMATE_COMPLETENESS, "completeness_low"): "lower end of its 90 % interval over patients",
    (tasks.ESTIMATE_COMPLETENESS, "completeness_high"): "upper end: only what is confirmed below one is acted on",
}

# What comes with an estimate, by the ending of the field's name.
_OF_ESTIMATES = {
    "_low": "{reason}, lower end of its 90 % interval",
    "_high": "{reason}, upper end of its 90 % interval",
    "_slope": "{reason}, what the site's estimate makes of an injected error: whether such an error would be seen",
    "_auroc": (
        "{reason}, how well cases with an injected error are distinguished from others: whether it would be seen"
    ),
    "_patients": "patients or volumes behind {name}",
    "_noise": "standard deviation of the noise in {name}: it is part of the interval",
}


def reason_of(field: OutboundField, task: str) -> str:
    """Return why the answer to a task holds a field: what its method declares, else the sentence of this module.

    Args:
        field: the field, of this software or of a method of another package.
        task: one of the field's tasks.

    Returns:
        The reason; empty for a field of another package that declares none.
    """
    known = field.reason or REASONS_OF_TASK.get((task, field.name)) or REASONS.get(field.name)
    if known is not None:
        return known
    for ending, sentence in _OF_ESTIMATES.items():
        name = field.name.removesuffix(ending)
        if name != field.name and name in REASONS:
            return sentence.format(name=name, reason=REASONS[name])
    return ""


def described_field(field: OutboundField, task: str) -> tuple[str, str, str]:
    """Return a field of the answer to a task in words: its name, what it is, and why it leaves the site.

    Args:
        field: the field.
        task: one of its tasks.
    """
    what: list[str] = [field.kind]
    if field.counted_by is not None:
        what.append(f"over {field.counted_by}")
    if field.optional:
        what.append("not always sent")
    return field.name, ", ".join(what), reason_of(field, task)
