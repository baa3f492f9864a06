"""What a round of every method takes, relative to federated averaging in the same run: sites in turn, no scores.

Processor seconds of one thread. ``-k "rmd or fedgp or fedavg"`` runs some of the methods alone.
"""

import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from measuring import Measurement

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.run_progress import ProgressTracker

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
ROUNDS, WARMUP = 8, 2
# Of the methods that have them.
PHASES = {"warmup_rounds": WARMUP, "preprocessing_rounds": 1, "finetuning_rounds": 1}
REFERENCES = {"segmentation": "fedavg", "classification": "fedavg_classification"}
# No rounds of their own: audits, a swarm, and a fingerprint of images.
WITHOUT = {"audit", "audit_classification", "decoupled", "fingerprint"}
# The references again at the end: is the machine still as it was?
NAMES = [
    *sorted({folder.name for folder in JOBS.iterdir()} - WITHOUT - set(REFERENCES.values())),
    *REFERENCES.values(),
]
ALIKE: dict[str, dict[str, Any]] = {
    "segmentation": {
        "network.features": [16, 32, 64, 128, 128, 16],
        "training.batch_size": 4,
        "training.local_epochs": 3,
    },
    "classification": {"training.batch_size": 16, "training.local_epochs": 1},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Eight sites of 12 lesions 64 × 64, and four of 96 cells; their test sets are set aside."""
    folder = tmp_path_factory.mktemp("data")
    made = {"segmentation": folder / "lesions", "classification": folder / "cells"}
    write_phantom_federation(
        made["segmentation"], LesionImages(noise="M(25,-25,10,0.25)"), num_sites=8, images_per_site=12, test_images=1
    )
    write_phantom_federation(
        made["classification"], Cells("0-S40-P20-C20"), num_sites=4, images_per_site=96, test_images=8
    )
    for name, place in made.items():
        (place / "test").rename(folder / f"test of {name}")
    return made


@pytest.fixture(scope="module")
def rounds_of(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Path]
) -> Iterator[Callable[[str, str], list[float]]]:
    """What gives processor seconds of the rounds of a job of a task."""
    begun: list[float] = []
    begin_round = ProgressTracker.begin_round

    def noted(*args: Any, **kwargs: Any) -> None:
        begun.append(time.process_time())
        begin_round(*args, **kwargs)

    def seconds(task: str, name: str) -> list[float]:
        overrides = ALIKE[task] | {"rounds": ROUNDS, "validate_every": 1000}
        settings = Job.open(JOBS / name).settings()
        overrides |= {key: value for key, value in PHASES.items() if hasattr(settings, key)}
        begun.clear()
        simulate(JOBS / name, tmp_path_factory.mktemp(name), data=data[task], overrides=overrides, sites_at_once=1)
        # The first rounds decode images and warm up, the last one asks sites for their scores.
        return [end - start for start, end in itertools.pairwise(begun)][WARMUP:]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgressTracker, "begin_round", noted)
        yield seconds
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def reference(rounds_of: Callable[[str, str], list[float]]) -> Callable[[str], float]:
    """What gives the processor seconds of a round of federated averaging of a task, taken once."""
    return functools.cache(lambda task: statistics.median(rounds_of(task, REFERENCES[task])))


@pytest.mark.parametrize("name", NAMES)
def test_rounds_of_every_method(
    speed_table: Any,
    rounds_of: Callable[[str, str], list[float]],
    reference: Callable[[str], float],
    name: str,
) -> None:
    settings = Job.open(JOBS / name).settings()
    if getattr(settings.network, "spatial_dims", 2) != 2:
        pytest.skip("the images are flat")
    averaging, rounds = reference(settings.task), rounds_of(settings.task, name)
    each = statistics.median(rounds)
    note = f"{min(rounds) / averaging:.2f} to {max(rounds) / averaging:.2f}"
    speed_table.add(
        Measurement(f"a round, {settings.task}: {name}", each, "FedAvg", averaging, each / averaging, note=note)
    )
