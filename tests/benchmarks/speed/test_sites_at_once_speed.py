"""A run whose sites work at the same time, compared with one whose sites take turns: time, and the same bits."""

import statistics
from pathlib import Path

import pytest
import torch
from measuring import Measurement
from test_federation_overhead import FEATURES, SIZES, federation

from fedannot.apps.runs.cores import available_cores
from fedannot.apps.runs.simulate import simulate

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
ROUNDS = 7


@pytest.mark.parametrize("size", SIZES)
def test_sites_at_once(speed_table, tmp_path, size):
    """The rounds' seconds without scores, both ways in turn; the first round decodes the images."""
    num_sites, images, side, training = SIZES[size]
    data = federation(tmp_path / "data", num_sites, images, side)
    (data / "test").rename(tmp_path / "not-scored")
    overrides = {"rounds": ROUNDS, "validate_every": 1000, "network.features": list(FEATURES)}
    overrides |= {f"training.{key}": value for key, value in training.items()}
    seconds: dict[int, list[float]] = {1: [], available_cores(): []}
    models = []
    for turn in range(2):
        for at_once in seconds:
            out = tmp_path / f"{at_once}-{turn}"
            summary = simulate(JOBS / "fedavg", out, data=data, overrides=overrides, sites_at_once=at_once)
            seconds[at_once] += [record.seconds for record in summary.rounds[1:-1]]
            models.append(torch.load(out / "model.pt", weights_only=True)["model"])
    assert all(torch.equal(model[name], models[0][name]) for model in models[1:] for name in model)
    alone, together = (statistics.median(values) for values in seconds.values())
    ranges = " and ".join(f"{min(values):.2f} to {max(values):.2f} s" for values in seconds.values())
    speed_table.add(
        Measurement(
            f"a round, {size}, {available_cores()} sites at a time",
            together,
            "sites in turn",
            alone,
            together / alone,
            note=ranges,
        )
    )
