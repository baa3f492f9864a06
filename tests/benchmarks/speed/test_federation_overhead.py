"""What a federated round costs beside the sites' training in it, and the steps of a round of FedA³I by themselves."""

import itertools
import statistics
import time
from pathlib import Path

import pytest
import torch
import yaml
from measuring import Measurement, time_in_turns

from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.feda3i.learning_difficulty import site_difficulty
from fedannot.custom.methods.fedavg import site as fedavg_site
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.run.run_progress import ProgressTracker
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
FEATURES = (16, 32, 64, 128, 128, 16)
ROUNDS = 8
# Sites, images of each, side, and the settings of the training.
SIZES = {
    "the demo's size, 8 sites × 12 images 64 × 64": (8, 12, 64, {"batch_size": 4, "local_epochs": 3}),
    "4 sites × 32 images 128 × 128": (4, 32, 128, {"batch_size": 8, "local_epochs": 1}),
}


def federation(folder: Path, num_sites: int, images: int, side: int) -> Path:
    """Generated lesions without a test set, in a given size."""
    write_phantom_federation(folder, LesionImages(), num_sites=num_sites, images_per_site=images, test_images=1)
    for index in range(1, num_sites + 1):
        file = folder / f"site-{index}" / "data.yaml"
        description = yaml.safe_load(file.read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump(description | {"size": [side, side]}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("size", SIZES)
def test_overhead_of_a_round(speed_table, tmp_path, monkeypatch, size):
    """Of the same run, sites in turn: the rounds' processor seconds without scores, and the sites' training in them."""
    num_sites, images, side, training = SIZES[size]
    data = federation(tmp_path / "data", num_sites, images, side)
    (data / "test").rename(tmp_path / "not-scored")
    spent, begun = [], []
    begin_round = ProgressTracker.begin_round

    def timed(*args, **kwargs):
        started = time.process_time()
        outcome = train(*args, **kwargs)
        spent.append(time.process_time() - started)
        return outcome

    def noted(*args, **kwargs):
        begun.append(time.process_time())
        return begin_round(*args, **kwargs)

    monkeypatch.setattr(fedavg_site, "train", timed)
    monkeypatch.setattr(ProgressTracker, "begin_round", noted)
    overrides = {"rounds": ROUNDS, "validate_every": 1000, "network.features": list(FEATURES)}
    overrides |= {f"training.{key}": value for key, value in training.items()}
    simulate(JOBS / "fedavg", tmp_path / "run", data=data, overrides=overrides, sites_at_once=1)
    # The first round decodes the images, the last one asks sites for their scores.
    rounds = [end - start for start, end in itertools.pairwise(begun)][1:]
    trained = [sum(spent[start : start + num_sites]) for start in range(num_sites, len(spent) - num_sites, num_sites)]
    shares = [whole / part for whole, part in zip(rounds, trained, strict=True)]
    each = statistics.median(rounds)
    speed_table.add(
        Measurement(
            f"a round, {size}",
            each,
            "the sites' training in it",
            statistics.median(trained),
            statistics.median(shares),
            note=f"{100 * (min(shares) - 1):.1f} to {100 * (max(shares) - 1):.1f} % beside the training",
        )
    )


def test_steps_of_feda3i(speed_table, tmp_path):
    """What the official program was timed with: 4 sites of 32 images 128 × 128, batch 8, one epoch, one thread."""
    num_sites, images, side, training = SIZES["4 sites × 32 images 128 × 128"]
    data = federation(tmp_path / "data", num_sites, images, side)
    site = load_site_data(data / "site-1", tmp_path / "cache", site="site-1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = ready_to_compute(build_network(features=FEATURES, upsample="nontrainable"))
        device = next(network.parameters()).device
        batches = SampleBatches(site.images, site.labels, training["batch_size"], device)
        settings = TrainingSettings(learning_rate=2e-3, **training)
        objective = training_objective(settings)
        times = time_in_turns(
            {
                "training": lambda: train(network, batches, objective, settings, learning_rate=2e-3, seed=0),
                "noise estimate": lambda: site_difficulty(network, site.cases, 1, Inference(8)),
                "evaluation": lambda: evaluate(network, site.cases, 1, Inference(8)),
            },
            repeats=5,
        )
    finally:
        torch.set_num_threads(before)
    for name, factor in (("training", num_sites), ("noise estimate", num_sites), ("evaluation", 1)):
        sites = f"{num_sites} sites" if factor > 1 else "32 images"
        speed_table.add(Measurement(f"FedA³I, {name}, {sites}, one thread", factor * times[name]))
