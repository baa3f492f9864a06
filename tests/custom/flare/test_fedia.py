"""FedIA's course of rounds: the estimate, the weights, who is asked for corrections, and when the stages end."""

import math

import pytest

from fedannot.custom.flare.fedia import FedIAController
from fedannot.custom.methods.fedia.completeness import Completeness, IouLine
from fedannot.custom.outbound.registry import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS
from fedannot.custom.run.state import RunState

BLOCKS = ("first", "last")


class Stop:
    triggered = False


class Sites:
    """Answers the controller's questions and notes them."""

    def __init__(self, counts=None, corrects=()):
        self.counts = counts or {}
        self.corrects = set(corrects)
        self.asked = []

    def __call__(self, task, round_number, sites=None):
        self.asked.append((task, round_number, None if sites is None else sorted(sites)))
        if task == ESTIMATE_COMPLETENESS:
            keys = ("num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions")
            return {
                site: {"num_samples": 9} | (dict(zip(keys, counts, strict=True)) if counts else {})
                for site, counts in self.counts.items()
            }
        assert task == CORRECT_ANNOTATIONS
        return {site: {"has_corrected": True} for site in sorted(sites) if site in self.corrects}


def loss_of(iou):
    """The Dice loss that goes with an IoU."""
    return (1 - iou) / (1 + iou)


def controller(sites, **settings):
    made = FedIAController({"method": "fedia", "rounds": 30, "warmup_rounds": 3, **settings})
    made.abort_signal = Stop()
    made._blocks = BLOCKS
    made.ask_sites = sites
    made.info = made.warning = lambda *_: None
    made.state = RunState("fedia", {}, 0, {})
    return made


def finish(made, ious, corrected=()):
    """Add the record of a round with the IoU of every site that took part; NaN for one without annotations."""
    reports = {}
    for site, iou in ious.items():
        loss = None if math.isnan(iou) else loss_of(iou)
        reports[site] = {"num_samples": 10, "dice_loss": loss, "has_corrected": site in corrected}
        made.num_samples[site] = 10
    made.state.round_number += 1
    made.state.history.append({"round": made.state.round_number, "sites": reports})


def after_warmup(sites, ious=(0.2, 0.3, 0.4), names=("a", "b"), **settings):
    """A controller that has made its estimate; IoU lines grow by 0.1 a round unless said otherwise."""
    made = controller(sites, **settings)
    for iou in ious:
        finish(made, dict.fromkeys(names, iou))
    made.before_round(len(ious) + 1)
    return made


def test_the_estimate_is_made_once_after_the_warm_up():
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)})
    made = controller(sites)
    for round_number in (1, 2, 3):
        made.before_round(round_number)
        assert made.stage(round_number) == "warm-up"
        finish(made, {"a": 0.1 * round_number, "b": 0.2})
    assert sites.asked == []
    made.before_round(4)
    assert sites.asked == [(ESTIMATE_COMPLETENESS, 4, None)]
    assert {site: estimate.value for site, estimate in made.completeness.items()} == {"a": 0.4, "b": 1.0}
    assert made.stage(4) == "completeness-aware"
    finish(made, {"a": 0.4, "b": 0.2})
    made.before_round(5)
    assert [task for task, *_ in sites.asked].count(ESTIMATE_COMPLETENESS) == 1


def test_the_other_estimator_takes_the_matches():
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9)}), estimator="matched")
    assert {site: estimate.value for site, estimate in made.completeness.items()} == {"a": 0.3, "b": 1.0}


def test_more_matches_than_predictions_of_a_site_that_gives_noise_to_its_counts_are_all():
    made = after_warmup(Sites({"a": (4, 10, 13), "b": (9, 0, 2)}), estimator="matched")
    assert {site: estimate.value for site, estimate in made.completeness.items()} == {"a": 1.0, "b": 1.0}
    assert not made.completeness["b"].is_estimable


@pytest.mark.parametrize(("blind", "waits"), [(("a", "b"), True), (("a",), False)])
def test_a_warm_up_model_that_finds_nothing_at_most_sites_goes_on_training_for_a_while(blind, waits):
    sites = Sites({site: (4, 0 if site in blind else 8, 0) for site in ("a", "b")})
    made = after_warmup(sites, max_extra_warmup_rounds=2)
    assert (made.completeness is None) is waits
    for round_number in (5, 6):
        finish(made, {"a": 0.5, "b": 0.5})
        made.before_round(round_number)
    assert made.stage(6) == "completeness-aware"
    values = {site: (estimate.value, estimate.is_estimable) for site, estimate in made.completeness.items()}
    assert values == {site: (1.0, False) if site in blind else (0.5, True) for site in ("a", "b")}
    assert made._warmup_end == (5 if waits else 3)


def reports(**losses):
    return {site: {"num_samples": 10} | ({} if loss is ... else {"dice_loss": loss}) for site, loss in losses.items()}


def test_weights_are_the_softmax_of_completeness_over_loss():
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9)}))
    assert made.weights_by_reports(4) is not None
    weights = made.weights_by_reports(4)(reports(a=0.5, b=0.25))
    # softmax(0.4 / 0.5, 1 / 0.25)
    a, b = math.exp(0.8), math.exp(4.0)
    for block in BLOCKS:
        assert weights.of("a")[block] == pytest.approx(a / (a + b), rel=1e-12)
        assert weights.of("b")[block] == pytest.approx(b / (a + b), rel=1e-12)
    described = made.describe_round()
    assert described["weights"] == {site: pytest.approx(weights.of(site)["first"]) for site in ("a", "b")}
    assert weights.fewest_effective_sites == pytest.approx((a + b) ** 2 / (a**2 + b**2))


def test_sites_without_estimate_or_loss_weigh_by_quantity_and_one_without_annotation_has_the_loss_of_one():
    names = ("a", "b", "c", "d")
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9), "c": (0, 5, 0)}), names=names)
    # d has no estimate, b too few patients for a loss; c has nothing annotated, so its estimate is 0.
    weights = made.weights_by_reports(4)(reports(a=0.5, b=..., c=None, d=0.5))
    a, c = math.exp(0.8), math.exp(0.0)
    assert weights.of("b")["first"] == weights.of("d")["first"] == pytest.approx(0.25)
    assert weights.of("a")["first"] == pytest.approx(0.5 * a / (a + c))
    assert weights.of("c")["first"] == pytest.approx(0.5 * c / (a + c))


@pytest.mark.parametrize("losses", [{"a": 0.0, "b": 0.5}, {"a": 0.0, "b": 0.0}])
def test_a_loss_of_zero_overflows_nothing(losses):
    made = after_warmup(Sites({"a": (9, 9, 9), "b": (9, 9, 9)}))
    weights = made.weights_by_reports(4)(reports(**losses))
    assert weights.of("a")["first"] == pytest.approx(1.0 if losses["b"] else 0.5)


def test_without_any_loss_sites_weigh_by_quantity():
    made = after_warmup(Sites({"a": None, "b": None}), max_extra_warmup_rounds=0)
    weights = made.weights_by_reports(4)(reports(a=..., b=...))
    assert [weights.of(site)["first"] for site in ("a", "b")] == [0.5, 0.5]


def test_a_site_is_asked_for_corrections_when_its_iou_falls_below_its_line():
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="ab")
    made = after_warmup(sites)
    # The line says 0.5 at round 4; with λ = 0.03 a site is asked below 0.47.
    finish(made, {"a": 0.4699, "b": 0.4701})
    made.before_round(5)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 5, ["a"])
    assert made.stage(5) == "completeness-aware"
    # At round 5 it says 0.6.
    finish(made, {"a": 0.1, "b": 0.58}, corrected="a")
    made.before_round(6)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 6, [])
    finish(made, {"a": 0.1, "b": 0.58}, corrected="a")
    made.before_round(7)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 7, ["b"])
    # All have corrected before this round's training, so it is the first of federated averaging.
    assert made.stage(7) == "corrected"
    assert made.weights_by_reports(7) is None
    finish(made, {"a": 0.1, "b": 0.1}, corrected="ab")
    made.before_round(8)
    assert len(sites.asked) == 4, "nobody is asked twice"
    assert made.describe()["corrected_before_round"] == {"a": 5, "b": 7}


def test_the_last_round_of_the_warm_up_asks_nobody():
    sites = Sites({"a": (4, 10, 3)}, corrects="a")
    after_warmup(sites, ious=(0.2, 0.6, 0.1), names="a")
    assert IouLine.fit([0.2, 0.6, 0.1]).at(3) > 0.1 + 0.03
    assert [task for task, *_ in sites.asked] == [ESTIMATE_COMPLETENESS]


def test_a_site_that_does_not_answer_stays_due():
    sites = Sites({"a": (4, 10, 3)})
    made = after_warmup(sites, names="a")
    finish(made, {"a": 0.0})
    made.before_round(5)
    finish(made, {"a": 0.9})
    made.before_round(6)
    assert sites.asked[-2:] == [(CORRECT_ANNOTATIONS, 5, ["a"]), (CORRECT_ANNOTATIONS, 6, ["a"])]
    assert made.stage(6) == "completeness-aware"


def test_a_site_that_lost_its_corrections_is_asked_again():
    sites = Sites({"a": (4, 10, 3)}, corrects="a")
    made = after_warmup(sites, names="a")
    finish(made, {"a": 0.0})
    made.before_round(5)
    assert made.stage(5) == "corrected"
    finish(made, {"a": 0.9}, corrected="")
    made.before_round(6)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 6, ["a"])
    assert made.describe()["corrected_before_round"] == {"a": 6}


def test_a_site_that_is_absent_for_five_rounds_is_not_waited_for():
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="a")
    made = after_warmup(sites)
    finish(made, {"a": 0.0})
    for round_number in range(5, 9):
        made.before_round(round_number)
        assert made.stage(round_number) == "completeness-aware", "b was there at most five rounds ago"
        finish(made, {"a": 0.9}, corrected="a")
    made.before_round(9)
    assert made.stage(9) == "corrected"


def test_sites_without_a_line_are_not_waited_for():
    sites = Sites({"a": (4, 10, 3), "b": (0, 5, 0)}, corrects="a")
    made = controller(sites)
    for _ in range(3):
        finish(made, {"a": 0.2, "b": math.nan})
    made.before_round(4)
    finish(made, {"a": 0.0, "b": math.nan, "late": 0.3})
    made.before_round(5)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 5, ["a"])
    assert made.stage(5) == "corrected"


def test_the_ablations():
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="ab")
    weights_only = after_warmup(sites, correction=False)
    finish(weights_only, {"a": 0.0, "b": 0.0})
    weights_only.before_round(5)
    assert CORRECT_ANNOTATIONS not in [task for task, *_ in sites.asked]
    assert weights_only.weights_by_reports(5) is not None
    corrections_only = after_warmup(sites, weighting="quantity")
    assert corrections_only.weights_by_reports(4) is None
    assert corrections_only.aggregation_weights(4) is None
    finish(corrections_only, {"a": 0.0, "b": 0.0})
    corrections_only.before_round(5)
    assert corrections_only.stage(5) == "corrected"


def test_a_restart_goes_on_with_the_same_estimate_line_and_corrections():
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="a")
    made = after_warmup(sites)
    finish(made, {"a": 0.0, "b": 0.0})
    made.before_round(5)
    again = controller(sites)
    again.state = made.state
    again.restore_method_state(made.method_state())
    assert again.completeness == made.completeness == {"a": Completeness(0.4, 4, 10), "b": Completeness(1.0, 9, 9)}
    assert (again._warmup_end, again._due, again._corrected) == (3, {"b"}, {"a": 5})


def test_a_run_that_branches_from_federated_averaging_has_neither_estimate_nor_corrections():
    made = controller(Sites())
    made.restore_method_state({"num_samples": {"a": 10}, "job": "job-1"})
    assert made.completeness is None
    assert made._corrected == {}


def test_a_loss_of_nothing_takes_no_more_than_the_bounds_allow():
    """Half of four equal sites at most, and the others divide the other half."""
    made = after_warmup(Sites(dict.fromkeys("abcd", (9, 9, 9))), names="abcd", influence={"max_quality_ratio": 2.0})
    reports = {site: {"num_samples": 10, "dice_loss": 0.5} for site in "abcd"}
    reports["a"]["dice_loss"] = 0.0
    weights = made.weights_by_reports(5)(reports)
    assert weights.of("a")["last"] == pytest.approx(1.0)
    made._reports = reports
    counted = made.describe_round()["weights"]
    assert counted == {"a": pytest.approx(0.5), **{site: pytest.approx(1 / 6) for site in "bcd"}}
