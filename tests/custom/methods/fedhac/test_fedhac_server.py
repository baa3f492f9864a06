"""FedHAC at the server: the schedule that the first rising loss sets, groups, weights, and a restart."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from plain_records import record, report
from support.rounds import NoModels, round_of

from fedannot.custom.methods.fedhac.groups import noisy_group
from fedannot.custom.methods.fedhac.server import HAS_PROTOTYPES, FedHACServer
from fedannot.custom.methods.fedhac.settings import FedHACSettings
from fedannot.custom.methods.fedia.completeness import completeness_weights, iou_of_loss
from fedannot.custom.methods.fedia.server import FedIAServer
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS

# Every site has annotated so many lesions of those that the model finds.
COUNTS = {"a": (5, 10), "b": (10, 10), "c": (8, 10), "d": (10, 10)}
LOSSES = {"a": 0.2, "b": 0.22, "c": 0.5, "d": 0.52}
TRIGGER = 40


class Run:
    """The rounds of a run with scripted losses: constant ones, but for a site whose loss rises in a round."""

    def __init__(self, method: Any = None, absent: Mapping[str, Collection[int]] | None = None, **settings: Any):
        values = {"rounds": 100, "warmup_rounds": 30} | settings
        self.server = method or FedHACServer(FedHACSettings.model_validate(values))
        self.absent, self.history = absent or {}, list[Any]()
        self.asked: dict[int, list[str]] = {}
        self.said: list[str] = []
        self.number = 0
        self.corrected: set[str] = set()
        self.rises = {"c": TRIGGER}

    def ask(self, task: str, sites: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        there = [site for site in LOSSES if self.number not in self.absent.get(site, ())]
        if task == ESTIMATE_COMPLETENESS:
            assert sites is None
            keys = ("num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions")
            return {site: dict(zip(keys, (*COUNTS[site], 0), strict=True)) for site in there}
        assert task == CORRECT_ANNOTATIONS
        if sites:
            self.asked[self.number] = sorted(sites)
        answering = sorted(set(there) & set(sites or ()))
        self.corrected |= set(answering)
        return {site: {"has_corrected": True} for site in answering}

    def round(self, number: int) -> Any:
        samples = dict.fromkeys(LOSSES, 10)
        return round_of(number, history=self.history, num_samples=samples, ask=self.ask, said=self.said)

    def until(self, last: int) -> "Run":
        """Play rounds, with what the method says of each."""
        for number in range(self.number + 1, last + 1):
            self.number = number
            self.server.before_round(self.round(number))
            sites = {}
            for site, loss in LOSSES.items():
                if number not in self.absent.get(site, ()):
                    rises = 0.2 * (number >= self.rises.get(site, 1000))
                    sites[site] = {"dice_loss": loss + rises, "has_corrected": site in self.corrected}
            self.history.append({"round": number, "sites": sites})
        return self


def phases(run: Run, last: int) -> dict[int, tuple[bool, bool]]:
    """By round whether there are prototypes, and whether losses decide the weights."""
    result = {}
    for number in range(1, last + 1):
        run.until(number)
        this_round = run.round(number)
        rule = run.server.weights_rule(this_round)
        result[number] = (bool(run.server.message(this_round)[HAS_PROTOTYPES]), rule is not None)
    return result


def test_the_schedule_is_that_of_the_authors_program() -> None:
    """As their server's loop does it with scripted losses."""
    run = Run()
    result = phases(run, 70)
    assert run.asked == {41: ["c", "d"], 51: ["a", "b"], 61: ["a", "b", "c", "d"]}
    assert [number for number, (prototypes, _) in result.items() if not prototypes] == list(range(51, 71))
    assert [number for number, (_, by_losses) in result.items() if by_losses] == list(range(31, 61))
    assert (run.server.trigger_round, run.server.noisy) == (40, ("c", "d"))
    stages = {run.server.stage(run.round(number)) for number in (59, 60)}, run.server.stage(run.round(61))
    assert stages == ({"completeness-aware"}, "corrected")
    assert any("The loss of ['c'] rose in round 40. Noisy sites: ['c', 'd']" in text for text in run.said)


def test_without_a_rising_loss_nothing_is_corrected_and_weights_and_prototypes_stay() -> None:
    run = Run()
    run.rises = {}
    assert set(list(phases(run, 80).values())[30:]) == {(True, True)}
    assert (run.asked, run.server.trigger_round, run.server.noisy) == ({}, None, ())


def test_the_ablations_have_neither_corrections_nor_weights_by_losses() -> None:
    run = Run(correction=False, weighting="quantity")
    assert set(phases(run, 60).values()) == {(True, False)}
    assert run.asked == {}


def test_the_last_round_of_the_warm_up_is_no_trigger() -> None:
    run = Run()
    run.rises = {"c": 30}
    assert run.until(31).server.trigger_round is None
    # Its line is through the rise, and the loss of round 31 below it by more than the margin.
    assert run.until(32).server.trigger_round == 31


def test_the_margin_is_below_the_line() -> None:
    """Along 0.01 t a site has 0.31 in round 31, and triggers below 0.28."""
    for iou, triggers in ((0.281, False), (0.279, True)):
        made = FedHACServer(FedHACSettings(warmup_rounds=30, rounds=100))
        ious = [0.01 * number for number in range(1, 31)] + [iou]
        history = [
            {"round": number, "sites": {"a": {"dice_loss": (1 - value) / (1 + value)}}}
            for number, value in enumerate(ious, start=1)
        ]
        made.before_round(round_of(31, history=history[:30], ask=Run().ask, num_samples={"a": 9}))
        made.before_round(round_of(32, history=history, ask=lambda *_: {}, num_samples={"a": 9}))
        assert (made.trigger_round == 31) is triggers


@pytest.mark.parametrize(("followed", "triggers"), [("dice", False), ("training", True)])
def test_terms_of_the_training_loss_trigger_where_it_is_followed(followed: str, *, triggers: bool) -> None:
    """0.05 of other terms move the IoU of a Dice loss of 0.5 from 0.3333 to 0.2903, by more than λ = 0.03."""
    assert [round(iou_of_loss(loss), 4) for loss in (0.5, 0.55)] == [0.3333, 0.2903]
    settings = {"warmup_rounds": 30, "rounds": 100, "followed_loss": followed}
    made = FedHACServer(FedHACSettings.model_validate(settings | {"training": {"loss": "dice"}}))
    site = {"dice_loss": 0.5, "train_loss": 0.5, "has_corrected": False}
    history = [{"round": number, "sites": {"a": site, "b": site}} for number in range(1, 31)]
    history.append({"round": 31, "sites": {"a": site | {"train_loss": 0.55}, "b": site}})
    samples = {"a": 9, "b": 9}
    made.before_round(round_of(31, history=history[:30], ask=Run().ask, num_samples=samples))
    made.before_round(round_of(32, history=history, ask=lambda *_: {}, num_samples=samples))
    assert (made.trigger_round == 31) is triggers


def test_weights_follow_from_the_training_loss_where_it_is_followed() -> None:
    """The program's vector; a loss that is below 0, or none, is no loss."""
    run = Run(followed_loss="training", training={"loss": "dice"}).until(31)

    def weights(**changes: float | None) -> list[float]:
        losses = {"a": 0.2, "b": 0.25, "c": 0.4, "d": 0.5} | changes
        reports = {site: {"dice_loss": 0.1, "train_loss": loss} for site, loss in losses.items()}
        rule = run.server.weights_rule(round_of(31, reports=reports))
        assert rule is not None
        result = rule(NoModels())
        return [result.of(site)["last"] for site in losses]

    assert weights() == pytest.approx([0.149371, 0.669433, 0.090598, 0.090598], abs=1e-6)
    for lost in (weights(b=-3.0), weights(b=None)):
        assert (lost[1], sum(lost)) == (0.25, pytest.approx(1))


@pytest.mark.parametrize("loss", [1e160, 1e308])
def test_a_huge_training_loss_does_not_end_the_run(loss: float) -> None:
    """Its line rises so steeply that it triggers at once."""
    made = FedHACServer(
        FedHACSettings.model_validate(
            {"warmup_rounds": 2, "rounds": 100, "followed_loss": "training", "training": {"loss": "dice"}}
        )
    )
    sites = ("a", "b", "c", "d")
    losses = [dict.fromkeys(sites, 0.5) | {"d": of_liar} for of_liar in (loss, 0.0, 0.4)]
    history = [
        {"round": number, "sites": {site: {"train_loss": of[site], "dice_loss": 0.5} for site in sites}}
        for number, of in enumerate(losses, start=1)
    ]
    samples = dict.fromkeys(sites, 9)
    counts = {f"num_{name}_lesions": 9 for name in ("annotated", "predicted", "matched")}
    made.before_round(
        round_of(3, history=history[:2], ask=lambda *_: dict.fromkeys(sites, counts), num_samples=samples)
    )
    made.before_round(round_of(4, history=history, ask=lambda *_: {}, num_samples=samples))
    assert made.trigger_round == 3
    assert set(made.noisy) < set(sites)


def test_only_a_loss_with_an_iou_is_followed() -> None:
    with pytest.raises(ValueError, match=r"'followed_loss' is 'training', but 'training\.loss' is 'ce'"):
        FedHACSettings.model_validate({"followed_loss": "training", "training": {"loss": "ce"}})


def test_an_absent_site_corrects_when_it_is_back_and_one_that_joins_late_counts_as_clean() -> None:
    run = Run(absent={"c": range(41, 44), "b": range(1, 55)})
    run.until(62)
    assert {number: sites for number, sites in run.asked.items() if number < 51} == {
        41: ["c", "d"],
        **{number: ["c"] for number in (42, 43, 44)},
    }
    assert run.server.noisy == ("c", "d")
    assert run.asked[51] == ["a", "b"]
    assert run.asked[55] == ["b"]
    assert run.asked[61] == ["a", "b", "c", "d"]


def test_a_site_that_lost_its_corrections_is_asked_again() -> None:
    run = Run().until(44)
    run.corrected.discard("d")
    run.until(46)
    assert run.asked[46] == ["d"]
    assert 47 not in run.until(47).asked


def test_a_restart_goes_on_with_the_same_groups_and_schedule() -> None:
    whole, first = Run().until(70), Run().until(45)
    again = Run()
    again.server.restore(first.server.state(), round_of(46, history=first.history).history)
    again.number, again.history, again.corrected = 45, first.history, first.corrected
    again.until(70)
    assert first.asked | again.asked == whole.asked
    assert again.server.state() == whole.server.state()
    described = whole.server.describe(whole.round(70))
    assert described["noisy_sites"] == ["c", "d"]
    assert described["corrected_before_round"] == dict.fromkeys("abcd", 61)
    assert described["completeness"]["a"]["estimate"] == 0.5
    assert FedHACServer(FedHACSettings()).describe(round_of(1))["completeness"] is None


def test_weights_are_of_completeness_and_loss_whatever_the_numbers_of_samples() -> None:
    losses = {"a": 0.2, "b": 0.25, "c": 0.4, "d": 0.5}
    run = Run().until(31)
    reports = {site: {"num_samples": count, "dice_loss": losses[site]} for count, site in enumerate("abcd", start=1)}
    rule = run.server.weights_rule(round_of(31, reports=reports))
    assert rule is not None
    weights = rule(NoModels())
    expected = {"a": 0.149371, "b": 0.669433, "c": 0.090598, "d": 0.090598}
    assert {site: weights.of(site)["last"] for site in "abcd"} == pytest.approx(expected, abs=1e-6)


def test_softmax_of_completeness_over_loss() -> None:
    losses = {"a": 0.2, "b": 0.25, "c": 0.4, "d": 0.5}
    complete = completeness_weights(dict.fromkeys("abcd", 1.0), losses)
    assert list(complete.values()) == pytest.approx([0.666777, 0.245294, 0.054732, 0.033197], abs=1e-6)
    assert completeness_weights({"a": 0.5, "b": 1.0}, {"a": 0.2, "b": 0.4}) == {"a": 0.5, "b": 0.5}
    assert completeness_weights({"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.4}) == {"a": 1.0, "b": 0.0}


def records(rows: Mapping[str, list[float | None]]) -> list[Any]:
    length = len(next(iter(rows.values())))
    return [
        record(
            number + 1,
            sites={site: report(dice_loss=row[number]) for site, row in rows.items() if row[number] is not None},
        )
        for number in range(length)
    ]


@pytest.mark.parametrize(
    ("rows", "before", "noisy"),
    [
        ({site: [loss] * 40 for site, loss in LOSSES.items()}, 41, ("c", "d")),
        # Equal histories have no groups, and so has one site.
        ({site: [0.3, 0.2] for site in "abc"}, 3, ()),
        ({"a": [0.3, 0.2]}, 3, ()),
        # Rounds from the trigger on do not count.
        ({"a": [0.2, 0.9], "b": [0.2, 0.1]}, 2, ()),
        # Who is absent has the mean of the other rounds; who has no loss at all is clean.
        ({"a": [0.2, None, 0.2], "b": [0.5, 0.5, None], "c": [None, None, None]}, 4, ("b",)),
        ({"a": [None]}, 2, ()),
    ],
)
def test_noisy_sites_have_the_higher_losses(
    rows: dict[str, list[float | None]], before: int, noisy: tuple[str, ...]
) -> None:
    assert noisy_group(records(rows), before, rows) == noisy


def test_where_every_site_corrects_for_itself_it_asks_weighs_and_ends_as_fedia() -> None:
    """All losses rise, one after the other: who corrects when, and by what models weigh, in every round."""
    own = Run(schedule="own")
    fedia = Run(FedIAServer(FedIASettings(rounds=100, warmup_rounds=30)))
    for run in (own, fedia):
        run.rises = {"a": 50, "b": 45, "c": 40, "d": 43}
    for number in range(1, 61):
        stages = [run.until(number).server.stage(run.round(number)) for run in (own, fedia)]
        rules = [run.server.weights_rule(run.round(number)) is not None for run in (own, fedia)]
        assert (stages[0], rules[0]) == (stages[1], rules[1])
    assert own.asked == fedia.asked == {41: ["c"], 44: ["d"], 46: ["b"], 51: ["a"]}
    assert own.server.stage(own.round(61)) == "corrected"


def test_a_stop_while_sites_are_asked_decides_nothing() -> None:
    made = FedHACServer(FedHACSettings(warmup_rounds=1, rounds=9))
    made.before_round(round_of(2, ask=lambda *_: {}, stopped=True))
    assert made.completeness is None


def test_a_redo_before_the_clean_sites_corrected_is_refused() -> None:
    with pytest.raises(ValueError, match="key 'redo_delay' is 11, but 'clean_delay' is 11"):
        FedHACSettings(redo_delay=11)


def test_a_threshold_that_no_probability_is_above_is_refused() -> None:
    """Without corrections masks are as they are given: that is ``correction = false``."""
    with pytest.raises(ValueError, match="correction_threshold"):
        FedHACSettings(correction_threshold=1.0)


def test_only_without_a_loss_of_its_own_the_warm_up_is_federated_averaging() -> None:
    plain = {"prototype_weight": 0.0, "proximity_weight": 0.0}
    assert FedHACServer(FedHACSettings.model_validate(plain)).rounds_of_averaging == 31
    assert [FedHACServer(FedHACSettings.model_validate(plain | {key: 0.1})).rounds_of_averaging for key in plain] == [
        0,
        0,
    ]
