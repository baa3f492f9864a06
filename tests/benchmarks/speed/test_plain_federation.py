"""A round beside a plain federated loop in the form of published programs: fairness, and processor time."""

import copy
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from measuring import Measurement
from plain_federation import LEARNING_RATE, federated_round, loaders
from test_federation_overhead import FEATURES, SIZES, federation

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.fedavg import site as fedavg_site
from fedannot.custom.networks.described import described_network
from fedannot.custom.run.run_progress import ProgressTracker
from fedannot.custom.training.loop import TrainingOutcome, train

JOBS = Path(__file__).parents[3] / "jobs"
# The first round decodes the images, the last one asks sites for their scores.
ROUNDS = 9
GOALS = {"fp32": "≤ 0.85", "bf16": "≤ 0.65"}


def our_settings(features: tuple[int, ...], rounds: int, training: dict[str, Any]) -> dict[str, Any]:
    """What both have in common, as settings of our job."""
    common = {"learning_rate": LEARNING_RATE, **training}
    return {
        "rounds": rounds,
        "validate_every": 1000,
        "network.features": list(features),
        **{f"training.{key}": value for key, value in common.items()},
    }


def sites_of(data: Path, cache: Path) -> list[SiteData]:
    folders = sorted(data.glob("site-*"), key=lambda folder: int(folder.name.split("-")[1]))
    return [load_site_data(folder, cache, site=folder.name) for folder in folders]


def start_of(overrides: dict[str, Any]) -> torch.nn.Module:
    """The network with which our run begins, in PyTorch's default layout."""
    settings = Job.open(JOBS / "fedavg").settings_with(overrides)
    return described_network(settings.network, settings.seed)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[TrainingOutcome]:
    """What comes of our sites' trainings, in their order."""
    kept: list[TrainingOutcome] = []

    def noted(*args: Any, **kwargs: Any) -> TrainingOutcome:
        kept.append(train(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(fedavg_site, "train", noted)
    return kept


def test_a_plain_round_makes_the_same_of_the_network(tmp_path: Path, outcomes: list[TrainingOutcome]) -> None:
    """With all samples in a batch their order does not matter: both compute the same up to rounding."""
    epochs, images = 2, 4
    data = federation(tmp_path / "data", 2, images, 32)
    overrides = our_settings((4, 4, 8, 8, 8, 4), 1, {"batch_size": images, "local_epochs": epochs})
    simulate(JOBS / "fedavg", tmp_path / "run", data=data, overrides=overrides, sites_at_once=1)
    ours = start_of(overrides)
    ours.load_state_dict(torch.load(tmp_path / "run" / "model.pt", weights_only=True)["model"])
    sites = sites_of(data, tmp_path / "cache")
    start = start_of(overrides)
    plain = copy.deepcopy(start)
    losses = federated_round(plain, loaders([(site.images, site.labels) for site in sites], images), epochs)
    assert len(losses) == sum(outcome.steps for outcome in outcomes) == 2 * epochs
    assert [outcome.mean_loss for outcome in outcomes] == pytest.approx(
        [statistics.fmean(losses[:epochs]), statistics.fmean(losses[epochs:])], rel=1e-5
    )
    # In training, where normalisation takes away what Adam makes of biases whose gradient is rounding alone.
    with torch.no_grad():
        logits = {name: net.train()(sites[0].images) for name, net in (("a", ours), ("b", plain), ("start", start))}
    torch.testing.assert_close(logits["a"], logits["b"], atol=1e-4, rtol=0)
    assert float((logits["a"] - logits["start"]).abs().max()) > 0.05


def in_turns(plain_round: Callable[[], object], run: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Processor seconds of a run's rounds and of plain rounds, one of which is made before every one of the run's."""
    ours: list[float] = []
    plain: list[float] = []
    ends: list[float] = []
    begin_round = ProgressTracker.begin_round

    def noted(*args: Any, **kwargs: Any) -> None:
        before = time.process_time()
        if ends:
            ours.append(before - ends[-1])
        plain_round()
        ends.append(time.process_time())
        plain.append(ends[-1] - before)
        begin_round(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressTracker, "begin_round", noted)
        run()
    return ours[1:], plain[1:-1]


@pytest.mark.benchmark
@pytest.mark.parametrize("precision", GOALS)
@pytest.mark.parametrize("size", SIZES)
def test_a_round_beside_a_plain_federation(
    speed_table: Any, tmp_path: Path, outcomes: list[TrainingOutcome], size: str, precision: str
) -> None:
    """One thread, same network, data, batches and steps; ours in the layout and with the optimizer of our job."""
    num_sites, images, side, training = SIZES[size]
    data = federation(tmp_path / "data", num_sites, images, side)
    (data / "test").rename(tmp_path / "test")
    overrides = our_settings(FEATURES, ROUNDS, {**training, "precision": precision})
    network, sites = start_of(overrides), sites_of(data, tmp_path / "cache")
    batches = loaders([(site.images, site.labels) for site in sites], training["batch_size"])
    losses: list[list[float]] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours, plain = in_turns(
            lambda: losses.append(federated_round(network, batches, training["local_epochs"])),
            lambda: simulate(JOBS / "fedavg", tmp_path / "run", data=data, overrides=overrides, sites_at_once=1),
        )
    finally:
        torch.set_num_threads(threads)
    assert sum(outcome.steps for outcome in outcomes) == sum(map(len, losses))
    trained = start_of(overrides)
    trained.load_state_dict(torch.load(tmp_path / "run" / "model.pt", weights_only=True)["model"])
    scores = [100 * mean_dice(net, sites) for net in (trained, network)]
    last = statistics.fmean(outcome.mean_loss for outcome in outcomes[-num_sites:]), statistics.fmean(losses[-1])
    ratios = [one / other for one, other in zip(ours, plain, strict=True)]
    note = (
        f"{min(ours):.2f} to {max(ours):.2f} and {min(plain):.2f} to {max(plain):.2f} s; ratio {min(ratios):.2f} to "
        f"{max(ratios):.2f}; loss {last[0]:.3f} and {last[1]:.3f}, Dice {scores[0]:.1f} and {scores[1]:.1f} %"
    )
    medians = statistics.median(ours), statistics.median(plain)
    what, against = f"a round, {size}, {precision}", "a plain federated loop, fp32"
    speed_table.add(
        Measurement(what, medians[0], against, medians[1], statistics.median(ratios), GOALS[precision], note)
    )


def mean_dice(network: torch.nn.Module, sites: list[SiteData]) -> float:
    """Mean Dice on the sites' own images."""
    return statistics.fmean(evaluate(network.eval(), site.cases, 1, Inference(8)).mean_dice for site in sites)
