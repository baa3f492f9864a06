"""FedGSCA and its ablations compared with federated averaging, on the generated cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation

from .rows import MakeData, Row

_WARMUP_ROUNDS = 9

# The method as it is published, jobs/fedgsca/settings/published-method.conf; the job itself has a form of its own.
PUBLISHED = {
    "selector_losses": "trained",
    "sample_loss": "ce",
    "confident_doubts": False,
    "pseudo_labels": "adaptive",
    "initial_threshold": 0.8,
    "loss": "rcl",
    "relaxation": 0.05,
    "beta_start": 0.75,
    "beta_end": 0.55,
    "beta_schedule": "cosine",
}

FEDAVG = Arm("fedavg", Path("fedavg_classification"))


def with_settings(name: str, **overrides: Any) -> Arm:
    """FedGSCA with settings of its own; its warm-up is federated averaging and is not trained once more."""
    settings = {"warmup_rounds": _WARMUP_ROUNDS} | overrides
    return Arm(name, Path("fedgsca"), settings, settings["warmup_rounds"])


def with_both_forms(**overrides: Any) -> tuple[Arm, ...]:
    """Federated averaging, FedGSCA as published but for the warm-up, and in the job's own form."""
    forms: tuple[tuple[str, dict[str, Any]], ...] = (("fedgsca", PUBLISHED), ("own", {}))
    return (FEDAVG, *(with_settings(name, **form, **overrides) for name, form in forms))


ARMS = with_both_forms()
# The paper's ablations leave out one part after the other.
_WITHOUT_RCL = PUBLISHED | {"loss": "ce"}
_WITHOUT_ATP = _WITHOUT_RCL | {"pseudo_labels": "fixed", "fixed_threshold": 0.7}
ABLATIONS = (
    *ARMS,
    with_settings("fedgsca-without-rcl", **_WITHOUT_RCL),
    with_settings("fedgsca-without-rcl-atp", **_WITHOUT_ATP),
    with_settings("fedgsca-own-selectors", **_WITHOUT_ATP, selector="own"),
    # Of the job's own form one part at a time is another.
    with_settings("own-rcl", loss="rcl"),
    with_settings("own-rcl-constant", loss="rcl", beta_schedule="constant"),
    with_settings("own-rcl-linear", loss="rcl", beta_schedule="linear"),
    with_settings("own-ucl", loss="ucl"),
    with_settings("own-atp", pseudo_labels="adaptive"),
    with_settings("own-any-doubt", confident_doubts=False),
    with_settings("own-trained-ce", selector_losses="trained", sample_loss="ce"),
    with_settings("own-selectors", selector="own"),
)


def cells(label_noise: str | None) -> MakeData:
    """Four sites of 300 cells, 320 for the test, all drawn again for each seed."""

    def make(folder: Path, seed: int) -> None:
        write_phantom_federation(folder, Cells(label_noise), seed=seed)

    return make


def _row(label_noise: str) -> Row:
    return Row(f"cells, labels {label_noise}", cells(label_noise), ARMS)


ROWS: Mapping[str, Row] = {
    "clean": Row("cells, all labels right", cells(None), ARMS),
    "s40": _row("S40"),
    "s50": _row("S50"),
    "p20": _row("P20"),
    "c20": _row("C20"),
    "rates": _row("0-S20-S20-S40"),
    "types": _row("0-S40-P20-C20"),
    "ablations": Row("cells, labels 0-S40-P20-C20, ablations", cells("0-S40-P20-C20"), ABLATIONS),
}
