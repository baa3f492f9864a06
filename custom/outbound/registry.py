"""Everything that leaves a site, listed once. A filter rejects whatever is not in this list."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

TRAIN = "train"
ESTIMATE_QUALITY = "estimate_quality"
ESTIMATE_COMPLETENESS = "estimate_completeness"
CORRECT_ANNOTATIONS = "correct_annotations"
VALIDATE = "validate"
VALIDATE_CLASSES = "validate_classes"
KEEP_MODEL = "keep_model"

# A mean over fewer patients than this is close to a patient's own value and stays at the site. Patients or volumes are
# counted, never slices.
MINIMUM_CASES = 3


_KIND_NAMES = {
    "model": "a state dict",
    "number": "a number",
    "numbers": "a list of numbers",
    "count": "a count",
    "counts": "a list of counts",
    "flag": "a flag",
}


class OutboundError(ValueError):
    """A result holds something that may not leave the site."""


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
    """

    name: str
    tasks: tuple[str, ...]
    kind: Literal["model", "number", "numbers", "count", "counts", "flag"]
    reason: str
    counted_by: str | None = None
    optional: str = ""
    limits: tuple[float, float] | None = None
    length: int | None = None


OUTBOUND_FIELDS = (
    OutboundField(
        "params", (TRAIN,), "model", "the locally trained model, to be averaged; FedCurv: with its curvature"
    ),
    OutboundField(
        "num_samples",
        (TRAIN, ESTIMATE_QUALITY, ESTIMATE_COMPLETENESS, VALIDATE, VALIDATE_CLASSES),
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
        (TRAIN, ESTIMATE_COMPLETENESS, VALIDATE, VALIDATE_CLASSES),
        "count",
        "patients or volumes behind means, scores and numbers of lesions, never slices",
        optional="means",
    ),
    OutboundField(
        "dice_loss",
        (TRAIN,),
        "number",
        "mean Dice loss of the round, FedIA's ℓ (Eq. 5): weights and the time to correct follow from it",
        "num_dice_patients",
        optional="Dice loss",
        limits=(0.0, 1.0),
    ),
    OutboundField(
        "num_dice_patients", (TRAIN,), "count", "patients or volumes behind the Dice loss", optional="Dice loss"
    ),
    OutboundField(
        "has_corrected",
        (TRAIN, CORRECT_ANNOTATIONS),
        "flag",
        "whether the site trains on corrected annotations: FedIA ends its second stage when all do",
        optional="correction",
    ),
    OutboundField(
        "noise_level",
        (TRAIN,),
        "number",
        "share of the samples whose label does not look right, FedGSCA's δ (Eq. 8): to tell a site that it has many",
        "num_patients",
        optional="noise level",
        limits=(0.0, 1.0),
    ),
    OutboundField(
        "selector_means",
        (TRAIN,),
        "numbers",
        "means of the mixture over the site's losses, FedGSCA's μ (Eq. 2), for the global sample selector",
        "selector_patients",
        optional="selector",
        length=2,
    ),
    OutboundField(
        "selector_variances",
        (TRAIN,),
        "numbers",
        "its variances, σ²",
        "selector_patients",
        optional="selector",
        length=2,
    ),
    OutboundField(
        "selector_priors", (TRAIN,), "numbers", "its weights, π", "selector_patients", optional="selector", length=2
    ),
    OutboundField(
        "selector_patients",
        (TRAIN,),
        "counts",
        "patients with a sample that is more probably of each component: a component of few tells their losses",
        optional="selector",
        length=2,
    ),
    OutboundField(
        "has_model",
        (KEEP_MODEL,),
        "flag",
        "whether the site has stored the last shared model with its personal layers, which stay there",
    ),
    OutboundField(
        "num_annotated_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "connected lesions in all annotations of the site together, FedIA's Σ c^n (Eq. 3)",
        "num_patients",
        optional="means",
    ),
    OutboundField(
        "num_predicted_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "connected lesions in all predictions of the site together, FedIA's Σ c^p (Eq. 3)",
        "num_patients",
        optional="means",
    ),
    OutboundField(
        "num_matched_lesions",
        (ESTIMATE_COMPLETENESS,),
        "count",
        "predicted lesions that touch an annotated one, for the other estimate of completeness",
        "num_patients",
        optional="means",
    ),
    OutboundField("inner_difficulty", (ESTIMATE_QUALITY,), "numbers", "FedA³I's q_in (Eq. 3)", "num_estimated"),
    OutboundField("outer_difficulty", (ESTIMATE_QUALITY,), "numbers", "FedA³I's q_out (Eq. 4)", "num_estimated"),
    OutboundField("num_estimated", (ESTIMATE_QUALITY,), "counts", "patients or volumes behind the difficulties"),
    OutboundField(
        "predicted_share",
        (ESTIMATE_QUALITY,),
        "number",
        "share of annotated samples in which the warm-up model finds anything: is it fit to judge annotations?",
        "num_annotated",
        optional="predicted share",
    ),
    OutboundField(
        "num_annotated",
        (ESTIMATE_QUALITY,),
        "count",
        "patients or volumes with any annotated object, behind that share",
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
        "share of the validation cases without each class in which it is found nowhere: false findings in them",
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


def check_outbound(task: str, result: Mapping[str, Any]) -> None:
    """Check a site's result before it leaves.

    Raises:
        OutboundError: if it holds an unlisted field, a value of another kind, an infinite value where none can be, or
            a value over too few patients.
    """
    allowed = {field.name: field for field in OUTBOUND_FIELDS if task in field.tasks}
    if unlisted := sorted(set(result) - set(allowed)):
        raise OutboundError(f"Task {task!r} may not send {unlisted}; allowed: {sorted(allowed)}.")
    for name, value in result.items():
        field = allowed[name]
        if not _is_of_kind(value, field.kind):
            raise OutboundError(
                f"Task {task!r}: field {name!r} must be {_KIND_NAMES[field.kind]}, but is {type(value).__name__}."
            )
        if field.kind in ("number", "numbers") and not _is_bounded(value, field):
            raise OutboundError(f"Task {task!r}: field {name!r} must be finite, but is {value}.")
        if field.counted_by is not None:
            _check_minimum(task, field, value, result.get(field.counted_by))


def without_counted(task: str, result: Mapping[str, Any], kept: Collection[str] = ()) -> dict[str, Any]:
    """Return a site's result without what is computed over patients, so that the server can still use the rest.

    Of fields that a site need not send the whole group is left out. Numbers that it has to send become NaN.

    Args:
        task: the task that the result answers.
        result: its fields.
        kept: names of fields that may stay.
    """
    registered = {field.name: field for field in OUTBOUND_FIELDS if task in field.tasks}
    counted = [field for name, field in registered.items() if field.counted_by and name in set(result) - set(kept)]
    groups = {field.optional for field in counted} - {""}
    left = {
        name: value
        for name, value in result.items()
        if name not in registered or registered[name].optional not in groups
    }
    withheld = {field.name: result[field.name] for field in counted if not field.optional}
    return left | {
        name: [math.nan] * len(value) if isinstance(value, list) else math.nan for name, value in withheld.items()
    }


def report_refusal(task: str, report: Mapping[str, Any], num_classes: int) -> str | None:
    """Return why the server cannot use the registered fields of a site's result, or None if it can.

    Args:
        task: the task that the result answers.
        report: the result's fields beside the model; what is not registered is ignored.
        num_classes: number of foreground classes, the length of the lists.
    """
    fields = [field for field in OUTBOUND_FIELDS if task in field.tasks and field.kind != "model"]
    sent_groups = {field.optional for field in fields if field.optional and field.name in report}
    for field in fields:
        if field.name not in report:
            if field.optional and field.optional not in sent_groups:
                continue
            return f"its result lacks {field.name!r}"
        value = report[field.name]
        if not _is_of_kind(value, field.kind):
            return f"its {field.name!r} is {type(value).__name__}, expected {_KIND_NAMES[field.kind]}"
        length = num_classes if field.length is None else field.length
        if isinstance(value, list) and len(value) != length:
            return f"its {field.name!r} has {len(value)} entries, expected {length}"
        if field.limits is not None and not _within(value, *field.limits):
            return f"its {field.name!r} is {value}, expected {field.limits[0]} to {field.limits[1]}"
    return None


def _within(value: float, smallest: float, largest: float) -> bool:
    return math.isnan(value) or smallest <= value <= largest


def _is_of_kind(value: Any, kind: str) -> bool:
    if kind == "model":
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in value.items()
        )
    if kind in ("numbers", "counts"):
        element = "number" if kind == "numbers" else "count"
        return isinstance(value, list) and all(_is_of_kind(entry, element) for entry in value)
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "count":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, float)


def _is_bounded(value: Any, field: OutboundField) -> bool:
    """Whether no value is infinite that can only be finite; NaN stands for what is withheld or not defined."""
    may_be_infinite = field.limits is not None and math.isinf(field.limits[1])
    return may_be_infinite or not any(map(math.isinf, value if isinstance(value, list) else [value]))


def _check_minimum(task: str, field: OutboundField, value: Any, counts: Any) -> None:
    values = value if isinstance(value, list) else [value]
    per_entry = counts if isinstance(counts, list) else [counts] * len(values)
    if len(per_entry) != len(values):
        raise OutboundError(f"Task {task!r}: {field.name!r} has {len(values)} entries, its counts {len(per_entry)}.")
    for entry, count in zip(values, per_entry, strict=True):
        is_withheld = math.isnan(entry) or (field.kind == "counts" and entry == 0)
        if not is_withheld and (not _is_of_kind(count, "count") or count < MINIMUM_CASES):
            raise OutboundError(
                f"Task {task!r}: {field.name!r} is a mean over {count} cases; at least {MINIMUM_CASES} are needed."
            )
