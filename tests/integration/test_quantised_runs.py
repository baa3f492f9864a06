"""Runs whose updates leave in fewer bits, and that are resumed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from plain_records import simulate

from fedannot.custom.run.sent_updates import RESIDUALS_FOLDER


def model_of(out: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def are_equal(one: Path, other: Path) -> bool:
    first, second = model_of(one), model_of(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_resumed_run_has_the_bits_of_a_whole_one_and_needs_its_residuals(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    few = {"embedded__sites": 2, "embedded__images_per_site": 2, "embedded__test_images": 1}
    job = small_job("fedavg", rounds=3, update_precision="int8", **few)
    simulate(job, tmp_path / "whole")
    data = tmp_path / "whole" / "data"
    simulate(job, tmp_path / "parts", data=data, overrides={"rounds": 2})
    residuals = list((tmp_path / "parts").rglob(f"{RESIDUALS_FOLDER}/round_*.pt"))
    assert len(residuals) == 2 * 2
    assert all(file.stat().st_mode & 0o077 == 0 for file in residuals)
    shutil.copytree(tmp_path / "parts", tmp_path / "forgetful")
    simulate(job, tmp_path / "parts", data=data, resume=True)
    assert are_equal(tmp_path / "whole", tmp_path / "parts")
    for folder in list((tmp_path / "forgetful").rglob(RESIDUALS_FOLDER)):
        shutil.rmtree(folder)
    simulate(job, tmp_path / "forgetful", data=data, resume=True)
    assert not are_equal(tmp_path / "whole", tmp_path / "forgetful")
