"""`auto` for classification compared with federated averaging and FedGSCA, on the generated cells."""

from collections.abc import Mapping
from pathlib import Path

from fedannot.apps.runs.arms import Arm

from .fedgsca import FEDAVG, cells, with_settings
from .rows import Row

_WARMUP_ROUNDS = 9

# FedGSCA in the job's own form. The warm-ups are federated averaging and are not trained once more.
ARMS = (
    FEDAVG,
    with_settings("fedgsca-own"),
    Arm("auto", Path("auto_classification"), {"warmup_rounds": _WARMUP_ROUNDS}, _WARMUP_ROUNDS),
)


def _row(what: str, label_noise: str | None) -> Row:
    return Row(f"cells, {what}", cells(label_noise), ARMS)


ROWS: Mapping[str, Row] = {
    "s40": _row("labels S40", "S40"),
    "s50": _row("labels S50", "S50"),
    "p20": _row("labels P20", "P20"),
    "c20": _row("labels C20", "C20"),
    "mixed": _row("labels 0-S40-P20-C20", "0-S40-P20-C20"),
    "clean": _row("all labels right", None),
    "s10": _row("labels S10", "S10"),
}
