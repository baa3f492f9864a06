"""FedGSCA and its ablations beside federated averaging, on the generated cells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...custom.data.embedded_cells import write_cell_federation
from ..compare import Arm
from .rows import MakeData, Row

_WARMUP_ROUNDS = 9

# The published selector, and the one that is the job's own.
PUBLISHED = {"selector_losses": "trained", "sample_loss": "ce"}
BOUNDED = {"selector_losses": "received", "sample_loss": "mae"}

FEDAVG = Arm("fedavg", Path("fedavg_classification"))


def with_settings(name: str, **overrides: Any) -> Arm:
    """FedGSCA with settings of its own; its warm-up is federated averaging and is not trained once more."""
    settings = {"warmup_rounds": _WARMUP_ROUNDS} | overrides
    return Arm(name, Path("fedgsca"), settings, settings["warmup_rounds"])


def with_both_selectors(**overrides: Any) -> tuple[Arm, ...]:
    """Federated averaging, FedGSCA as published but for the warm-up, and with the job's own selector."""
    forms = (("fedgsca", PUBLISHED), ("bounded", BOUNDED))
    return (FEDAVG, *(with_settings(name, **selector, **overrides) for name, selector in forms))


ARMS = with_both_selectors()
# The paper's ablations leave out one part after the other.
WITHOUT_RCL = BOUNDED | {"loss": "ce"}
WITHOUT_ATP = WITHOUT_RCL | {"pseudo_labels": "fixed"}
ABLATIONS = (
    *ARMS,
    with_settings("without-rcl", **WITHOUT_RCL),
    with_settings("without-rcl-atp", **WITHOUT_ATP),
    with_settings("own-selectors", **WITHOUT_ATP, selector="own"),
    with_settings("ucl", **BOUNDED, loss="ucl"),
    with_settings("beta-constant", **BOUNDED, beta_schedule="constant"),
    with_settings("beta-linear", **BOUNDED, beta_schedule="linear"),
    # Each of the two changes alone.
    with_settings("bounded-trained", selector_losses="trained", sample_loss="mae"),
    with_settings("ce-received", selector_losses="received", sample_loss="ce"),
)


def cells(label_noise: str | None) -> MakeData:
    """Four sites of 300 cells, 320 for the test, all drawn anew for each seed."""

    def make(folder: Path, seed: int) -> None:
        write_cell_federation(folder, label_noise=label_noise, seed=seed)

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
