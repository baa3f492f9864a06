"""FedIA and its ablations beside federated averaging, on the generated volumes with several lesions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.data.phantoms.lesion_volumes import LesionVolumes
from ...custom.data.phantoms.writer import write_phantom_federation
from ..runs.arms import Arm
from .rows import MakeData, Row

SETTINGS: dict[str, Any] = {
    "rounds": 24,
    "warmup_rounds": 12,
    "network.features": [8, 16, 32, 64, 64, 8],
    "network.upsample": "nontrainable",
    "training.loss": "batch_dice",
    "training.learning_rate": 0.005,
    "training.batch_size": 4,
    "training.local_epochs": 1,
}
# The paper's four settings of MS, share of its lesions that each site annotates.
MS = ((0.4, 0.6, 0.8, 1.0), (0.3, 0.5, 0.7, 0.9), (0.2, 0.4, 0.6, 0.8), (0.1, 0.3, 0.5, 0.7))

FEDAVG = Arm("fedavg", Path("fedavg"))
# Its warm-up is trained with another loss, so it branches from nothing.
NR_DICE = Arm("nr-dice", Path("fedavg"), {"training.loss": "nr_dice"})


def with_settings(name: str, **overrides: Any) -> Arm:
    """FedIA with settings of its own; its warm-up is federated averaging and is not trained once more."""
    return Arm(name, Path("fedia"), overrides, overrides.get("warmup_rounds", SETTINGS["warmup_rounds"]))


FEDIA = with_settings("fedia")
COMPONENTS = (
    FEDAVG,
    with_settings("weights-only", correction=False),
    with_settings("corrections-only", weighting="quantity"),
    FEDIA,
    NR_DICE,
)
ABLATIONS = (
    FEDAVG,
    FEDIA,
    with_settings("warmup-8", warmup_rounds=8),
    with_settings("warmup-16", warmup_rounds=16),
    with_settings("threshold-0.5", correction_threshold=0.5),
    with_settings("threshold-0.6", correction_threshold=0.6),
    with_settings("threshold-0.7", correction_threshold=0.7),
    with_settings("margin-0", correction_margin=0.0),
    with_settings("margin-0.06", correction_margin=0.06),
    with_settings("matched", estimator="matched"),
)


def volumes(completeness: Sequence[float] | None) -> MakeData:
    """Four sites of eight volumes, eight for the test, all drawn anew for each seed."""

    def make(folder: Path, seed: int) -> None:
        write_phantom_federation(folder, LesionVolumes(completeness), num_sites=4, seed=seed)

    return make


def _text(completeness: Sequence[float]) -> str:
    return "/".join(f"{10 * share:.0f}" for share in completeness)


def _row(completeness: Sequence[float], arms: Sequence[Arm], what: str = "", **settings: Any) -> Row:
    changed = {key.replace("__", "."): value for key, value in settings.items()}
    return Row(
        f"volumes, {_text(completeness)} tenths annotated{what}", volumes(completeness), arms, SETTINGS | changed
    )


ROWS: Mapping[str, Row] = {
    "complete": Row("volumes, everything annotated", volumes(None), (FEDAVG, FEDIA, NR_DICE), SETTINGS),
    **{f"ms-{number}": _row(shares, COMPONENTS) for number, shares in enumerate(MS)},
    "ablations": _row(MS[2], ABLATIONS, ", ablations"),
    "all-samples": _row(MS[2], (FEDAVG, FEDIA), ", ℓ and IoU over all slices", training__dice_loss_over="all"),
    "sample-dice": _row(MS[2], (FEDAVG, FEDIA), ", Dice loss of each slice", training__loss="dice"),
}
