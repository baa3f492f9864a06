"""What may leave a site: what a field is, and those that every method sends. Types only."""

import math
from dataclasses import dataclass
from typing import Literal

from ..task_names import TRAIN, VALIDATE, VALIDATE_CLASSES

# A mean over fewer patients than this is close to a patient's own value and stays at the site. Patients or volumes are
# counted, never slices.
MINIMUM_CASES = 3


@dataclass(frozen=True)
class OutboundField:
    """One field that a site may send.

    Attributes:
        name: key in the result.
        tasks: tasks whose result may hold it.
        kind: ``"model"`` (state dict of tensors), ``"number"``, ``"count"``, ``"flag"``, or ``"numbers"`` and
            ``"counts"`` (one entry per foreground class).
        reason: why the server needs it.
        counted_by: for what is computed over patients, the field with their number, which must be at least
            :data:`MINIMUM_CASES` for every entry that is not withheld: NaN, or 0 in a list of counts.
        optional: name of a group of fields, all or none of which a site sends; empty for a field that it always sends.
        limits: smallest and largest value, NaN apart.
        length: entries of a list; None for one per class.
        sample_bound: largest value of one sample or case, of a mean or sum over them that a site may give noise so that
            it hides single patients; what has none is not sent by a site whose statistics are private.
        only_private: whether the field is not in a site's answer, and leaves with noise alone: made from its samples
            where the site's statistics are private.
        noise_of: for the standard deviations of the noise in another field, that field's name; as above.
        follows_model: whether the received model decides who is counted. Weights made for it turn such a number into an
            answer about one patient, so that it is 0 where nothing leaves that it counts.

    Example:
        >>> field = OutboundField("update_norm", ("train",), "number", "how far it moves the model", "num_patients")
        >>> field.counted_by
        'num_patients'
    """

    name: str
    tasks: tuple[str, ...]
    kind: Literal["model", "number", "numbers", "count", "counts", "flag"]
    reason: str
    counted_by: str | None = None
    optional: str = ""
    limits: tuple[float, float] | None = None
    length: int | None = None
    sample_bound: float | None = None
    only_private: bool = False
    noise_of: str | None = None
    follows_model: bool = False


COMMON_FIELDS = (
    OutboundField("params", (TRAIN,), "model", "the locally trained model, to be averaged"),
    OutboundField(
        "num_samples",
        (TRAIN, VALIDATE, VALIDATE_CLASSES),
        "count",
        "weights of means: pictures, volumes or slices; for validation, pictures or volumes",
    ),
    OutboundField("num_excluded", (TRAIN,), "count", "how many cases could not be used; which ones stays at the site"),
    OutboundField(
        "embedded_data", (TRAIN,), "flag", "whether the site runs on the embedded phantom, which has a test set"
    ),
    OutboundField(
        "num_threads",
        (TRAIN,),
        "count",
        "threads that the site trains with: bits are the same for the same number",
        optional="threads",
        limits=(1.0, 2.0**16),
    ),
    OutboundField(
        "privacy_epsilon",
        (TRAIN,),
        "number",
        "ε of the site's taking part, by updates where they are private; it follows from their number and the noise",
        optional="privacy",
        limits=(0.0, math.inf),
    ),
    OutboundField(
        "privacy_delta", (TRAIN,), "number", "the delta for which that is", optional="privacy", limits=(0.0, 1.0)
    ),
    OutboundField(
        "patient_epsilon",
        (TRAIN,),
        "number",
        "ε of a patient by updates and quality statistics together; it follows from their numbers and the noise",
        optional="privacy",
        limits=(0.0, math.inf),
    ),
    OutboundField(
        "statistics_epsilon",
        (TRAIN,),
        "number",
        "ε of a patient by quality statistics alone, where they get noise; it follows from their number and the noise",
        optional="private statistics",
        limits=(0.0, math.inf),
    ),
    OutboundField(
        "statistics_delta",
        (TRAIN,),
        "number",
        "the delta for which that is",
        optional="private statistics",
        limits=(0.0, 1.0),
    ),
    OutboundField(
        "train_loss",
        (TRAIN,),
        "number",
        "mean training loss of the round, to watch training",
        "num_patients",
        optional="means",
    ),
    OutboundField(
        "num_patients",
        (TRAIN, VALIDATE, VALIDATE_CLASSES),
        "count",
        "patients or volumes behind means and scores, never slices",
        optional="means",
    ),
    OutboundField(
        "dice_loss",
        (TRAIN,),
        "number",
        "mean Dice loss of the round, to watch training; FedIA's weights and the time to correct follow from it",
        "num_dice_patients",
        optional="Dice loss",
        limits=(0.0, 1.0),
    ),
    OutboundField(
        "num_dice_patients", (TRAIN,), "count", "patients or volumes behind the Dice loss", optional="Dice loss"
    ),
    OutboundField(
        "dice",
        (VALIDATE,),
        "numbers",
        "mean Dice on the site's own validation cases, of each class over those in which it is annotated",
        "num_class_patients",
        optional="means",
    ),
    OutboundField(
        "num_class_cases",
        (VALIDATE,),
        "counts",
        "cases in which each class is annotated, the weight of its Dice; the others are the weight of left_empty",
        "num_patients",
        optional="means",
    ),
    OutboundField(
        "left_empty",
        (VALIDATE,),
        "numbers",
        "fraction of the validation cases without each class in which it is found nowhere: false findings in them",
        "num_empty_patients",
        optional="means",
    ),
    OutboundField(
        "num_empty_patients",
        (VALIDATE,),
        "counts",
        "patients or volumes with a case without each class, behind that share",
        optional="means",
    ),
    OutboundField(
        "num_class_patients",
        (VALIDATE, VALIDATE_CLASSES),
        "counts",
        "patients or volumes with each class, in segmentation in an annotation: behind Dice and counts of classes",
        optional="means",
    ),
    OutboundField(
        "hd95",
        (VALIDATE,),
        "numbers",
        "mean HD95 on the site's own validation cases",
        "num_distance_patients",
        optional="means",
    ),
    OutboundField(
        "num_distance_patients", (VALIDATE,), "counts", "patients or volumes behind the mean HD95", optional="means"
    ),
    OutboundField(
        "num_defined",
        (VALIDATE,),
        "counts",
        "cases behind the mean HD95, its weight; it is undefined for the others",
        optional="means",
    ),
    OutboundField(
        "num_correct",
        (VALIDATE_CLASSES,),
        "counts",
        "validation cases of each class that are predicted as it: F1, recall and precision follow from such counts",
        "num_class_patients",
        optional="means",
    ),
    OutboundField(
        "num_labelled",
        (VALIDATE_CLASSES,),
        "counts",
        "validation cases of each class, without those of a class with too few patients",
        "num_class_patients",
        optional="means",
    ),
    OutboundField(
        "num_predicted",
        (VALIDATE_CLASSES,),
        "counts",
        "those validation cases that are predicted as each class",
        "num_patients",
        optional="means",
    ),
)
