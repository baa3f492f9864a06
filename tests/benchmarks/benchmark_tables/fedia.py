"""FedIA and its ablations compared with federated averaging, on the generated volumes with several lesions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data.noise.noisy_copy import leave_lesions_out
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation

from .many_objects import ManyObjects
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
# With the rate falling FedAvg's last rounds lie within a few points of each other; without they move by ten.
STEADY = SETTINGS | {"training.learning_rate_steps": [0.75]}
# The method as it is published, jobs/fedia/settings/published-method.conf; the job itself has a form of its own.
PUBLISHED: dict[str, Any] = {
    "weighting": "completeness",
    "estimator": "counts",
    "trigger": "loss",
    "additions": "voxels",
    "correction": True,
    "correction_margin": 0.03,
    "correction_threshold": 0.8,
}
# The paper's four settings of MS, fraction of its lesions that each site annotates.
MS = ((0.4, 0.6, 0.8, 1.0), (0.3, 0.5, 0.7, 0.9), (0.2, 0.4, 0.6, 0.8), (0.1, 0.3, 0.5, 0.7))

FEDAVG = Arm("fedavg", Path("fedavg"))
# Its warm-up is trained with another loss, so it branches from nothing.
NR_DICE = Arm("nr-dice", Path("fedavg"), {"training.loss": "nr_dice"})


def with_settings(name: str, **overrides: Any) -> Arm:
    """FedIA as published but for some settings; its warm-up is federated averaging and is not trained once more."""
    return own_form(name, **PUBLISHED | overrides)


def own_form(name: str, **overrides: Any) -> Arm:
    """FedIA in the job's own form but for some settings, as above."""
    return Arm(name, Path("fedia"), overrides, overrides.get("warmup_rounds", SETTINGS["warmup_rounds"]))


FEDIA = with_settings("fedia")
COMPONENTS = (
    FEDAVG,
    with_settings("weights-only", correction=False),
    with_settings("corrections-only", weighting="quantity"),
    FEDIA,
    NR_DICE,
)
OWN = own_form("own")
FORMS = (
    FEDAVG,
    with_settings("published"),
    with_settings("weights-only", correction=False),
    OWN,
)
OWN_ABLATIONS = (
    FEDAVG,
    OWN,
    own_form("own-weights-only", correction=False),
    own_form("own-corrections-only", weighting="quantity"),
    own_form("own-asks", corrections="ask"),
    own_form("own-effective-65", least_effective_share=0.65),
    own_form("own-effective-80", least_effective_share=0.8),
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


def volumes(completeness: Sequence[float] | None, *, test_volumes: int = 8) -> MakeData:
    """Four sites of eight volumes, and some for the test, all drawn again for each seed."""

    def make(folder: Path, seed: int) -> None:
        write_phantom_federation(folder, LesionVolumes(completeness), num_sites=4, seed=seed, test_images=test_volumes)

    return make


def pictures(completeness: Sequence[float] | None) -> MakeData:
    """Four sites of ten pictures with many objects, each with its own look; 16 of all looks for the test."""

    def make(folder: Path, seed: int) -> None:
        complete = folder if completeness is None else folder.with_name(f"{folder.name}-complete")
        if not complete.exists():
            write_phantom_federation(complete, ManyObjects(), seed=seed)
        if completeness is not None:
            leave_lesions_out(complete, folder, completeness, seed=seed)

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
    "own-complete": Row("volumes, everything annotated, rate falls", volumes(None), FORMS, STEADY),
    **{
        f"own-ms-{number}": Row(
            f"volumes, {_text(shares)} tenths annotated, rate falls", volumes(shares), FORMS, STEADY
        )
        for number, shares in enumerate(MS)
    },
    **{
        name: Row(
            f"volumes, {_text(shares)} tenths annotated, rate falls, ablations", volumes(shares), OWN_ABLATIONS, STEADY
        )
        for name, shares in (("own-ablations", MS[2]), ("own-ablations-ms-3", MS[3]))
    },
    "pictures-complete": Row("pictures of many objects, all annotated", pictures(None), FORMS, STEADY),
    "pictures-ms-2": Row(f"pictures of many objects, {_text(MS[2])} tenths annotated", pictures(MS[2]), FORMS, STEADY),
    "ablations": _row(MS[2], ABLATIONS, ", ablations"),
    "all-samples": _row(MS[2], (FEDAVG, FEDIA), ", ℓ and IoU over all slices", training__dice_loss_over="all"),
    "sample-dice": _row(MS[2], (FEDAVG, FEDIA), ", Dice loss of each slice", training__loss="dice"),
}
