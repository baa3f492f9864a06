"""Whole runs of ELR: what it is without its weight, and a run that is continued."""

from pathlib import Path
from typing import Any

import pytest
from support.whole_runs import Model, continues_with_the_same_bits, run_job, same_model

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

SMALL = {
    "rounds": 2,
    "keep_rounds": [1],
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.loss": "ce",
    "training.learning_rate": 0.01,
    "training.learning_rate_steps": [],
    "training.batch_size": 2,
    "training.local_epochs": 1,
    "training.augmentation": ["flip", "rotation"],
}


def run(out: Path, job: str = "elr", **changes: Any) -> Model:
    return run_job(job, SMALL | changes, out)


def test_without_weight_it_is_federated_averaging_and_a_continued_run_has_the_same_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    free = run(tmp_path / "free", early_learning_weight=0)
    assert same_model(run(tmp_path / "averaged", "fedavg"), free)
    whole = continues_with_the_same_bits(run, tmp_path, 1, caplog)
    assert not same_model(whole, free)
    assert "start at 0" not in caplog.text
