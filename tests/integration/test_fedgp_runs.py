"""A whole run of FedGP: one that is continued has the same bits, and the last layer of its model is a mean of rows."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.whole_runs import SMALL_CLASSIFIER, Model, continues_with_the_same_bits, run_job

from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.fedgp.centroids import as_head
from fedannot.custom.methods.fedgp.site import CENTROID_FOLDER

SMALL = SMALL_CLASSIFIER | {"rounds": 3, "warmup_rounds": 1, "core_share": 0.9, "keep_rounds": [2]}


def run(out: Path, **changes: Any) -> Model:
    return run_job("fedgp", SMALL | changes, out)


def test_a_continued_run_has_the_same_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_phantom_federation(tmp_path / "data", Cells(), num_sites=2, images_per_site=16, test_images=2)
    whole = continues_with_the_same_bits(run, tmp_path, 2, caplog)
    assert "initialises it again" not in caplog.text
    kept = [torch.load(file, weights_only=True) for file in (tmp_path / "whole").rglob(f"{CENTROID_FOLDER}/round_3.pt")]
    first, second = (as_head(own["rows"]) for own in kept)
    # The mean of what both sites keep as rows, where both may send it, else that of one.
    sources = [(first + second) / 2, first, second]
    layer = whole["fc.weight"]
    sent = [
        label for label in range(8) if any(torch.allclose(layer[label], rows[label], atol=1e-5) for rows in sources)
    ]
    assert sent
    assert not whole["fc.bias"].any()
