"""A round by each rule of aggregation, server optimizer and correction of drift, beside one of federated averaging."""

import statistics
from pathlib import Path

import pytest
from measuring import Measurement

from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.writer import write_phantom_federation

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
TURNS = 3
# One to three steps of eight images, so that corrections of drift read the models once more.
SIZES = (8, 12, 16, 20, 24)
SHARED = {
    "rounds": 4,
    "training.local_epochs": 1,
    "training.optimizer": "sgd",
    "training.momentum": 0.0,
    "min_sites": 5,
}
RULES = {
    "federated averaging": {},
    "median": {"aggregation.rule": "median"},
    "trimmed mean": {"aggregation.rule": "trimmed_mean"},
    "geometric median": {"aggregation.rule": "geometric_median"},
    "multi-Krum": {"aggregation.rule": "multi_krum"},
    "FedAvgM": {"server_optimizer.name": "fedavgm"},
    "FedAdam": {"server_optimizer.name": "fedadam"},
    "FedYogi": {"server_optimizer.name": "fedyogi"},
    "SCAFFOLD": {"drift_correction": "scaffold"},
    "FedNova": {"drift_correction": "fednova"},
}


def test_a_round_of_five_sites(speed_table, tmp_path):
    """Medians of the three rounds after the first, in runs that take turns; the network has 7.4 MiB."""
    write_phantom_federation(
        tmp_path / "data", Chambers("0-C(20,8)"), num_sites=5, images_per_site=SIZES, test_images=2
    )
    times: dict[str, list[float]] = {name: [] for name in RULES}
    for turn in range(TURNS):
        for name, settings in RULES.items():
            out = tmp_path / f"{name} {turn}"
            summary = simulate(JOBS / "fedavg", out, data=tmp_path / "data", overrides={**SHARED, **settings})
            times[name].append(statistics.median(record.seconds for record in summary.rounds[1:]))
    reference, *others = RULES
    for name in others:
        ratios = [one / other for one, other in zip(times[name], times[reference], strict=True)]
        speed_table.add(
            Measurement(
                f"a round, five sites of 8 to 24 images 64 × 64, one local epoch: {name}",
                statistics.median(times[name]),
                reference,
                statistics.median(times[reference]),
                statistics.median(ratios),
                "",
                f"{min(ratios):.2f} to {max(ratios):.2f} in {TURNS} turns",
            )
        )
