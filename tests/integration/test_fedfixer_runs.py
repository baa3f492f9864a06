"""A whole run of FedFixer: one that is continued has the same bits."""

from pathlib import Path
from typing import Any

import pytest
from support.whole_runs import Model, kept_state, run_job, same_model

from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation

SMALL = {
    "rounds": 3,
    "warmup_rounds": 1,
    "keep_rounds": [2],
    "network.widths": [4, 4, 4, 4],
    "training.learning_rate": 0.05,
    "training.learning_rate_steps": [],
    "training.batch_size": 4,
    "training.local_epochs": 1,
}


def run(out: Path, **changes: Any) -> Model:
    return run_job("fedfixer", SMALL | changes, out)


def test_a_continued_run_has_the_same_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_phantom_federation(tmp_path / "data", Cells(), num_sites=2, images_per_site=8, test_images=2)
    whole = run(tmp_path / "whole")
    caplog.clear()
    state = kept_state(tmp_path / "whole", 2)
    continued = run(tmp_path / "continued", resume_from=state)
    assert same_model(continued, whole)
    assert "begins with it anew" not in caplog.text
