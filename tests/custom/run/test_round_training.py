"""How the models of sites become one in a round: weights, bounds on influence, rules of aggregation."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plain_records import in_words
from support.loop_runs import BLOCKS, MEASURE, Recorded, Run
from support.memory_link import StepSite, link_of, names_of

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.data.participant_folder import WAITING_FOLDER
from fedannot.custom.interface.views import Round, WaitingModels
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.state import (
    STATE_FILE,
    RunFailedError,
)

pytestmark = pytest.mark.usefixtures("without_named_data")


def weights_of(**rows: Sequence[float]) -> LayerWeights:
    sites = tuple(sorted(rows))
    return LayerWeights(sites, BLOCKS, np.array([rows[site] for site in sites], dtype=np.float64))


def test_weights_that_are_known_before_count_by_block(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", 1.0), StepSite("b", 3.0, 90)), rounds=1)
    run.method.given = lambda _: weights_of(a=[0.5, 0.25], b=[0.5, 0.75])
    run.begin()
    assert run.stem == 2.0
    assert float(run.course.state.params["head.bias"]) == 2.5
    # Of the two blocks the second has fewer.
    assert run.records[0]["effective_sites"] == pytest.approx(1.6)
    assert run.records[0]["weights"] == {"a": 0.25, "b": 0.75}
    assert run.summary["rounds"][0]["weights"] == {"a": 0.25, "b": 0.75}


def test_a_second_average_of_the_same_models_is_there_after_training_and_can_be_asked_about(tmp_path: Path) -> None:
    answers = {MEASURE: {"num_samples": 9}}
    sites = (StepSite(name, step, answers=answers) for name, step in (("site-1", 1.0), ("site-2", 3.0)))
    link = link_of(*sites)
    run = Run(tmp_path, link, rounds=1)
    run.method.left_out = frozenset({"site-2"})
    shadows = []

    def ask(this_round: Round) -> None:
        shadows.append(this_round.second_average)
        this_round.ask(MEASURE)
        this_round.ask(MEASURE, ["site-1"], this_round.second_average)

    run.method.trained = ask
    run.begin()
    assert run.stem == 2.0
    sent = [
        (request.sites, float(request.params["stem.weight"])) for request in link.requests if request.task == MEASURE
    ]
    assert sent == [(None, 2.0), (["site-1"], 1.0)]
    assert shadows[0]["stem.weight"].item() == 1.0


def test_weights_of_a_site_that_is_missing_go_to_the_others(tmp_path: Path) -> None:
    link = link_of(StepSite("a", 1.0), StepSite("b", 3.0))
    link.there["c"] = lambda request: "no data"
    run = Run(tmp_path, link, rounds=1)
    run.method.given = lambda _: weights_of(a=[0.2, 0.1], b=[0.2, 0.3], c=[0.6, 0.6])
    run.begin()
    assert run.stem == pytest.approx(2.0)
    assert float(run.course.state.params["head.bias"]) == pytest.approx(2.5)


def test_a_site_without_a_known_weight_waits_and_counts_with_its_samples_from_then_on(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a"), StepSite("late", 5.0, 30)))
    run.method.given = lambda this_round: weights_of(a=[1.0, 1.0]) if this_round.number == 1 else None
    run.begin()
    assert in_words(run.records[0]["refused"]["late"]).startswith(
        "the site joined after this round's weights were made"
    )
    assert run.method.seen[2] == {"a": 10, "late": 30}
    assert run.stem == pytest.approx(1.0 + (10 * 1.0 + 30 * 5.0) / 40)


@pytest.mark.parametrize(("memory_mb", "files"), [(0, 2), (1, 0)])
def test_a_rule_sees_all_reports_and_the_models_that_wait(tmp_path: Path, memory_mb: int, files: int) -> None:
    link = link_of(StepSite("a", 1.0), StepSite("b", 3.0, 30))
    run = Run(tmp_path, link, rounds=1, waiting_memory_mb=memory_mb)
    seen: dict[str, Any] = {}

    def rule(this_round: Round, models: WaitingModels) -> LayerWeights:
        seen["waiting"] = {site: float(models.params(site)["stem.weight"]) for site in models.sites}
        seen["samples"] = this_round.samples_of_reports
        seen["files"] = len(list((tmp_path / "private" / WAITING_FOLDER).iterdir()))
        return weights_of(a=[0.25, 1.0], b=[0.75, 0.0])

    run.method.rule = rule
    run.begin()
    assert seen == {"waiting": {"a": 1.0, "b": 3.0}, "samples": {"a": 10, "b": 30}, "files": files}
    assert run.stem == 2.5
    assert float(run.course.state.params["head.bias"]) == 1.0
    assert not (tmp_path / "private" / WAITING_FOLDER).exists()


def test_weights_by_a_rule_give_the_bits_of_weights_known_before(tmp_path: Path) -> None:
    weights = weights_of(a=[0.3, 0.1], b=[0.7, 0.9])
    states = []
    for name in ("known", "rule"):
        run = Run(tmp_path / name, link_of(StepSite("a", 0.1), StepSite("b", 0.7)))
        if name == "known":
            run.method.given = lambda _: weights
        else:
            run.method.rule = lambda this_round, models: weights
        states.append(run.begin().course.state.params)
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_models_that_wait_for_too_few_others_are_dropped(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), min_sites=2, rounds=1)
    run.method.rule = lambda this_round, models: weights_of(a=[1.0, 1.0])
    run.begin()
    assert run.stem == 0.0
    assert not (tmp_path / "private" / WAITING_FOLDER).exists()


def test_a_model_that_is_nearly_one_sites_does_not_count(tmp_path: Path) -> None:
    """Whatever gives the weights: settings of a method, or the sizes of the sites that a job chooses."""
    link = link_of(StepSite("a", 1.0), StepSite("b", 3.0), StepSite("c", 5.0))
    run = Run(tmp_path, link, rounds=2)
    run.method.given = lambda this_round: (
        weights_of(a=[0.1, 0.1], b=[0.1, 0.45], c=[0.8, 0.45])
        if this_round.number == 1
        else weights_of(a=[0.2, 0.1], b=[0.3, 0.4], c=[0.5, 0.5])
    )
    run.begin(largest_share=0.5)
    assert "it would be 0.80 of a layer block" in in_words(run.records[0]["refused"]["c"])
    assert run.records[1]["refused"] == {}
    assert run.method.calls.count("trained 1 by ['a', 'b', 'c']") == 0
    # From zero, as if the first round had not been: 0.2 · 1 + 0.3 · 3 + 0.5 · 5
    assert run.stem == pytest.approx(3.6)


def test_a_run_in_which_one_site_is_the_model_fails(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("large", 1.0, 98), StepSite("b", 3.0, 1), StepSite("c", 5.0, 1)), rounds=9)
    with pytest.raises(RunFailedError, match=r"large: weight too large \(weight 0\.98, largest 0\.5\)"):
        run.begin(largest_share=0.5)
    assert run.stem == 0.0


def test_models_of_single_sites_wait_where_nobody_downloads_them(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", 1.0), StepSite("b", 3.0)), rounds=1)
    seen: dict[str, Any] = {}

    def rule(this_round: Round, models: WaitingModels) -> LayerWeights:
        del this_round, models
        seen["modes"] = oct((tmp_path / "private" / WAITING_FOLDER).stat().st_mode & 0o777)
        seen["run"] = [path.name for path in (tmp_path / "run").rglob("*.pt")]
        return weights_of(a=[0.5, 0.5], b=[0.5, 0.5])

    run.method.rule = rule
    run.begin()
    assert seen == {"modes": "0o700", "run": []}


def test_weights_that_are_nearly_one_sites_are_noted_and_warned_of_once_in_a_row(tmp_path: Path) -> None:
    dominant = {1: 0.98, 2: 0.98, 3: 0.79, 4: 0.98}
    link = link_of(StepSite("a"), StepSite("b"))
    run = Run(tmp_path, link, rounds=4)
    run.method.given = lambda this_round: weights_of(
        a=[1 - dominant[this_round.number]] * 2, b=[dominant[this_round.number]] * 2
    )
    run.begin()
    # 1 / (0.02² + 0.98²), 1 / (0.21² + 0.79²)
    assert [record["effective_sites"] for record in run.records] == pytest.approx(
        [1.0407993, 1.0407993, 1.4965579, 1.0407993]
    )
    noted = {"site": "b", "weight": 0.98}
    assert [record.get("dominant") for record in run.records] == [noted, noted, {"site": "b", "weight": 0.79}, noted]
    assert link.sentences("warning") == [
        "b nearly decides alone: it has 0.98 of the weight in a layer block, 1.04 effective sites of 2."
    ]


# --- bounds on influence


def test_bounds_that_nobody_meets_change_no_bit(tmp_path: Path) -> None:
    states = []
    for name, influence in (("none", {}), ("wide", {"max_share": 0.9, "max_update_ratio": 50.0})):
        sites = [StepSite("a", 0.1), StepSite("b", 0.3, 20), StepSite("c", 0.2, 7)]
        run = Run(tmp_path / name, link_of(*sites), influence=influence).begin()
        assert all("bounded" not in record for record in run.records)
        states.append(run.course.state.params)
    parameters = ("stem.weight", "head.weight", "head.bias")
    assert all(torch.equal(states[0][name], states[1][name]) for name in parameters)


def test_a_share_beyond_its_bound_is_cut_and_named(tmp_path: Path) -> None:
    sites = [StepSite("a"), StepSite("b"), StepSite("big", 4.0, 80)]
    run = Run(tmp_path, link_of(*sites), rounds=1, influence={"max_share": 0.5}).begin()
    assert run.stem == pytest.approx(0.25 + 0.25 + 0.5 * 4.0)
    assert run.records[0]["bounded"] == {"big": {"share": pytest.approx([0.5, 0.5])}}
    assert run.link.sentences("warning") == ["Bounded big: its shares were up to 0.8 and are up to 0.5."]
    assert run.summary["bounded"][0]["site"] == "big"


def test_an_update_beyond_its_bound_is_scaled_down_and_the_statistics_count_within_the_others(tmp_path: Path) -> None:
    """Of steps 1, 1 and 100 the last counts as 1, and what it loses stays with the global model."""
    sites = [StepSite("a", 1.0), StepSite("b", 1.0), StepSite("wild", 100.0)]
    run = Run(tmp_path, link_of(*sites), rounds=1, influence={"max_update_ratio": 1.0}).begin()
    assert run.stem == pytest.approx(1.0)
    factor = run.records[0]["bounded"]["wild"]["update_factor"]
    assert factor == pytest.approx(0.01)
    # The median of the running means is 1; of the third it counts with the same factor.
    mean = float(run.course.state.params["head.running_mean"])
    assert mean == pytest.approx((1.0 + 1.0 + factor * 1.0) / 3)


# --- rules of aggregation


RULES = ["mean", "median", "trimmed_mean", "geometric_median", "multi_krum"]


def five_sites() -> list[StepSite]:
    steps = {"a": 1.0, "b": 2.0, "c": 2.5, "d": 3.0, "liar": -50.0}
    return [StepSite(name, step) for name, step in steps.items()]


@pytest.mark.parametrize(
    ("rule", "expected"),
    # With one number the geometric median is the median.
    [
        ("mean", -8.3),
        ("median", 2.0),
        ("trimmed_mean", 5.5 / 3),
        ("geometric_median", pytest.approx(2.0, abs=1e-2)),
        ("multi_krum", 8.5 / 4),
    ],
)
def test_models_become_one_by_the_rule_of_the_settings(rule: str, expected: float, tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(*five_sites()), rounds=1, min_sites=5, aggregation={"rule": rule}).begin()
    assert run.stem == (expected if rule == "geometric_median" else pytest.approx(expected))
    kept = ["a", "b", "c", "d"] if rule == "multi_krum" else None
    assert run.records[0].get("kept") == kept
    assert set(run.records[0]["weights"]) == set(kept or ["a", "b", "c", "d", "liar"])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("influence", [{}, {"max_share": 0.3, "max_update_ratio": 2.0}])
def test_a_run_that_goes_on_has_the_same_bits_with_every_rule(
    rule: str, influence: dict[str, float], tmp_path: Path
) -> None:
    settings = {"min_sites": 5, "aggregation": {"rule": rule}, "influence": influence}
    whole = Run(tmp_path / "whole", link_of(*five_sites()), rounds=3, **settings).begin()
    first = Run(tmp_path / "first", link_of(*five_sites()), rounds=2, **settings).begin()
    later = Run(tmp_path / "later", link_of(*five_sites()[::-1]), rounds=3, **settings)
    later.begin(state=first.folder / "run" / STATE_FILE)
    expected, result = whole.course.state.params, later.course.state.params
    assert all(torch.equal(expected[name], result[name]) for name in expected)
    assert not (later.folder / "run" / WAITING_FOLDER).exists()


@pytest.mark.parametrize("rule", [*RULES[1:3], "multi_krum"])
def test_a_round_with_fewer_results_than_the_rule_needs_does_not_count(rule: str, tmp_path: Path) -> None:
    link = link_of(*five_sites())
    link.there["a"] = lambda request: "it fell ill" if request.round_number == 2 else StepSite("a")(request)
    run = Run(tmp_path, link, rounds=2, min_sites=5, aggregation={"rule": rule}, max_failed_rounds=1)
    with pytest.raises(RunFailedError, match="Fewer than 5 usable results"):
        run.begin()
    assert [len(record["sites"]) for record in run.records] == [5, 4]
    assert len(link.models) == 2
    assert all(torch.equal(link.models[0][name], link.models[1][name]) for name in link.models[0])


class Combined(Recorded):
    """Takes half a step from the global model to the average, or to the smallest of the sites' models."""

    needs_models = False

    def combine(self, this_round: Round) -> dict[str, torch.Tensor]:
        self.calls.append(f"combines {sorted(this_round.reports)}, {this_round.weighed is not None}")
        reached = dict(this_round.average)
        if this_round.models is not None:
            every = [this_round.models.params(site)["stem.weight"] for site in this_round.models.sites]
            reached["stem.weight"] = torch.stack(every).amin(dim=0)
        halves = {
            name: torch.lerp(this_round.params[name], value, 0.5)
            for name, value in reached.items()
            if value.is_floating_point()
        }
        return reached | halves


@pytest.mark.parametrize(("needs", "expected"), [(False, 2.0), (True, 1.0)])
@pytest.mark.parametrize("rule", ["mean", "trimmed_mean"])
def test_a_method_may_return_the_rounds_model(needs: bool, rule: str, expected: float, tmp_path: Path) -> None:
    """Of the average, or of the sites' models, which wait on disk and then go."""
    link = link_of(StepSite("c", 7.0), StepSite("a", 1.0), StepSite("b", 4.0))
    run = Run(tmp_path, link, rounds=2, min_sites=3, aggregation={"rule": rule})
    run.method = run.course._method = Combined(run.settings)
    run.method.needs_models = needs
    run.begin()
    # 0.5 · 4 or 0.5 · 1 a round
    assert run.stem == pytest.approx(2 * expected if not needs else expected)
    assert run.method.calls[1:3] == ["combines ['a', 'b', 'c'], True", "trained 1 by ['a', 'b', 'c']"]
    assert not (tmp_path / "private" / WAITING_FOLDER).exists()
    assert not run.course._round.average
    assert run.course._round.models is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"more": torch.zeros(1)}, r"has other entries than the global one: \['more'\]"),
        ({"stem.weight": torch.zeros(2, 1)}, r"has torch.float32 of shape \(2, 1\) in 'stem.weight', expected"),
        ({"stem.weight": torch.zeros(1, 1).double()}, r"has torch.float64 of shape \(1, 1\) in 'stem.weight'"),
        ({"stem.weight": torch.full((1, 1), math.nan)}, "is not finite in 'stem.weight'; a smaller learning rate"),
    ],
)
def test_what_a_method_combines_must_be_a_model_like_the_global_one(
    changes: dict[str, torch.Tensor], text: str, tmp_path: Path
) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), rounds=1)
    run.method.combine = lambda this_round: {**this_round.average, **changes}  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=f"The model that the method 'fedavg' combined {text}"):
        run.begin()


def test_a_method_may_ask_some_of_the_sites_to_train(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("b", 2.0), StepSite("a", 1.0), StepSite("c", 3.0)), rounds=2)
    run.method.sites_to_train = lambda this_round, sites: sites[this_round.number - 1 :][:2]  # type: ignore[method-assign]
    run.begin()
    assert [names_of(request.sites) for request in run.link.requests[:2]] == [["a", "b"], ["b", "c"]]
    assert [sorted(record["sites"]) for record in run.records] == [["a", "b"], ["b", "c"]]
    assert run.link.sentences("info")[0] == "Round 1/2: 2 sites train."
    strangers = Run(tmp_path / "strangers", link_of(StepSite("a")), rounds=1)
    strangers.method.sites_to_train = lambda this_round, sites: ["z"]  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"asks \['z'\], which are not among \['a'\]"):
        strangers.begin()


def test_a_simulated_sites_error_ends_the_run_with_its_lines_and_is_in_no_record(tmp_path: Path) -> None:
    error = {"error": "ValueError", "error_text": "shapes:\n  (2, 1)", "error_line": 'File "loss.py", line 3, in loss'}
    link = link_of(StepSite("site-1"), StepSite("site-2"), StepSite("site-10"))
    for name in ("site-2", "site-10"):
        link.there[name] = lambda request: RefusalReason.of(RefusalCode.TASK_FAILED, **error)
    link.there["site-1"] = lambda request: RefusalReason.of(RefusalCode.NO_ANSWER, task="train", seconds=3)
    run = Run(tmp_path, link, max_failed_rounds=2, rounds=5)
    with pytest.raises(RunFailedError) as caught:
        run.begin()
    assert str(caught.value).splitlines() == [
        "Fewer than 1 usable results in 2 rounds in a row. Refused in the last:",
        "site-1: no answer (task train, seconds 3)",
        "site-2, site-10: task failed",
        "    ValueError: shapes:",
        "      (2, 1)",
        '    File "loss.py", line 3, in loss',
    ]
    assert run.records[0]["refused"]["site-2"] == {"code": "task_failed"}
    for file in (tmp_path / "run").iterdir():
        assert b"shapes" not in file.read_bytes()
    # Once, however often it comes.
    assert link.sentences("warning")[1:5] == [
        "Refused site-2: task failed.",
        "site-2: ValueError: shapes:",
        "site-2:   (2, 1)",
        'site-2: File "loss.py", line 3, in loss',
    ]
    assert sum("shapes" in text for text in link.sentences("warning")) == 1
