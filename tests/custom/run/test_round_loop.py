"""The course of rounds, with sites that are functions: no messages, no framework."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_records import in_words
from support.loop_runs import MEASURE, SCORES, Bright, Run
from support.memory_link import MemoryLink, StepSite, link_of, names_of

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.interface.views import Round
from fedannot.custom.outbound.fields import OutboundField
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.round_loop import CONTINUED_JOB, CONTINUED_ROUND, RoundLoop
from fedannot.custom.run.run_progress import Phase, RunProgress
from fedannot.custom.run.state import (
    STATE_FILE,
    ResumeError,
    RunFailedError,
    RunState,
    kept_state_file,
)
from fedannot.custom.run.transport import Reply, Request

pytestmark = pytest.mark.usefixtures("without_named_data")


# --- rounds, and what they leave


def test_every_round_averages_what_the_sites_made_of_the_global_model(tmp_path: Path) -> None:
    link = link_of(StepSite("a", 1.0, 10), StepSite("b", 2.0, 30))
    run = Run(tmp_path, link, rounds=3, validate_every=9).begin()
    # (10·1 + 30·2) / 40 a round
    assert run.stem == pytest.approx(3 * 1.75)
    assert [float(model["stem.weight"]) for model in link.models] == pytest.approx([1.75, 3.5, 5.25])
    assert link.tasks() == [("train", 1), ("train", 2), ("train", 3), ("validate", 3)]
    assert [float(request.params["stem.weight"]) for request in link.requests[:3]] == pytest.approx([0.0, 1.75, 3.5])
    assert names_of(link.requests[0].sites) == ["a", "b"]


def test_a_round_is_recorded_with_stage_reports_and_what_the_method_adds(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("b", num_samples=30), StepSite("a")), rounds=1).begin()
    (record,) = run.records
    assert record.pop("version") == 1
    assert record.pop("seconds") >= 0
    report = {"train_loss": None, "num_excluded": 0, "embedded_data": False}
    scores = {"evaluated_on": None, "dice": None, "left_empty": None, "hd95": None}
    assert record == scores | {
        "round": 1,
        "stage": "stage 1",
        "sites": {"a": report | {"num_samples": 10}, "b": report | {"num_samples": 30}},
        "refused": {},
        # 1 / (0.25² + 0.75²)
        "effective_sites": pytest.approx(1.6),
        "weights": {"a": 0.25, "b": 0.75},
        "calls": 2,
    }
    assert RunState.load(tmp_path / "run" / STATE_FILE).history == run.course.state.history


def test_the_state_has_what_a_restart_needs_and_the_method_a_part_of_its_own(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a"), StepSite("b", num_samples=30))).begin()
    state = RunState.load(tmp_path / "run" / STATE_FILE)
    assert (state.method, state.round_number) == ("fedavg", 2)
    assert state.settings == run.settings.model_dump(mode="json")
    assert state.method_state == {
        "num_samples": {"a": 10, "b": 30},
        "preparations": {},
        "first_claims": {"training": {"a": 10, "b": 30}, "validation": {}, "cases": {}},
        "job": "job-1",
        "method": {"calls": ["before 1", "trained 1 by ['a', 'b']", "before 2", "trained 2 by ['a', 'b']"]},
    }
    assert torch.equal(state.params["stem.weight"], run.course.state.params["stem.weight"])


def test_how_sites_prepare_images_is_kept_once_with_the_run_and_outlives_a_restart(tmp_path: Path) -> None:
    said = [0.0, 1.0, 64.0, 64.0, *[math.nan] * 13]
    in_json = [0.0, 1.0, 64.0, 64.0, *[None] * 13]
    sites = StepSite("b", fields={"preparation": said}), StepSite("a")
    run = Run(tmp_path, link_of(*sites), rounds=1).begin()
    assert run.summary["preparations"] == {"b": in_json}
    assert all("preparation" not in report for record in run.records for report in record["sites"].values())
    assert all("preparation" not in report for report in run.summary["sites"].values())
    again = Run(tmp_path / "again", link_of(StepSite("a", fields={"preparation": said})), rounds=2)
    again.begin(state=tmp_path / "run" / STATE_FILE)
    assert again.summary["preparations"] == {"a": in_json, "b": in_json}


def test_rounds_that_the_job_names_keep_their_state(tmp_path: Path) -> None:
    Run(tmp_path, link_of(StepSite("a")), rounds=3, keep_rounds=(2,)).begin()
    kept = RunState.load(tmp_path / "run" / kept_state_file(2))
    assert (kept.round_number, float(kept.params["stem.weight"])) == (2, 2.0)
    assert [file.name for file in (tmp_path / "run").glob(kept_state_file("*"))] == [kept_state_file(2)]


def test_the_summary_names_sites_that_are_not_there_and_what_the_method_says(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a"))).begin(absent=("b", "c"))
    assert (run.summary["absent"], run.summary["described"], run.summary["rounds_finished"]) == (["b", "c"], 2, 2)
    assert run.summary["server_threads"] == torch.get_num_threads()
    assert run.link.sentences("warning") == ["Not there when the job started, and not in it: b, c."]


def test_a_run_says_how_far_it_is_and_draws_its_numbers(tmp_path: Path) -> None:
    fields = {"train_loss": 0.5, "num_patients": 4}
    run = Run(tmp_path, link_of(StepSite("a", scores=SCORES, fields=fields)), validate_every=1).begin()
    first, progress, *_, last = run.link.sentences("info")
    assert first == "Round 1/2: 1 sites train."
    assert progress.startswith("Round 1/2 (stage 1): Dice 50.0 %, about ")
    assert last == "fedavg: finished 2 rounds."
    assert run.link.sentences("info").count(first) == 1
    assert {tag: value for (number, tag), value in run.link.drawn.items() if number == 1} == {
        "dice": 0.5,
        "dice/class 1": 0.5,
        "learning_rate": 0.005,
        "hd95": 4.0,
        "hd95_undefined": 0.0,
        "effective_sites": 1.0,
        "calls": 2.0,
        "accepted_sites": 1.0,
        "train_loss/a": 0.5,
        "validation_dice/a": 0.5,
    }


def test_each_site_has_a_curve_of_its_own_validation(tmp_path: Path) -> None:
    """Also where the server's test set scores the model; what has no score is not drawn."""
    fields = {"embedded_data": True}
    sites = [
        StepSite("a", scores=SCORES, fields=fields),
        StepSite("b", scores=SCORES | {"dice": [0.75]}, fields=fields),
        StepSite("c", scores=SCORES | {"dice": [math.nan], "num_class_cases": [0]}, fields=fields),
    ]
    run = Run(tmp_path, link_of(*sites), rounds=3, validate_every=2, scored_rounds="best").begin()
    curves = {key: value for key, value in run.link.drawn.items() if key[1].startswith("validation_")}
    of_round = {"validation_dice/a": 0.5, "validation_dice/b": 0.75}
    assert curves == {(number, tag): value for number in (2, 3) for tag, value in of_round.items()}
    assert [record["evaluated_on"] for record in run.records] == [None, "test", "test"]


def test_the_method_is_asked_in_order_and_its_word_goes_with_every_task(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a"))).begin()
    assert run.method.calls == [
        *("before 1", "trained 1 by ['a']", "before 2", "trained 2 by ['a']"),
        "after 2",
    ]
    assert [request.message["called"] for request in run.link.requests] == [1, 3, 4]
    assert run.method.seen == {1: {}, 2: {"a": 10}}


# --- refusals


def missing(name: str) -> Callable[[Request], Reply]:
    def answer(request: Request) -> Reply:
        whole = StepSite("b").trained(request)
        return StepSite("b").trained(request, fields={key: v for key, v in whole.fields.items() if key != name})

    return answer


NOT_FETCHED = RefusalReason.of(RefusalCode.MODEL_NOT_FETCHED)


def of_value(value: float) -> Callable[[Request], Reply]:
    return StepSite("b", value)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda request: RefusalReason.of(RefusalCode.TASK_FAILED), "its task failed"),
        (
            lambda request: StepSite("b").trained(request, problem=NOT_FETCHED),
            "its model could not",
        ),
        (lambda request: StepSite("b").trained(request, round_number=1), "it is of round 1, expected 2"),
        (lambda request: StepSite("b").trained(request, round_number=None), "it is of round None, expected 2"),
        (lambda request: StepSite("b").trained(request, params=None), "it has no model"),
        (missing("num_excluded"), "its result lacks 'num_excluded'"),
        (of_value(math.nan), "'stem.weight' has values that are not finite"),
        (StepSite("b", num_samples=0), "its number of samples is 0, expected 1 to 8388608"),
        (
            lambda request: StepSite("b").trained(request, params={"stem.weight": torch.zeros(1, 1)}),
            "5 missing entries",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_site_that_fails_is_refused_by_name_and_the_others_count(
    tmp_path: Path, bad: Callable[[Request], Any], reason: str
) -> None:
    """In the second round, after which it may go on."""
    good = StepSite("b", 2.0)
    link = link_of(StepSite("a"))
    link.there["b"] = lambda request: (
        bad(request) if request.round_number == 2 and request.task == "train" else good(request)
    )
    run = Run(tmp_path, link, rounds=3).begin()
    assert [list(record["sites"]) for record in run.records] == [["a", "b"], ["a"], ["a", "b"]]
    assert in_words(run.records[1]["refused"]["b"]).startswith(reason)
    assert [record["refused"] for record in run.records[::2]] == [{}, {}]
    assert run.stem == pytest.approx(1.5 + 1.0 + 1.5)
    (warning,) = link.sentences("warning")
    assert warning == f"Refused b: {RefusalReason.model_validate(run.records[1]['refused']['b'])}."
    assert run.summary["refusals"] == [{"round": 2, "site": "b", "reason": run.records[1]["refused"]["b"]}]


def test_a_second_answer_is_refused_and_the_first_counts(tmp_path: Path) -> None:
    link = link_of(StepSite("a"))
    link.there["b"] = lambda request: (
        [StepSite("b", 2.0)(request), StepSite("b", 100.0)(request)]
        if request.task == "train"
        else StepSite("b")(request)
    )
    run = Run(tmp_path, link, rounds=1).begin()
    assert run.stem == 1.5
    assert in_words(run.records[0]["refused"]) == {"b": "it is a second result for this round"}
    assert link.usable[:3] == [("a", True), ("b", True), ("b", False)]


def test_the_first_reason_is_the_one_that_is_kept(tmp_path: Path) -> None:
    link = link_of(StepSite("a"))
    link.there["b"] = lambda request: (
        [StepSite("b", math.inf)(request), StepSite("b").trained(request, round_number=7)]
        if request.task == "train"
        else StepSite("b")(request)
    )
    run = Run(tmp_path, link, rounds=1).begin()
    assert in_words(run.records[0]["refused"]) == {"b": "'stem.weight' has values that are not finite"}
    assert len(link.sentences("warning")) == 2


def test_a_site_that_was_not_asked_waits_for_the_next_round(tmp_path: Path) -> None:
    """It came while the others trained, and its number of samples counts for weights from then on."""
    link = link_of(StepSite("a"))
    link.there["a"] = lambda request: (
        [StepSite("a")(request), StepSite("late", 9.0, 50)(request)]
        if (request.task, request.round_number) == ("train", 1)
        else StepSite("a")(request)
    )
    run = Run(tmp_path, link, rounds=1)
    run.begin()
    assert in_words(run.records[0]["refused"]) == {
        "late": "the site was not asked in this round; it counts from the next round on"
    }
    assert run.stem == 1.0
    assert run.course.state.method_state["num_samples"] == {"a": 10, "late": 50}


# --- too few results


def failing(name: str, rounds: Iterable[int]) -> Callable[[Request], Any]:
    fails = set(rounds)
    return lambda request: "no data" if request.round_number in fails else StepSite(name)(request)


def test_without_enough_usable_results_the_model_stays_as_it_is(tmp_path: Path) -> None:
    link = link_of(StepSite("a"))
    link.there["b"] = failing("b", [1])
    run = Run(tmp_path, link, min_sites=2).begin()
    assert [float(model["stem.weight"]) for model in link.models] == [0.0, 1.0]
    assert link.sentences("error") == [
        "Round 1: 1 usable results, at least 2 are needed; the global model stays as it is."
    ]
    assert "effective_sites" not in run.records[0]
    assert run.method.calls[1] == "before 2", "nobody trained this model"


def test_so_many_rounds_in_a_row_end_the_run_and_the_last_reasons_are_named(tmp_path: Path) -> None:
    link = link_of(StepSite("a"))
    link.there["b"] = failing("b", [2, 3])
    run = Run(tmp_path, link, rounds=9, min_sites=2, max_failed_rounds=2)
    with pytest.raises(RunFailedError) as caught:
        run.begin()
    assert str(caught.value) == "Fewer than 2 usable results in 2 rounds in a row. Refused in the last: b: no data."
    assert [record["round"] for record in run.records] == [1, 2, 3]


def test_rounds_that_fail_apart_from_each_other_end_nothing(tmp_path: Path) -> None:
    link = MemoryLink({"a": failing("a", [1, 3, 5])})
    run = Run(tmp_path, link, rounds=6, max_failed_rounds=2).begin()
    assert run.stem == 3.0


def test_where_nobody_is_there_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match=r"in 1 rounds in a row\. Refused in the last: none\."):
        Run(tmp_path, MemoryLink({}), max_failed_rounds=1).begin()


# --- claims of samples


def test_a_later_claim_counts_up_to_the_first(tmp_path: Path) -> None:
    grows = [StepSite("b", 2.0, 10), StepSite("b", 2.0, 10**6)]
    link = link_of(StepSite("a"))
    link.there["b"] = lambda request: grows[request.round_number - 1](request)
    run = Run(tmp_path, link).begin()
    assert run.stem == 3.0
    assert run.records[1]["sites"]["b"]["num_samples"] == 10
    assert link.sentences("warning")[0].startswith("b claims 1000000 samples and claimed 10 at first, which counts")


def test_a_claim_of_all_that_may_be_had_is_refused_and_takes_nothing_from_the_others(tmp_path: Path) -> None:
    link = link_of(StepSite("a"), StepSite("b"), StepSite("liar", 900.0, 2**24))
    run = Run(tmp_path, link, rounds=1).begin()
    assert run.stem == 1.0
    assert in_words(run.records[0]["refused"]) == {"liar": f"its number of samples is {2**24}, expected 1 to 5592405"}
    assert run.course.state.method_state["num_samples"] == {"a": 10, "b": 10}


def asked(run: Run, task: str, **claims: int) -> dict[str, int]:
    """The numbers of samples that count where sites answer a task with these claims."""
    run.link.there = {
        site: StepSite(site, scores=SCORES | {"num_samples": claim}, answers={MEASURE: {"num_samples": claim}})
        for site, claim in claims.items()
    }
    result: dict[str, dict[str, Any]] = {}
    run.method.before = lambda this_round: result.update(this_round.ask(task))
    run.begin()
    return {site: answer["num_samples"] for site, answer in result.items()}


def test_validation_cases_count_up_to_the_limit_and_may_be_none(tmp_path: Path) -> None:
    run = Run(tmp_path, MemoryLink({}), rounds=1)
    assert asked(run, "validate", a=5, b=0, c=10**9, d=7) == {"a": 5, "b": 0, "c": 2**22, "d": 7}


def test_validation_cases_count_up_to_the_first_claim(tmp_path: Path) -> None:
    counts: list[dict[str, int]] = []
    run = Run(tmp_path, MemoryLink({}), validate_every=9)

    def ask(this_round: Round) -> None:
        claims = {1: {"a": 5, "b": 0}, 2: {"a": 10**6, "b": 4}}[this_round.number]
        run.link.there = {site: StepSite(site, scores=SCORES | {"num_samples": n}) for site, n in claims.items()}
        counts.append({site: answer["num_samples"] for site, answer in this_round.ask("validate").items()})

    run.method.before = ask
    run.begin()
    assert counts == [{"a": 5, "b": 0}, {"a": 5, "b": 4}]


def test_training_samples_are_claimed_apart_from_validation_cases(tmp_path: Path) -> None:
    answers: dict[str, int] = {}
    site = StepSite("a", num_samples=12, scores=SCORES | {"num_samples": 40}, answers={MEASURE: {"num_samples": 10**6}})
    run = Run(tmp_path, link_of(site))

    def ask(this_round: Round) -> None:
        if this_round.number == 2:
            answers.update({task: this_round.ask(task)["a"]["num_samples"] for task in (MEASURE, "validate")})

    run.method.before = ask
    run.begin()
    assert answers == {MEASURE: 12, "validate": 40}


# --- what a method asks


def measured(site: str, **changes: Any) -> StepSite:
    answer = {"num_samples": 10, "contrast": [0.5], "num_measured": [4]} | changes
    return StepSite(site, answers={MEASURE: answer})


def answers_of(tmp_path: Path, link: MemoryLink, sites: Iterable[str] | None = None) -> tuple[Run, dict[str, Any]]:
    result: dict[str, Any] = {}
    run = Run(tmp_path, link, rounds=1)
    run.method.before = lambda this_round: result.update(this_round.ask(MEASURE, None if sites is None else set(sites)))
    return run.begin(), result


def test_answers_hold_registered_fields_by_the_sites_names(tmp_path: Path) -> None:
    link = link_of(measured("b", file_names=["x.png"]), measured("a"))
    run, result = answers_of(tmp_path, link)
    assert result == {site: {"num_samples": 10, "contrast": [0.5], "num_measured": [4]} for site in ("a", "b")}
    assert list(result) == ["a", "b"]
    assert link.tasks()[:2] == [(MEASURE, 1), ("train", 1)]
    assert run.records[0]["refused"] == {}


def test_named_sites_alone_are_asked(tmp_path: Path) -> None:
    _, result = answers_of(tmp_path, link_of(measured("a"), measured("b")), ["b", "gone"])
    assert list(result) == ["b"]


def test_a_message_of_a_sites_own_goes_to_it_alone(tmp_path: Path) -> None:
    run, heard = Run(tmp_path, MemoryLink({}), rounds=1), {}

    def hears(site: StepSite) -> Callable[[Request], Reply]:
        def answer(request: Request) -> Reply:
            if request.task == MEASURE:
                heard[site.name] = dict(request.message)
            return site(request)

        return answer

    run.link.there = {name: hears(measured(name)) for name in ("a", "b", "c")}
    own = {"a": {"secret": 1}, "b": {"secret": 2}}
    run.method.before = lambda this_round: this_round.ask(MEASURE, ["a", "b", "c"], own_messages=own)
    run.begin()
    assert heard == {"a": {"called": 1, "secret": 1}, "b": {"called": 1, "secret": 2}, "c": {"called": 1}}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (measured("b", contrast=0.5), "its 'contrast' is float, expected a list of numbers"),
        (measured("b", contrast=[0.5, 0.5]), "its 'contrast' has 2 entries, expected 1"),
        (lambda request: Reply("b", 7, {"num_samples": 1}), "its answer to 'measure' is of round 7, expected 1"),
        (
            lambda request: Reply("b", 1, {}, problem=NOT_FETCHED),
            "its model could not",
        ),
        (lambda request: RefusalReason.of(RefusalCode.TASK_FAILED), "its task failed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, bad: Callable[[Request], Any], reason: str
) -> None:
    link = link_of(measured("a"))
    link.there["b"] = lambda request: bad(request) if request.task == MEASURE else StepSite("b")(request)
    run, result = answers_of(tmp_path, link)
    assert list(result) == ["a"]
    assert in_words(run.records[0]["refused"]["b"]).startswith(reason)
    assert list(run.records[0]["sites"]) == ["a", "b"], "it may train all the same"


def test_a_second_answer_to_a_question_is_refused_and_the_first_counts(tmp_path: Path) -> None:
    link = link_of(measured("a"))
    link.there["a"] = lambda request: (
        [measured("a")(request), measured("a", contrast=[9.0])(request)]
        if request.task == MEASURE
        else StepSite("a")(request)
    )
    run, result = answers_of(tmp_path, link)
    assert result["a"]["contrast"] == [0.5]
    assert in_words(run.records[0]["refused"]) == {"a": "it is a second answer to 'measure'"}


def test_an_answer_without_a_number_of_samples_stays_as_it_is(tmp_path: Path) -> None:
    flag = OutboundField("is_sharp", (MEASURE,), "flag", "whether its images are sharp")
    link = link_of(StepSite("a", answers={MEASURE: {"is_sharp": True}}))
    run = Run(tmp_path, link, rounds=1)
    run.course = RoundLoop(run.settings, run.method, OutboundRegistry([flag]), link)
    result: dict[str, Any] = {}
    run.method.before = lambda this_round: result.update(this_round.ask(MEASURE))
    run.begin()
    assert result == {"a": {"is_sharp": True}}


# --- start, stop, restart


def test_a_run_may_begin_with_other_weights(tmp_path: Path) -> None:
    params = Bright().state_dict() | {"stem.weight": torch.full((1, 1), 7.0)}
    torch.save(params, tmp_path / "start.pt")
    run = Run(tmp_path / "job", link_of(StepSite("a")), rounds=1, start_model="start.pt")
    run.begin(start_model=tmp_path / "start.pt")
    assert run.stem == 8.0
    assert run.link.sentences("info")[0] == "Beginning with the weights of start.pt."


@pytest.mark.parametrize("when", ["before", "train"])
def test_a_run_that_is_stopped_leaves_the_round_before(tmp_path: Path, when: str) -> None:
    link = link_of(StepSite("a"))
    run = Run(tmp_path, link, rounds=9)

    def stop(this_round: Round) -> None:
        link.stopped = when == "before" and this_round.number == 2

    def answer(request: Request) -> Reply:
        link.stopped |= when == "train" and request.round_number == 2
        return StepSite("a")(request)

    link.there["a"], run.method.before = answer, stop
    run.begin()
    assert [record["round"] for record in run.records] == [1]
    assert RunState.load(tmp_path / "run" / STATE_FILE).round_number == 1
    assert ("train", 2) in link.tasks() if when == "train" else ("train", 2) not in link.tasks()
    assert "after 9" not in run.method.calls


def sites_of_three() -> MemoryLink:
    """The claim of one grows after the second round, one fails in the third."""
    link = link_of(StepSite("a", 0.1, 10))
    link.there["b"] = lambda request: StepSite("b", 0.3, 20 if request.round_number < 3 else 500)(request)
    link.there["c"] = lambda request: "broken" if request.round_number == 3 else StepSite("c", 0.7, 5)(request)
    return link


def test_a_run_that_goes_on_ends_with_the_bits_of_one_that_was_not_interrupted(tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", sites_of_three(), rounds=4).begin()
    Run(tmp_path / "first", sites_of_three(), rounds=2).begin()
    state = tmp_path / "first" / "run" / STATE_FILE
    again = Run(tmp_path / "again", sites_of_three(), rounds=4, resume_from="state").begin(state=state, job_id="job-2")
    assert all(torch.equal(value, again.course.state.params[name]) for name, value in whole.course.state.params.items())

    def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in record.items() if key not in ("seconds", "calls")} for record in records]

    assert without_times(again.records) == without_times(whole.records)
    assert again.link.requests[0].round_number == 3
    kept = ("num_samples", "first_claims")
    earlier, now = (run.course.state.method_state for run in (whole, again))
    assert [now[key] for key in kept] == [earlier[key] for key in kept]
    assert again.method.calls[:6] == [
        *("before 1", "trained 1 by ['a', 'b', 'c']", "before 2", "trained 2 by ['a', 'b', 'c']"),
        *("restored after 2", "before 3"),
    ]
    assert "Continuing after round 2 of state." in again.link.sentences("info")


def test_sites_learn_which_run_is_continued_and_after_which_round(tmp_path: Path) -> None:
    first = Run(tmp_path / "first", link_of(StepSite("a")), rounds=1).begin()
    assert all(CONTINUED_JOB not in request.message for request in first.link.requests)
    state = tmp_path / "first" / "run" / STATE_FILE
    again = Run(tmp_path / "again", link_of(StepSite("a")), resume_from="state").begin(state=state, job_id="job-2")
    for request in again.link.requests:
        assert (request.message[CONTINUED_JOB], request.message[CONTINUED_ROUND]) == ("job-1", 1)
    # Whoever continues this one has to look in its own folder.
    assert again.course.state.method_state["job"] == "job-2"


def test_a_run_of_other_settings_is_not_continued(tmp_path: Path) -> None:
    Run(tmp_path / "first", link_of(StepSite("a")), rounds=1).begin()
    again = Run(tmp_path / "again", link_of(StepSite("a")), seed=3)
    with pytest.raises(ResumeError, match="now seed=3 instead of 0"):
        again.begin(state=tmp_path / "first" / "run" / STATE_FILE)
    assert again.link.requests == []


def test_a_method_may_restarts_with_the_start_weights(tmp_path: Path) -> None:
    torch.save(Bright().state_dict() | {"stem.weight": torch.full((1, 1), 7.0)}, tmp_path / "start.pt")
    run = Run(tmp_path / "job", link_of(StepSite("a")), rounds=4, start_model="start.pt")
    run.method.restarted = frozenset({3})
    run.begin(start_model=tmp_path / "start.pt")
    assert [float(request.params["stem.weight"]) for request in run.link.requests if request.task == "train"] == [
        7.0,
        8.0,
        7.0,
        8.0,
    ]
    assert run.stem == 9.0


@pytest.mark.parametrize("says_more", [False, True])
def test_what_a_method_finds_after_the_last_round_is_in_the_summary(tmp_path: Path, says_more: bool) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), rounds=2)
    run.method.says_more = says_more
    run.begin()
    assert len(run.link.models) == 2 + says_more


def test_the_start_model_counts_no_more_in_a_run_that_goes_on(tmp_path: Path) -> None:
    Run(tmp_path / "first", link_of(StepSite("a")), rounds=1, start_model="gone.pt").begin()
    again = Run(tmp_path / "again", link_of(StepSite("a")), start_model="gone.pt")
    again.begin(state=tmp_path / "first" / "run" / STATE_FILE, start_model=tmp_path / "gone.pt")
    assert again.stem == 2.0


def test_a_run_that_was_killed_after_its_last_round_writes_its_result(tmp_path: Path) -> None:
    Run(tmp_path / "first", link_of(StepSite("a"))).begin()
    again = Run(tmp_path / "again", link_of(StepSite("a")))
    again.begin(state=tmp_path / "first" / "run" / STATE_FILE)
    assert again.link.tasks() == []
    assert [float(model["stem.weight"]) for model in again.link.models] == [2.0]
    assert again.summary["rounds_finished"] == 2
    assert again.method.calls[-1] == "after 2"
    assert [record["round"] for record in again.records] == [1, 2]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": 0.5, "b": 0.6}, "sum to"),
        ({"a": 0.1, "b": 0.1}, "sum to"),
        ({"a": 1.5, "b": -0.5}, "sum to"),
        ({"a": math.nan, "b": 1.0}, "sum to"),
        ({"a": 1.0}, r"are without \['b'\], whose models count"),
    ],
)
def test_what_can_be_no_weights_ends_the_run_with_the_methods_name(
    tmp_path: Path, values: dict[str, float], said: str
) -> None:
    run = Run(tmp_path, link_of(StepSite("a"), StepSite("b")))
    run.method.rule = lambda this_round, models: LayerWeights.same_in_all_blocks(values, this_round.blocks)
    with pytest.raises(ValueError, match=rf"The weights of the method 'fedavg' {said}"):
        run.begin()


def test_a_run_without_any_usable_result_fails_also_where_it_is_short(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", num_samples=0)), rounds=1)
    with pytest.raises(RunFailedError, match="No round had a usable result"):
        run.begin()


def test_what_a_restart_could_not_give_back_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, link_of(StepSite("a")))
    monkeypatch.setattr(run.method, "state", lambda: {"found": {"of": Path("x")}})
    with pytest.raises(
        TypeError, match=r"the state of the method 'fedavg'\['method'\]\['found'\]\['of'\], but found Posix"
    ):
        run.begin()


# --- how far it is


def test_how_far_the_run_is_can_be_seen_while_a_site_works(tmp_path: Path) -> None:
    """Looked at from within the last site of round 2, in which one site fails."""
    seen: dict[int, RunProgress] = {}

    def watched(request: Request) -> Reply:
        seen.setdefault(request.round_number, run.course.progress.current)
        return StepSite("site-10")(request)

    def failing(request: Request) -> Reply | RefusalReason:
        failed = RefusalReason.of(RefusalCode.TASK_FAILED)
        return failed if request.round_number == 2 else StepSite("site-2")(request)

    run = Run(tmp_path, MemoryLink({"site-1": StepSite("site-1"), "site-2": failing, "site-10": watched}))
    run.begin(absent=("site-11",))
    first, second = seen[1], seen[2]
    assert (first.round_number, first.finished_rounds, first.phase) == (1, 0, Phase.WAITING)
    assert (first.seconds_left, first.score, first.absent) == (None, None, ("site-11",))
    assert second.request is not None
    assert second.request.sites == ("site-1", "site-2", "site-10")
    assert second.request.answered == ("site-1",)
    assert (second.refused, second.missing) == ({"site-2": RefusalReason.of(RefusalCode.TASK_FAILED)}, ("site-10",))
    assert second.finished_rounds == 1
    assert second.round_seconds == second.seconds_left == run.records[0]["seconds"]
    assert second.score == run.records[0]["dice"]
    assert run.course.progress.current.finished_rounds == 2
