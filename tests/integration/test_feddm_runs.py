"""A whole run of FedDM: peers are models of other sites and are used; one that is continued has the same bits."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support.whole_runs import Model, continues_with_the_same_bits, kept_state, run_job, same_model

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.feddm.site import PEER_FOLDER

SMALL = {
    "rounds": 3,
    "keep_rounds": [2],
    "random_images": 3,
    "random_extent": 32,
    "dropping_rounds": 1,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.batch_size": 2,
    "training.local_epochs": 1,
}


def run(out: Path, **changes: Any) -> Model:
    return run_job("feddm", SMALL | changes, out)


def test_a_continued_run_has_the_same_bits_and_peers_are_of_other_sites(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_phantom_federation(
        tmp_path / "data",
        LesionImages(noise="M(25,-25,10,0.34)", exact=True),
        num_sites=3,
        images_per_site=3,
        test_images=1,
    )
    whole = continues_with_the_same_bits(run, tmp_path, 2, caplog)
    assert "there are no peers" not in caplog.text
    files = sorted((tmp_path / "whole").rglob(f"{PEER_FOLDER}/*/round_2.pt"))
    # After the last round nobody gets any.
    assert len(files) == 6
    assert not list((tmp_path / "whole").rglob(f"{PEER_FOLDER}/*/round_3.pt"))
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    peers = [torch.load(file, weights_only=True) for file in files]
    for nearest, farthest in zip(peers[1::2], peers[::2], strict=True):
        assert not same_model(nearest, farthest)
    # Without them all pixels count, and the log says so.
    for file in files:
        shutil.rmtree(file.parent, ignore_errors=True)
    other = run(tmp_path / "lost", resume_from=kept_state(tmp_path / "whole", 2))
    assert not same_model(other, whole)
    assert "Round 3: there are no peers, and all pixels count." in caplog.text
