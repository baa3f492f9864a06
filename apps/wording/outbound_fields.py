"""Why each field leaves a site: one sentence for each field of every method, by its name."""

from collections.abc import Mapping

from ...custom import task_names as tasks
from ...custom.aggregation.settings import UpdatePrecision
from ...custom.outbound.fields import OutboundField

# A sentence holds for all tasks whose answers have the field, unless REASONS_OF_TASK has another.
REASONS = {
    # Training and validation.
    "params": "the locally trained model, to be averaged",
    "num_samples": "the size of the site's data: images, volumes or slices",
    "num_excluded": "how many cases could not be used; which ones stays at the site",
    "embedded_data": "whether the site runs on the embedded phantom, which has a test set",
    "num_steps": (
        "optimizer steps of the round, where drift is corrected: how far the site's model went for its number of steps"
    ),
    "num_threads": "threads that the site trains with: bits are the same for the same number",
    "significand_bits": (
        "precision of the site's network, where the job asks for another than float32: 24, 11 or 8 bits of a number"
    ),
    "preparation": (
        "how data.yaml says that images are prepared, as numbers: size, spacing, orientation, intensities; a bundle of "
        "the model does the same"
    ),
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
        "fraction of the validation cases without each class in which it is predicted nowhere: false findings in them"
    ),
    "num_empty_patients": "patients or volumes with a case without each class, behind that fraction",
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
    # Fingerprints.
    "spacing_known": "fraction of the training cases whose size of a voxel is known",
    "spacing_means": "mean logarithm of the size of a voxel along each axis: the spacing of a plan",
    "spacing_squares": "mean square of it: how much sizes differ",
    "extent_means": "mean logarithm of the number of voxels along each axis: the patch of a plan",
    "extent_squares": "mean square of it: how much these numbers differ",
    "class_fractions": "mean fraction of the pixels of each class",
    "class_presence": "fraction of the cases in which each class is annotated",
    "foreground": "mean distribution of the intensities of annotated pixels: the normalisation of a plan",
    # Annotation bias.
    "pixel_size": (
        "size of a pixel in millimetres, 1 where it is not known: a boundary bias below half a pixel is not corrected"
    ),
    "resampled_micrometres": (
        "size of a pixel to which the site resamples all of its images, of whichever patient: the unit of boundary bias"
    ),
    "image_means": (
        "means over patients of image features, such as noise and sharpness: are the images in the model's domain?"
    ),
    "image_deviations": "standard deviations of these features between patients",
    "annotated_patients": "patients in whom each class is annotated: is the model fit as a reference for annotations?",
    "offset": "distance of annotated contours from the predicted ones, outward",
    "edge_offset": (
        "distance of the image boundary from the predicted contours, outward: evidence of the reference level"
    ),
    "reference_offset": "distance of reviewed contours from the predicted ones, outward: the reference level",
    "reviewed_offset": "distance of given contours from reviewed ones, outward",
    "completeness": "annotation recall: annotated fraction of the objects that the model predicts with confidence",
    "swapped": "fraction of the annotated objects of all classes that look like another class than theirs",
    "exchanged_part": "fraction of these objects whose given class is permuted; 1 without a permutation",
    "offset_mean": "mean boundary bias of patients in pixels, for their median, by a site that hides single patients",
    "offset_difference": (
        "mean difference of two patients' boundary biases, for its spread, by a site that hides single patients"
    ),
    "objects_matched": (
        "predicted objects that are annotated, for the fraction of them, by a site that hides single patients"
    ),
    "objects_predicted": "predicted objects, as above, by a site that hides single patients",
    "objects_annotated": (
        "annotated objects: does the model see such objects there?, by a site that hides single patients"
    ),
    "has_undone": "whether the site follows its instruction; if not, it receives the instruction again",
    "classes_given_anew": ("whether all but the confused fraction is of annotations whose objects the site relabelled"),
    "has_scored": (
        "whether the site has patients on which models can be compared, and keeps how this one scores on them"
    ),
    "reviewed_gain": (
        "how much better this model is on reviewed patients than the one before it: whether the correction does harm"
    ),
    "held_out_gain": (
        "how much better this model is on held-out patients than the one before it: whether the correction does harm"
    ),
    "profile_curve": (
        "how strongly images change across annotated contours, moved by each distance, mean over patients: boundary "
        "bias without a model"
    ),
    "profile_patients": "patients or volumes behind the curve of each class",
    "profile_radius": (
        "radius of the annotated objects of each class, mean over cases: how much a boundary bias matters"
    ),
    "profile_unit": "size of a pixel in the images of that curve: the unit of the boundary bias",
    "profile_halvings": "how much coarser than the site's images the first curve is: sites have to agree on it",
    "grid_halvings": (
        "the same where data.yaml says the size of all images: a site that hides single patients may send it"
    ),
    "grid_micrometres": "size of a pixel in the images of the curve as data.yaml says it; 1000 where pixels have none",
    "profile_vector": (
        "fraction of the patients with a curve, and their mean curve as twelve cosines, by a site that hides single "
        "patients"
    ),
    "profile_error": "standard error over patients of the boundary bias that images show",
    "profile_error_patients": "patients or volumes behind that error",
    "annotator_groups": "annotators whose contours are assessed by themselves, of five patients each at least",
    "moved_patients": "patients or volumes of a site that has moved all its masks back: that it did; not by how much",
    # Class labels.
    "noise_level": (
        "fraction of the site's labels that are wrong, as far as the model can tell: whether to correct it"
    ),
    "support": (
        "fraction of the doubted labels in which similar samples agree with the model: does it know the site's images?"
    ),
    "undoes_confusion": "whether the site corrects wrong labels; if not, it receives the instruction again",
    "selector_means": (
        "means of the mixture over the site's losses, FedGSCA's μ (Eq. 2), for the global sample selector"
    ),
    "selector_variances": "its variances, σ²",
    "selector_priors": "its weights, π",
    "selector_patients": (
        "patients with a sample that is more probably of each component: few would reveal their losses"
    ),
    # Audits.
    "has_kept": "whether the site has kept the reference model a part of it",
    "has_concluded": "whether the site has received the conclusions about it",
    "flagged_shares": "fraction of the patients with a finding, by issue type: what the federation's page shows",
    "kind_aurocs": (
        "how well injected errors of each issue type are distinguished from none at the site: the value of its findings"
    ),
    "annotator_offset": (
        "boundary bias of each annotator against the model's predictions, at a place that the site draws at random: do "
        "single annotators explain the site's bias?"
    ),
    "annotator_majority_offset": (
        "boundary bias of each annotator against the majority of the annotators of the same cases, without a model"
    ),
    "annotator_missed": "fraction of the objects that each annotator has missed, as predictions show it",
    "annotator_confused": "fraction of each annotator's objects that look like another class",
    "annotator_other_class": (
        "fraction of the cases to which each annotator gives another class than most others, at a place that the site "
        "draws at random"
    ),
    "annotator_class": (
        "fraction of each annotator's cases with another class, by the class that most others give: which classes are "
        "confused?"
    ),
    "annotator_class_given": (
        "number of the class that the annotator mostly gives in its place, from 1; 0 where fewer than five patients "
        "have it"
    ),
    "annotators_kappa": "Fleiss' κ of all annotators of a site: how far do they agree?",
    # ADELE, FedCorr, FedNoRo, FedSelect, FedA³I, FedIA and personal layers.
    "true_positive_pixels": "pixels of each class that are annotated and predicted: how far the model fits masks",
    "predicted_pixels": "pixels of each class that are predicted, for the IoU of all sites",
    "annotated_pixels": "pixels of each class that are annotated, as above",
    "num_annotated_patients": "patients or volumes with the class, behind these numbers",
    "class_losses": "mean cross entropy of each class by the warm-up model: which sites have noisy labels (FedNoRo)",
    "num_loss_patients": "patients behind each of these means",
    "mean_case_loss": "mean loss of the site's cases by its own model: whose labels are noisy (FedCorr)",
    "local_dimensionality": "how many dimensions its own model's outputs have around a case: as above (FedCorr)",
    "num_statistic_patients": "patients or volumes behind that mean; 0 where it is withheld",
    "noise_share": "share of a noisy site's labels whose losses are of the higher of two groups (FedCorr)",
    "num_share_patients": "patients or volumes behind that share; 0 where it is withheld",
    "selection_weight": "mean weight of the site's cases: how likely it trains in the next rounds (FedSelect)",
    "num_scored_patients": "patients or volumes behind that mean",
    "scorer_gradient": "how the network that weighs cases has to change, 301 numbers (FedSelect)",
    "num_proxy_patients": "patients or volumes of the cases that it is tested on",
    "prototypes": (
        "mean of the features of each class's pixels, background first, which the sites draw their own to; "
        "(C + 1) · D numbers, with `prototypes = means` alone (FedHAC)"
    ),
    "num_prototype_patients": "patients or volumes behind the mean of each class; 0 where it is withheld",
    "class_centroids": (
        "mean of the features of each class's images, of which the server makes the last layer; C · D numbers (FedGP)"
    ),
    "num_centroid_patients": "patients behind the mean of each class; 0 where it is withheld",
    "has_peer": "whether it has the model of another site, which helps to choose its pixels (FedDM)",
    "inner_difficulty": "FedA³I's q_in (Eq. 3)",
    "outer_difficulty": "FedA³I's q_out (Eq. 4)",
    "num_estimated": "patients or volumes behind the difficulties",
    "predicted_share": (
        "fraction of annotated samples in which the warm-up model detects anything: is it fit as a reference for "
        "annotations?"
    ),
    "num_annotated": "patients or volumes with any annotated object, behind that fraction",
    "num_annotated_lesions": "connected lesions in all annotations of the site together, FedIA's Σ c^n (Eq. 3)",
    "num_predicted_lesions": "connected lesions in all predictions of the site together, FedIA's Σ c^p (Eq. 3)",
    "num_matched_lesions": "predicted lesions that touch an annotated one, for the other estimate of annotation recall",
    "lesion_recall": "fraction of the annotated lesions that the model detects: is it fit as a reference?",
    "lesion_precision": "fraction of their predicted voxels that are annotated: as above",
    "has_corrected": (
        "whether the site trains on corrected annotations: FedIA ends its second stage when all do, and a site that "
        "does not is asked again; FedCorr says when they are lost"
    ),
    "has_model": "whether the site has stored the last shared model with its personal layers, which stay there",
}

_WEIGHTS = "weights of means: images, volumes or slices; for validation, images or volumes"
_AUDITED = "patients or volumes that were audited"

# What a field is for in the answer to one task: (task, field).
REASONS_OF_TASK = {
    (tasks.TRAIN, "num_samples"): _WEIGHTS,
    (tasks.VALIDATE, "num_samples"): _WEIGHTS,
    (tasks.VALIDATE_CLASSES, "num_samples"): _WEIGHTS,
    (tasks.TRAIN, "noise_level"): (
        "fraction of the samples whose label does not look right, FedGSCA's δ (Eq. 8): shows sites with many"
    ),
    (tasks.AUDIT_CASES, "num_patients"): _AUDITED,
    (tasks.AUDIT_LABELS, "num_patients"): _AUDITED,
    (tasks.ESTIMATE_ANNOTATION_BIAS, "num_patients"): "patients or volumes of the site",
    (tasks.MEASURE_BOUNDARY_PROFILE, "num_patients"): "patients or volumes of the site",
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


# What leaves in place of the model, by the job's setting `update_precision`.
_ROUNDED = (
    "the change of the locally trained model, to be averaged: kernels and matrices as {numbers}, the other entries as "
    "they are (update_precision = {precision})"
)
_NUMBERS: Mapping[UpdatePrecision, str] = {
    "bf16": "16-bit floating numbers",
    "int8": "whole numbers from -127 to 127 with a scale for each output channel",
}


def reason_of_model(precision: UpdatePrecision) -> str:
    """Return what leaves as the model in a job, and why.

    Args:
        precision: the job's setting `update_precision`.
    """
    if precision == "fp32":
        return REASONS["params"]
    return _ROUNDED.format(numbers=_NUMBERS[precision], precision=precision)


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


def described_field(field: OutboundField, task: str, precision: UpdatePrecision = "fp32") -> tuple[str, str, str]:
    """Return a field of the answer to a task in words: its name, what it is, and why it leaves the site.

    Args:
        field: the field.
        task: one of its tasks.
        precision: of a job, its setting `update_precision`.
    """
    what: list[str] = [field.kind]
    if field.counted_by is not None:
        what.append(f"over {field.counted_by}")
    if field.optional:
        what.append("not always sent")
    reason = reason_of_model(precision) if field.name == "params" else reason_of(field, task)
    return field.name, ", ".join(what), reason
