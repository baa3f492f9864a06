"""Decoupled predictions, federated averaging and its rivals, on the generated chambers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.writer import write_phantom_federation

from .rows import MakeData, Row

PROTOCOLS = "0-0-C(20,8)-D(20,8)"
SETTINGS: dict[str, Any] = {
    "rounds": 8,
    "warmup_rounds": 2,
    "network.features": [8, 16, 32, 64, 64, 8],
    "network.upsample": "nontrainable",
    "training.learning_rate": 0.002,
    "training.batch_size": 8,
    "training.local_epochs": 3,
    "training.learning_rate_steps": [0.7],
}


def decoupled(name: str, **overrides: Any) -> Arm:
    """Decoupled predictions with settings of their own, aggregated at the server."""
    return Arm(name, Path("decoupled_server"), overrides)


# Aggregated at the server or by the sites among themselves, federated averaging has the same weights.
SWARM = Arm("swarm", Path("fedavg"))
FORMS = tuple(decoupled(f"decoupled-{form}", adaptation=form) for form in ("latent", "published", "feature"))
RIVALS = (
    Arm("fedprox", Path("fedavg"), {"training.proximal_weight": 0.01}),
    Arm("fedcurv", Path("fedcurv")),
    Arm("fedrep", Path("fedrep")),
    Arm("ditto", Path("ditto")),
    Arm("single-site", Path("single_site")),
)
# What a threshold of each site's own adds to the model that it keeps; training is the same.
WITH_THRESHOLDS = (
    SWARM,
    decoupled("decoupled"),
    decoupled("decoupled-threshold", own_threshold=True),
    Arm("ditto", Path("ditto")),
    Arm("ditto-threshold", Path("ditto"), {"own_threshold": True}),
)
ABLATIONS = (
    SWARM,
    decoupled("decoupled"),
    decoupled("fixed-adapt", adaptation="fixed"),
    decoupled("image-adapt", adaptation="image"),
    *(decoupled(f"alpha-{alpha}", trace_weight=alpha) for alpha in (0.1, 0.001, 0.0001)),
    *(decoupled(f"q-{q}", noise_exponent=q) for q in (0.3, 1.0)),
)


def chambers(protocols: str | None, *, test_volumes: int = 8) -> MakeData:
    """Four centres of eight volumes, six of each to score its own model, and some of unseen centres for the test."""

    def make(folder: Path, seed: int) -> None:
        write_phantom_federation(folder, Chambers(protocols), seed=seed, test_images=test_volumes)

    return make


ROWS: Mapping[str, Row] = {
    "generic": Row("chambers, all annotate alike", chambers(None), (SWARM, *FORMS, *RIVALS), SETTINGS),
    "protocols": Row(f"chambers, protocols {PROTOCOLS}", chambers(PROTOCOLS), (SWARM, *FORMS, *RIVALS), SETTINGS),
    "thresholds": Row(
        f"chambers, protocols {PROTOCOLS}, thresholds of the sites' own", chambers(PROTOCOLS), WITH_THRESHOLDS, SETTINGS
    ),
    "ablations": Row(f"chambers, protocols {PROTOCOLS}, ablations", chambers(PROTOCOLS), ABLATIONS, SETTINGS),
}
