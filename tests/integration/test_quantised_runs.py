"""Runs whose updates and models travel in fewer bits, and that are resumed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain_records import simulate
from support.whole_runs import assert_same_model, model_of, same_model

from fedannot.apps.runs.in_process import RunError
from fedannot.custom.aggregation.rounded_models import is_kernel, message_of_model
from fedannot.custom.run.sent_updates import RESIDUALS_FOLDER
from fedannot.custom.run.state import STATE_FILE


def test_a_resumed_run_has_the_bits_of_a_whole_one_and_needs_its_residuals(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    few = {"embedded__sites": 2, "embedded__images_per_site": 2, "embedded__test_images": 1}
    job = small_job("fedavg", rounds=3, update_precision="int8", model_precision="bf16", **few)
    simulate(job, tmp_path / "whole")
    data = tmp_path / "whole" / "data"
    simulate(job, tmp_path / "parts", data=data, overrides={"rounds": 2})
    residuals = list((tmp_path / "parts").rglob(f"{RESIDUALS_FOLDER}/round_*.pt"))
    assert len(residuals) == 2 * 2
    assert all(file.stat().st_mode & 0o077 == 0 for file in residuals)
    shutil.copytree(tmp_path / "parts", tmp_path / "forgetful")
    shutil.copytree(tmp_path / "parts", tmp_path / "tampered")
    simulate(job, tmp_path / "parts", data=data, resume=True)
    assert_same_model(tmp_path / "whole", tmp_path / "parts")
    # What is scored, sent and the result is one model, none of whose kernels needs more bits than are sent.
    sent = message_of_model(model_of(tmp_path / "parts")).values()
    assert any(value.dtype == torch.bfloat16 for value in sent)
    assert not any(is_kernel(value) for value in sent)
    for folder in list((tmp_path / "forgetful").rglob(RESIDUALS_FOLDER)):
        shutil.rmtree(folder)
    simulate(job, tmp_path / "forgetful", data=data, resume=True)
    assert not same_model(model_of(tmp_path / "whole"), model_of(tmp_path / "forgetful"))
    (file,) = (tmp_path / "tampered").rglob(STATE_FILE)
    state = torch.load(file, weights_only=True)
    residual = state["method_state"]["residual"]
    assert any(value.any() for value in residual.values())
    del residual[min(residual)]
    torch.save(state, file)
    with pytest.raises(RunError, match=r"Found none as what was rounded off 'conv_0[^']*', expected float32 of shape"):
        simulate(job, tmp_path / "tampered", data=data, resume=True)
