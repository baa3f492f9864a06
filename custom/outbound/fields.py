"""What may leave a site: what a field is, and those that every method sends. Types only."""

import math
from dataclasses import dataclass
from typing import Literal

from ..task_names import TRAIN, VALIDATE, VALIDATE_CLASSES

# A mean over fewer patients than this is close to a patient's own value and stays at the site. Patients or volumes are
# counted, never slices.
MINIMUM_CASES = 3
# How a site prepares images, which does not change from round to round.
PREPARATION = "preparation"


@dataclass(frozen=True)
class OutboundField:
    """One field that a site may send.

    Attributes:
        name: key in the result.
        tasks: tasks whose result may hold it.
        kind: ``"model"`` (state dict of tensors), ``"number"``, ``"count"``, ``"flag"``, or ``"numbers"`` and
            ``"counts"`` (one entry per foreground class).
        reason: why the server needs it, of a field that a method of another package declares; the reasons of others are
            in :mod:`fedannot.apps.wording.outbound_fields`.
        counted_by: for what is computed over patients, the field with their number, which must be at least
            :data:`MINIMUM_CASES` for every entry that is not withheld: NaN, or 0 in a list of counts.
        optional: name of a group of fields, all or none of which a site sends; empty for a field that it always sends.
        limits: smallest and largest value, NaN apart.
        length: entries of a list; None for a list of all classes.
        per_class: entries of each class in such a list, one class after the other. The count of a class holds for all
            of them, or there are as many counts of each class.
        sample_bound: largest value of one sample or case, of a mean or sum over them that a site may give noise so that
            it hides single patients; what has none is not sent by a site whose statistics are private.
        only_private: whether the field is not in a site's answer, and leaves with noise alone: made from its samples
            where the site's statistics are private.
        noise_of: for the standard deviations of the noise in another field, that field's name; as above.
        follows_model: whether the received model decides who is counted. Weights made for it turn such a number into an
            answer about one patient, so that it is 0 where nothing leaves that it counts.
        at_most: names of fields of the same length, none of whose entries is smaller than this one's; else the server
            refuses the answer.
        names_classes: whether entries of a list of counts are numbers of classes, from 1, and 0 for none.
        has_background: whether the background is the first class of a list of all classes.
        least: of counts of patients with a minimum of their own: an entry is 0, or at least so many. What they count is
            withheld below it; without it below :data:`MINIMUM_CASES`.
        largest_width: of a list with equally many entries of each class, whose number the network decides and the
            method checks, the largest such number; None for `per_class` of them.

    Example:
        >>> field = OutboundField("update_norm", ("train",), "number", "how far it moves the model", "num_patients")
        >>> field.counted_by
        'num_patients'
    """

    name: str
    tasks: tuple[str, ...]
    kind: Literal["model", "number", "numbers", "count", "counts", "flag"]
    reason: str = ""
    counted_by: str | None = None
    optional: str = ""
    limits: tuple[float, float] | None = None
    length: int | None = None
    per_class: int = 1
    sample_bound: float | None = None
    only_private: bool = False
    noise_of: str | None = None
    follows_model: bool = False
    at_most: tuple[str, ...] = ()
    names_classes: bool = False
    has_background: bool = False
    least: int = 0
    largest_width: int | None = None


COMMON_FIELDS = (
    OutboundField("params", (TRAIN,), "model"),
    OutboundField("num_samples", (TRAIN, VALIDATE, VALIDATE_CLASSES), "count"),
    OutboundField("num_excluded", (TRAIN,), "count"),
    OutboundField("embedded_data", (TRAIN,), "flag"),
    OutboundField("num_threads", (TRAIN,), "count", optional="threads", limits=(1.0, 2.0**16)),
    OutboundField("significand_bits", (TRAIN,), "count", optional="precision", limits=(8.0, 24.0)),
    OutboundField(PREPARATION, (TRAIN,), "numbers", optional="preparation", limits=(-1e6, 1e6), length=17),
    OutboundField("privacy_epsilon", (TRAIN,), "number", optional="privacy", limits=(0.0, math.inf)),
    OutboundField("privacy_delta", (TRAIN,), "number", optional="privacy", limits=(0.0, 1.0)),
    OutboundField("patient_epsilon", (TRAIN,), "number", optional="privacy", limits=(0.0, math.inf)),
    OutboundField("statistics_epsilon", (TRAIN,), "number", optional="private statistics", limits=(0.0, math.inf)),
    OutboundField("statistics_delta", (TRAIN,), "number", optional="private statistics", limits=(0.0, 1.0)),
    OutboundField("train_loss", (TRAIN,), "number", counted_by="num_patients", optional="means"),
    OutboundField("num_patients", (TRAIN, VALIDATE, VALIDATE_CLASSES), "count", optional="means"),
    OutboundField(
        "dice_loss", (TRAIN,), "number", counted_by="num_dice_patients", optional="Dice loss", limits=(0.0, 1.0)
    ),
    OutboundField("num_dice_patients", (TRAIN,), "count", optional="Dice loss"),
    OutboundField("dice", (VALIDATE,), "numbers", counted_by="num_class_patients", optional="means"),
    OutboundField("num_class_cases", (VALIDATE,), "counts", counted_by="num_patients", optional="means"),
    OutboundField("left_empty", (VALIDATE,), "numbers", counted_by="num_empty_patients", optional="means"),
    OutboundField("num_empty_patients", (VALIDATE,), "counts", optional="means"),
    OutboundField("num_class_patients", (VALIDATE, VALIDATE_CLASSES), "counts", optional="means"),
    OutboundField("hd95", (VALIDATE,), "numbers", counted_by="num_distance_patients", optional="means"),
    OutboundField("num_distance_patients", (VALIDATE,), "counts", optional="means"),
    OutboundField("num_defined", (VALIDATE,), "counts", optional="means"),
    OutboundField("num_correct", (VALIDATE_CLASSES,), "counts", counted_by="num_class_patients", optional="means"),
    OutboundField("num_labelled", (VALIDATE_CLASSES,), "counts", counted_by="num_class_patients", optional="means"),
    OutboundField("num_predicted", (VALIDATE_CLASSES,), "counts", counted_by="num_patients", optional="means"),
)
