"""What a round of every method takes, relative to federated averaging in the same run: sites in turn, no scores."""

import statistics
import time
from collections.abc import Iterator
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

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
ROUNDS, WARMUP = 8, 2
# No rounds of their own: audits, a swarm, and a fingerprint of images.
WITHOUT = {"audit", "audit_classification", "decoupled", "fingerprint"}
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


def jobs_of(task: str) -> Iterator[str]:
    """The jobs of a task in two dimensions, the reference first and last: does the machine stay as it is?"""
    reference = {"segmentation": "fedavg", "classification": "fedavg_classification"}[task]
    yield reference
    for folder in sorted(JOBS.iterdir()):
        settings = Job.open(folder).settings
        is_flat = getattr(settings.network, "spatial_dims", 2) == 2
        if settings.task == task and is_flat and folder.name not in WITHOUT | {reference}:
            yield folder.name
    yield reference


@pytest.mark.parametrize("task", ALIKE)
def test_rounds_of_every_method(speed_table: Any, tmp_path: Path, data: dict[str, Path], task: str) -> None:
    threads, reference = torch.get_num_threads(), None
    torch.set_num_threads(1)
    try:
        for number, name in enumerate(jobs_of(task)):
            known = Job.open(JOBS / name).settings
            overrides = ALIKE[task] | {"rounds": ROUNDS, "validate_every": 1000}
            overrides |= {"warmup_rounds": WARMUP} if hasattr(known, "warmup_rounds") else {}
            started = time.perf_counter()
            summary = simulate(
                JOBS / name, tmp_path / str(number), data=data[task], overrides=overrides, sites_at_once=1
            )
            whole = time.perf_counter() - started
            # The first rounds decode images and warm up, the last one asks sites for their scores.
            rounds = [record.seconds for record in summary.rounds[WARMUP:-1]]
            each = statistics.median(rounds)
            reference = reference or each
            ranges = f"{min(rounds) / reference:.2f} to {max(rounds) / reference:.2f}; the run {whole:.0f} s"
            speed_table.add(
                Measurement(f"a round, {task}: {name}", each, "FedAvg", reference, each / reference, note=ranges)
            )
    finally:
        torch.set_num_threads(threads)
