"""A whole run of FedFixer: one that is continued has the same bits."""

from pathlib import Path
from typing import Any

import pytest
from support.whole_runs import SMALL_CLASSIFIER, Model, continues_with_the_same_bits, run_job

from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation

SMALL = SMALL_CLASSIFIER | {"rounds": 3, "warmup_rounds": 1, "keep_rounds": [2]}


def run(out: Path, **changes: Any) -> Model:
    return run_job("fedfixer", SMALL | changes, out)


def test_a_continued_run_has_the_same_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_phantom_federation(tmp_path / "data", Cells(), num_sites=2, images_per_site=8, test_images=2)
    continues_with_the_same_bits(run, tmp_path, 2, caplog)
    assert "initialises it again" not in caplog.text
