"""Which model of a run is its result, with sites that are functions and a network of one weight."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from support.loop_runs import SCORES, Run
from support.memory_link import MemoryLink, StepSite, link_of

from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.methods.ditto.settings import DittoSettings
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.final_model import MeanOfLast, ModelChoice
from fedannot.custom.run.state import SCORED_MODEL_FILE, STATE_FILE, ResumeError, RunFailedError, RunState
from fedannot.custom.run.transport import Reply, Request

pytestmark = pytest.mark.usefixtures("without_named_data")


class ScoredSite(StepSite):
    """Steps by one a round, so that the model after round r is r, and scores the models by their rounds."""

    def __init__(self, by_round: Mapping[int, float], **options: Any) -> None:
        super().__init__("a", **options)
        self.by_round = dict(by_round)

    def __call__(self, request: Request) -> Reply:
        if request.task == "train":
            return self.trained(request)
        after = round(float(request.params["stem.weight"]))
        return Reply("a", request.round_number, SCORES | {"dice": [self.by_round.get(after, 0.1)]})


def best_run(folder: Path, scores: Sequence[float], site: StepSite | None = None, **settings: Any) -> Run:
    by_round = dict(enumerate(scores, start=1))
    given = {"rounds": len(scores), "final_model": "best", "validate_every": 1} | settings
    return Run(folder, link_of(site or ScoredSite(by_round)), **given)


def written(run: Run) -> float:
    return float(run.link.models[-1]["stem.weight"])


def settings_of(**values: Any) -> FedAvgSettings:
    return FedAvgSettings.model_validate(values)


# --- the best


def test_the_round_that_is_reported_may_be_the_best_while_the_result_is_the_last_model(tmp_path: Path) -> None:
    """The server's test set scores it, the sites' validation chooses it."""
    site = ScoredSite({1: 0.5, 2: 0.9, 3: 0.4}, fields={"embedded_data": True})
    run = best_run(tmp_path, [0, 0, 0], site, final_model="last", scored_rounds="best").begin()
    assert run.summary["scored_rounds"] == {"kind": "best", "rounds": [2]}
    assert run.summary["last_rounds"]["dice"] == run.records[1]["dice"]
    assert [record["validation_score"] for record in run.records] == pytest.approx([0.5, 0.9, 0.4])
    assert (written(run), run.summary["final_model"]["kind"]) == (3.0, "last")
    assert [number for task, number in run.link.tasks() if task == "validate"] == [1, 1, 2, 3]
    # Of which results per case are.
    kept = torch.load(tmp_path / "run" / SCORED_MODEL_FILE, weights_only=True)
    assert (kept["round"], float(kept["model"]["stem.weight"])) == (2, 2.0)


def test_the_model_of_the_best_round_is_kept_where_a_run_goes_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"final_model": "last", "scored_rounds": "best"}
    scores = [0.5, 0.9, 0.4, 0.8]
    best_run(tmp_path / "first", scores[:3], **options).begin()
    state = tmp_path / "first" / "run" / STATE_FILE
    later = best_run(tmp_path / "later", scores, **options).begin(state=state)
    assert later.summary["scored_rounds"]["rounds"] == [2]
    kept = torch.load(tmp_path / "later" / "run" / SCORED_MODEL_FILE, weights_only=True)
    assert float(kept["model"]["stem.weight"]) == 2.0
    # In the state of an earlier version there is none: nobody takes the best of the later rounds for it.
    earlier = RunState.load(state)
    del earlier.method_state["scored"]
    earlier.save(tmp_path / "old.pt")
    old = best_run(tmp_path / "old", scores, **options).begin(state=tmp_path / "old.pt")
    assert old.summary["scored_rounds"]["rounds"] == [2]
    assert not (tmp_path / "old" / "run" / SCORED_MODEL_FILE).exists()


def test_what_is_reported_may_change_when_a_run_goes_on_but_not_to_what_nobody_validated(tmp_path: Path) -> None:
    best_run(tmp_path / "first", [0.5, 0.9], final_model="last").begin()
    state = tmp_path / "first" / "run" / STATE_FILE
    later = best_run(tmp_path / "later", [0.5, 0.9, 0.4], final_model="last", scored_rounds="last").begin(state=state)
    assert later.summary["scored_rounds"] == {"kind": "last", "rounds": [3]}
    best = best_run(tmp_path / "best", [0.5, 0.9, 0.4], final_model="last", scored_rounds="best")
    with pytest.raises(ResumeError, match=r"scored_rounds='best', but .* scored_rounds=None, in whose 2 rounds the s"):
        best.begin(state=state)


def test_a_best_round_that_no_site_can_choose_is_refused_before_the_first_round(tmp_path: Path) -> None:
    run = best_run(tmp_path, [0], StepSite("a", scores={"num_samples": 0}), final_model="last", scored_rounds="best")
    with pytest.raises(RunFailedError, match=r"'scored_rounds' is 'best', but .* or scored_rounds = last_5, which"):
        run.begin()


@pytest.mark.parametrize("kind", [AuditSettings, DittoSettings])
def test_methods_without_one_global_model_report_no_best_round(kind: Any) -> None:
    with pytest.raises(ValidationError, match=r"key 'scored_rounds' is 'best'.* allowed: last, last_5, last_10"):
        kind.model_validate({"scored_rounds": "best"})
    assert kind.model_validate({"scored_rounds": "last_10"}).scored_rounds == "last_10"


def test_the_result_is_the_model_of_the_best_validation_the_first_of_equal_ones(tmp_path: Path) -> None:
    run = best_run(tmp_path, [0.3, 0.6, 0.5, 0.6]).begin()
    assert [float(model["stem.weight"]) for model in run.link.models] == [1.0, 2.0, 2.0, 2.0]
    expected = {"kind": "best", "rounds": [2], "validation_score": pytest.approx(0.6), "stopped_early": False}
    assert run.summary["final_model"] == expected
    assert run.summary["final_scores"]["dice"] == pytest.approx(0.6)
    assert run.summary["final_scores"]["evaluated_on"] == "sites"
    assert [record["validation_score"] for record in run.records] == pytest.approx([0.3, 0.6, 0.5, 0.6])
    # The last model is what the next round would train from.
    assert run.stem == 4.0


def test_the_servers_test_set_scores_the_model_and_never_chooses_it(tmp_path: Path) -> None:
    """The phantom's test set rates the larger weights the same or higher; the sites' validation falls."""
    site = ScoredSite({1: 0.9, 2: 0.5, 3: 0.4}, fields={"embedded_data": True})
    run = best_run(tmp_path, [0, 0, 0], site).begin()
    assert run.summary["final_model"]["rounds"] == [1]
    assert [record["evaluated_on"] for record in run.records] == ["test"] * 3
    assert run.summary["final_scores"]["dice"] == run.records[0]["dice"] != 0.9
    assert run.summary["final_scores"]["evaluated_on"] == "test"
    assert [number for task, number in run.link.tasks() if task == "validate"] == [1, 1, 2, 3]


@pytest.mark.parametrize(("patience", "rounds"), [(1, 3), (2, 6), (9, 8), (None, 8)])
def test_a_run_ends_after_so_many_validations_without_gain(patience: int | None, rounds: int, tmp_path: Path) -> None:
    run = best_run(tmp_path, [0.2, 0.5, 0.4, 0.6, 0.6, 0.3, 0.2, 0.1], patience=patience).begin()
    assert len(run.records) == rounds
    best = 2 if patience == 1 else 4
    assert (written(run), run.summary["final_model"]["rounds"]) == (best, [best])
    assert run.summary["final_model"]["stopped_early"] == (rounds < 8)
    said = f"Ends early: no better validation in {patience} validations since round {best}."
    assert (said in run.link.sentences("info")) == (rounds < 8)
    assert run.link.sentences("info")[-1] == f"fedavg: finished {rounds} rounds."
    assert run.method.calls[-1] == f"after {rounds}"


def test_patience_that_is_used_up_in_the_last_round_ends_nothing_early(tmp_path: Path) -> None:
    run = best_run(tmp_path, [0.5, 0.4, 0.3], patience=2).begin()
    assert run.summary["final_model"]["stopped_early"] is False
    assert not [said for said in run.link.sentences("info") if said.startswith("Ends early")]


def test_rounds_without_validation_and_rounds_that_do_not_count_cost_no_patience(tmp_path: Path) -> None:
    site = ScoredSite({2: 0.5})
    run = best_run(tmp_path, [0] * 6, site, validate_every=2, patience=2, max_failed_rounds=9)
    failed = RefusalReason.of(RefusalCode.TASK_FAILED)
    fails = lambda request: request.task == "train" and request.round_number == 4  # noqa: E731
    run.link.there["a"] = lambda request: failed if fails(request) else site(request)
    run.begin()
    # The third model is that of round 4, too: no validation of it costs patience.
    assert [record.get("validation_score") for record in run.records] == [None, 0.5, None, None, None, 0.1]
    assert len(run.records) == 6


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"num_samples": 0}, "no site has validation cases. Expected a list 'validation' of 3 patients or more"),
        (
            SCORES | {"num_samples": 2, "dice": [math.nan]},
            "the sites have too few validation cases (a 2): a site reports a score of 3 patients at least, for each",
        ),
    ],
)
def test_without_a_validation_score_the_run_does_not_begin(scores: dict[str, Any], said: str, tmp_path: Path) -> None:
    run = best_run(tmp_path, [0, 0], StepSite("a", scores=scores))
    with pytest.raises(RunFailedError, match=re.escape(f"the sites' validation gives no Dice: {said}")):
        run.begin()
    assert run.link.tasks() == [("validate", 1)]
    assert not (tmp_path / "run" / STATE_FILE).exists()


def test_a_run_that_is_stopped_while_sites_validate_does_the_round_again(tmp_path: Path) -> None:
    """Else what some sites have not answered would choose the model."""
    run = best_run(tmp_path, [0.2, 0.5, 0.4])
    site = run.link.there["a"]

    def stopping(request: Request) -> Any:
        run.link.stopped |= request.task == "validate" and request.round_number == 2
        return site(request)

    run.link.there["a"] = stopping
    run.begin()
    assert RunState.load(tmp_path / "run" / STATE_FILE).round_number == 1


# --- the mean


def test_the_mean_is_that_of_the_last_rounds_with_the_last_integers(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", scores=SCORES)), rounds=5, final_model="mean_of_last", final_rounds=3)
    run.begin()
    assert [float(model["stem.weight"]) for model in run.link.models] == [1.0, 2.0, 3.0, 3.5, 4.0, 4.0]
    assert run.link.models[-1]["stem.weight"].dtype == torch.float32
    assert run.link.models[-1]["head.num_batches_tracked"].dtype == torch.int64
    assert run.summary["final_model"] == {"kind": "mean_of_last", "rounds": [3, 4, 5]}
    # It is the model of no round, and is scored by itself.
    assert run.link.tasks()[-2:] == [("validate", 5), ("validate", 5)]
    assert [float(request.params["stem.weight"]) for request in run.link.requests[-2:]] == [5.0, 4.0]
    assert run.summary["final_scores"]["dice"] == 0.5


def test_the_running_mean_is_the_mean_in_double_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    models = [{"w": torch.randn(50, generator=generator), "n": torch.tensor(number)} for number in range(20)]
    choice = MeanOfLast(settings_of(rounds=20, final_model="mean_of_last", final_rounds=20))
    for number, model in enumerate(models, start=1):
        choice.note(number, model)
    result = choice.params(models[-1])
    expected = torch.stack([model["w"].double() for model in models]).mean(0)
    assert torch.allclose(result["w"].double(), expected, atol=3e-7)
    assert int(result["n"]) == 19


def test_a_mean_over_more_rounds_than_the_run_has_is_over_all() -> None:
    choice = ModelChoice.of(settings_of(rounds=2, final_model="mean_of_last", final_rounds=5))
    for number in (1, 2):
        choice.note(number, {"w": torch.tensor(float(number))})
    assert (float(choice.params({})["w"]), choice.describe(2).rounds) == (1.5, (1, 2))


# --- going on


CHOICES: list[dict[str, Any]] = [
    {"final_model": "last"},
    {"final_model": "best", "validate_every": 1},
    {"final_model": "best", "validate_every": 1, "patience": 2},
    {"final_model": "mean_of_last", "final_rounds": 4},
]


def uneven_link() -> MemoryLink:
    link = link_of(StepSite("a", 0.1, 10), StepSite("b", 0.37, 7, scores=SCORES))
    scores = [0.1, 0.2, 0.6, 0.5, 0.4, 0.3]

    def answer(request: Request) -> Reply:
        if request.task == "train":
            return StepSite("a", 0.1, 10)(request)
        return Reply("a", request.round_number, SCORES | {"dice": [scores[request.round_number - 1]]})

    link.there["a"] = answer
    return link


@pytest.mark.parametrize("killed_after", [1, 3, 4, 6])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_killed_run_goes_on_to_the_same_bits(choice: dict[str, Any], killed_after: int, tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", uneven_link(), rounds=6, **choice, keep_rounds=(killed_after,)).begin()
    number = min(killed_after, whole.summary["rounds_finished"])
    kept = tmp_path / "whole" / "run" / f"fedannot_state_round_{number}.pt"
    state = kept if kept.exists() else tmp_path / "whole" / "run" / STATE_FILE
    later = Run(tmp_path / "later", uneven_link(), rounds=6, **choice).begin(state=state)
    expected, result = whole.link.models[-1], later.link.models[-1]
    assert all(torch.equal(expected[name], result[name]) for name in expected)
    for name in ("final_model", "final_scores", "rounds_finished", "last_round"):
        assert later.summary.get(name) == whole.summary.get(name), name


def test_the_state_of_a_run_with_the_last_model_is_as_before(tmp_path: Path) -> None:
    run = Run(tmp_path, uneven_link(), rounds=2).begin()
    assert "final" not in run.course.state.method_state
    assert run.summary["final_model"] == {"kind": "last", "rounds": [2]}
    assert "final_scores" not in run.summary


def test_more_rounds_need_all_models_of_their_mean(tmp_path: Path) -> None:
    choice = {"final_model": "mean_of_last", "final_rounds": 2}
    Run(tmp_path / "first", link_of(StepSite("a")), rounds=4, **choice).begin()
    state = tmp_path / "first" / "run" / STATE_FILE
    with pytest.raises(ResumeError, match=r"mean of rounds 4 to 5, .* from round 3 on\. Continue with rounds=6 or"):
        Run(tmp_path / "five", link_of(StepSite("a")), rounds=5, **choice).begin(state=state)
    six = Run(tmp_path / "six", link_of(StepSite("a")), rounds=6, **choice).begin(state=state)
    assert (written(six), six.summary["final_model"]["rounds"]) == (5.5, [5, 6])


def test_a_state_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its settings name a default that meant every round at the server and every fifth at the sites."""
    Run(tmp_path / "first", link_of(StepSite("a")), rounds=1).begin()
    state = RunState.load(tmp_path / "first" / "run" / STATE_FILE)
    for name in ("final_model", "final_rounds", "patience", "scored_rounds"):
        del state.settings[name]
    state.settings["validate_every"] = 5
    state.check_continues("fedavg", settings_of(embedded={"test_images": 2}).model_dump(mode="json"))
    with pytest.raises(ResumeError, match=r"validate_every=4 instead of None"):
        state.check_continues("fedavg", settings_of(embedded={"test_images": 2}, validate_every=4).model_dump())


def test_a_restart_with_the_start_weights_begins_the_choice_again(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), rounds=4, final_model="mean_of_last", final_rounds=4)
    run.method.restarted = frozenset({3})
    run.begin()
    assert (written(run), run.summary["final_model"]["rounds"]) == (1.5, [3, 4])


# --- settings


@pytest.mark.parametrize("kind", [AuditSettings, DittoSettings])
def test_a_method_without_one_global_model_refuses_to_choose(kind: type[FedAvgSettings]) -> None:
    with pytest.raises(ValidationError, match="has no single global model to choose; allowed: last"):
        kind.model_validate({"final_model": "best"})


def test_patience_goes_with_the_best_model_alone() -> None:
    with pytest.raises(ValidationError, match="key 'patience' is 2, but 'final_model' is 'last'"):
        settings_of(patience=2)
