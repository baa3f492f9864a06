"""A run whose server sends the global model in fewer bits: one model for sites, scores and result, and no lost step."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.loop_runs import SCORES, Bright, Run
from support.memory_link import MemoryLink, StepSite, link_of

from fedannot.custom.run.state import STATE_FILE, ResumeError

# Of a model of ones bfloat16 would lose every one of them.
STEP = 2.0**-12


def run_of(folder: Path, link: MemoryLink | None = None, **settings: Any) -> Run:
    given = {"rounds": 24, "model_precision": "bf16", "validate_every": 1} | settings
    return Run(folder, link or link_of(StepSite("a", STEP, scores=SCORES), StepSite("b", STEP, scores=SCORES)), **given)


def begun(run: Run, **changes: Any) -> Run:
    network = Bright()
    torch.nn.init.ones_(network.stem.weight)
    run.method.is_scored = False
    return run.begin(network=network, params=dict(network.state_dict()), **changes)


def residual_of(run: Run) -> float:
    kept = torch.load(run.folder / "run" / STATE_FILE, weights_only=True)["method_state"]["residual"]
    assert list(kept) == ["stem.weight"]
    return float(kept["stem.weight"])


def stems(run: Run, task: str) -> list[float]:
    return [float(request.params["stem.weight"]) for request in run.link.requests if request.task == task]


def test_what_sites_receive_is_what_is_scored_and_the_result_and_steps_add_up(tmp_path: Path) -> None:
    run = begun(run_of(tmp_path))
    trained, scored = stems(run, "train"), stems(run, "validate")
    written = [float(model["stem.weight"]) for model in run.link.models]
    assert len(trained) == len(scored) == 24
    assert trained == [1.0, *scored[:-1]]
    assert scored == written == sorted(written)
    assert all(torch.tensor(value).bfloat16().item() == value for value in written)
    assert run.stem == written[-1] == 1 + 2**-7
    assert run.stem + residual_of(run) == 1 + 24 * STEP
    # Vectors and statistics go as they are.
    assert float(run.course.state.params["head.bias"]) == 24 * STEP


def test_as_it_is_there_is_no_residual_and_every_step_is_sent(tmp_path: Path) -> None:
    run = begun(run_of(tmp_path, rounds=2, model_precision="fp32"))
    assert stems(run, "train") == [1, 1 + STEP]
    assert "residual" not in run.course.state.method_state


def test_a_round_that_does_not_count_and_one_that_begins_anew(tmp_path: Path) -> None:
    whole = run_of(tmp_path / "whole", rounds=3)
    whole.method.restarted = frozenset({3})
    # Nothing is left of the rounds before the start.
    assert begun(whole).stem + residual_of(whole) == 1 + STEP
    failing = run_of(tmp_path / "failing", rounds=3, min_sites=2)
    failing.method.before = lambda this_round: (
        failing.link.there.pop("b") if this_round.number == 2 else failing.link.there.update(b=StepSite("b", STEP))
    )
    assert begun(failing).stem + residual_of(failing) == 1 + 2 * STEP


def test_a_mean_over_rounds_is_sent_and_written_as_it_is(tmp_path: Path) -> None:
    run = begun(run_of(tmp_path, final_model="mean_of_last", final_rounds=24))
    rounds = stems(run, "validate")
    mean = sum(rounds[:-1]) / 24
    assert rounds[-1] == float(run.link.models[-1]["stem.weight"]) == pytest.approx(mean, abs=1e-7)
    assert torch.tensor(mean).bfloat16().item() != mean


def test_a_run_that_goes_on_has_the_same_model_and_residual(tmp_path: Path) -> None:
    whole, first = begun(run_of(tmp_path / "whole")), begun(run_of(tmp_path / "first", rounds=11))
    state = first.folder / "run" / STATE_FILE
    second = begun(run_of(tmp_path / "second", resume_from="job-0"), state=state)
    assert (second.stem, residual_of(second)) == (whole.stem, residual_of(whole))


@pytest.mark.parametrize(
    ("residual", "found"),
    [
        ({}, "Found none as what was rounded off 'stem.weight', expected float32 of shape"),
        ({"stem.weight": torch.zeros(2, 1)}, r"Found torch.float32 of shape \(2, 1\) as what .* of shape \(1, 1\)"),
        ({"stem.weight": torch.zeros(1, 1).double()}, "Found torch.float64 of shape"),
        ({"stem.weight": torch.zeros(1, 1).to_sparse()}, "Found torch.sparse_coo of shape"),
        ({"stem.weight": 3}, "Found int as what was rounded off 'stem.weight', expected float32 of shape"),
        ({"stem.weight": torch.full((1, 1), torch.nan)}, "is not finite"),
        ({"stem.weight": torch.ones(1, 1)}, "residual of 'stem.weight' that was not rounded off the state's model"),
        ({"stem.weight": torch.zeros(1, 1), "head.bias": torch.zeros(1)}, "of shape .* off 'head.bias', expected none"),
    ],
)
def test_a_state_with_another_residual_is_not_continued(tmp_path: Path, residual: dict[str, Any], found: str) -> None:
    file = begun(run_of(tmp_path / "first", rounds=1)).folder / "run" / STATE_FILE
    state = torch.load(file, weights_only=True)
    state["method_state"]["residual"] = residual
    torch.save(state, file)
    with pytest.raises(ResumeError, match=found):
        begun(run_of(tmp_path / "second", rounds=2, resume_from="job-0"), state=file)


def test_a_state_of_an_earlier_version_goes_on_as_it_was(tmp_path: Path) -> None:
    """It names no such setting and has no residual: its model was sent as it is."""
    file = begun(run_of(tmp_path / "first", rounds=1, model_precision="fp32")).folder / "run" / STATE_FILE
    state = torch.load(file, weights_only=True)
    del state["settings"]["model_precision"]
    torch.save(state, file)
    run = begun(run_of(tmp_path / "on", rounds=2, resume_from="job-0", model_precision="fp32"), state=file)
    assert run.stem == 1 + 2 * STEP
    with pytest.raises(ResumeError, match="now model_precision='bf16' instead of 'fp32'"):
        begun(run_of(tmp_path / "other", rounds=2, resume_from="job-0"), state=file)
