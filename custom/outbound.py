"""Everything that leaves a site, listed once. A filter rejects whatever is not in this list."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

TRAIN = "train"
ESTIMATE_QUALITY = "estimate_quality"
VALIDATE = "validate"

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
        counted_by: for a mean, the field with the number of cases behind it, which must be at least
            :data:`MINIMUM_CASES` for every entry that is not NaN.
        optional: a site with too few cases leaves the field out, together with the task's other optional fields.
    """

    name: str
    tasks: tuple[str, ...]
    kind: Literal["model", "number", "numbers", "count", "counts", "flag"]
    reason: str
    counted_by: str | None = None
    optional: bool = False


OUTBOUND_FIELDS = (
    OutboundField("params", (TRAIN,), "model", "the locally trained model, to be aggregated"),
    OutboundField(
        "num_samples",
        (TRAIN, ESTIMATE_QUALITY, VALIDATE),
        "count",
        "weights of means: pictures, volumes or slices; for validation, pictures or volumes",
    ),
    OutboundField("num_excluded", (TRAIN,), "count", "how many cases could not be used; which ones stays at the site"),
    OutboundField(
        "embedded_data", (TRAIN,), "flag", "whether the site runs on the embedded phantom, which has a test set"
    ),
    OutboundField(
        "train_loss",
        (TRAIN,),
        "number",
        "mean training loss of the round, to watch training",
        "num_patients",
        optional=True,
    ),
    OutboundField(
        "num_patients",
        (TRAIN, VALIDATE),
        "count",
        "patients or volumes behind the mean loss or scores, never slices",
        optional=True,
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
        optional=True,
    ),
    OutboundField(
        "num_annotated",
        (ESTIMATE_QUALITY,),
        "count",
        "patients or volumes with any annotated object, behind that share",
    ),
    OutboundField(
        "dice", (VALIDATE,), "numbers", "mean Dice on the site's own validation cases", "num_patients", optional=True
    ),
    OutboundField(
        "hd95", (VALIDATE,), "numbers", "mean HD95 on the site's own validation cases", "num_defined", optional=True
    ),
    OutboundField(
        "num_defined",
        (VALIDATE,),
        "counts",
        "cases behind the mean HD95; it is undefined for the others",
        optional=True,
    ),
)


def check_outbound(task: str, result: Mapping[str, Any]) -> None:
    """Check a site's result before it leaves.

    Raises:
        OutboundError: if it holds an unlisted field, a value of another kind, or a mean over too few cases.
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
        if field.counted_by is not None:
            _check_minimum(task, field, value, result.get(field.counted_by))


def report_refusal(task: str, report: Mapping[str, Any], num_classes: int) -> str | None:
    """Return why the server cannot use the registered fields of a site's result, or None if it can.

    Args:
        task: the task that the result answers.
        report: the result's fields beside the model; what is not registered is ignored.
        num_classes: number of foreground classes, the length of the lists.
    """
    fields = [field for field in OUTBOUND_FIELDS if task in field.tasks and field.kind != "model"]
    some_optional = any(field.optional and field.name in report for field in fields)
    for field in fields:
        if field.name not in report:
            if field.optional and not some_optional:
                continue
            return f"its result lacks {field.name!r}"
        value = report[field.name]
        if not _is_of_kind(value, field.kind):
            return f"its {field.name!r} is {type(value).__name__}, expected {_KIND_NAMES[field.kind]}"
        if isinstance(value, list) and len(value) != num_classes:
            return f"its {field.name!r} has {len(value)} entries, expected {num_classes}"
    return None


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


def _check_minimum(task: str, field: OutboundField, value: Any, counts: Any) -> None:
    values = value if isinstance(value, list) else [value]
    per_entry = counts if isinstance(counts, list) else [counts] * len(values)
    if len(per_entry) != len(values):
        raise OutboundError(f"Task {task!r}: {field.name!r} has {len(values)} entries, its counts {len(per_entry)}.")
    for entry, count in zip(values, per_entry, strict=True):
        if not math.isnan(entry) and (not _is_of_kind(count, "count") or count < MINIMUM_CASES):
            raise OutboundError(
                f"Task {task!r}: {field.name!r} is a mean over {count} cases; at least {MINIMUM_CASES} are needed."
            )
