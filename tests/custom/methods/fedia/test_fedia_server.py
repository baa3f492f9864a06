"""FedIA at the server: the estimate, the weights, who is asked for corrections, and when the stages end."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest
from support.rounds import BLOCKS, NoModels, as_record, round_of

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.methods.fedia.completeness import Completeness, IouLine
from fedannot.custom.methods.fedia.confirmed_weights import confirmed_weights
from fedannot.custom.methods.fedia.outbound import ASSESSMENT
from fedannot.custom.methods.fedia.server import FedIAServer
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS

Counts = Mapping[str, tuple[int, int, int] | None]
Reports = dict[str, dict[str, Any]]


class Sites:
    """Answer the server's questions and note them."""

    def __init__(self, counts: Counts | None = None, corrects: Iterable[str] = ()) -> None:
        self.counts = counts or {}
        self.corrects = set(corrects)
        self.asked: list[tuple[str, int, list[str] | None]] = []
        self.round_number = 0

    def __call__(self, task: str, sites: Collection[str] | None = None) -> Reports:
        self.asked.append((task, self.round_number, None if sites is None else sorted(sites)))
        if task == ESTIMATE_COMPLETENESS:
            keys = ("num_annotated_lesions", "num_predicted_lesions", "num_matched_lesions")
            return {
                site: {"num_samples": 9} | (dict(zip(keys, counts, strict=True)) if counts else {})
                for site, counts in self.counts.items()
            }
        assert task == CORRECT_ANNOTATIONS
        return {site: {"has_corrected": True} for site in sorted(sites or ()) if site in self.corrects}


def loss_of(iou: float) -> float:
    """The Dice loss that goes with an IoU."""
    return (1 - iou) / (1 + iou)


OWN = {"weighting": "established", "estimator": "sure", "trigger": "estimate", "additions": "lesions"}


class PredictedSites(Sites):
    """Say how sure their completeness is, too: value, ends of the interval, recall and precision."""

    def __init__(self, predicted: Mapping[str, tuple[float, ...] | None], corrects: Iterable[str] = ()) -> None:
        super().__init__(dict.fromkeys(predicted, (4, 10, 4)), corrects)
        self.predicted, self.has_corrected = dict(predicted), set[str]()

    def __call__(self, task: str, sites: Collection[str] | None = None) -> Reports:
        answers = super().__call__(task, sites)
        if task == CORRECT_ANNOTATIONS:
            self.has_corrected |= set(answers)
            return answers
        for site, answer in answers.items():
            if (values := self.predicted[site]) is not None:
                answer |= dict(zip(ASSESSMENT, values, strict=True))
        return {site: answer for site, answer in answers.items() if sites is None or site in sites}


class RoundLoop:
    """The rounds of a run as its method sees them."""

    def __init__(self, sites: Sites, **settings: Any) -> None:
        values = {"rounds": 30, "warmup_rounds": 3} | settings
        self.settings = FedIASettings.model_validate(values)
        self.server = FedIAServer(self.settings)
        self.sites, self.said = sites, list[str]()
        self.history: list[dict[str, Any]] = []
        self.num_samples: dict[str, int] = {}

    def round(self, number: int, reports: Reports | None = None, stopped: bool = False) -> Any:
        self.sites.round_number = number
        return round_of(
            number,
            history=self.history,
            num_samples=self.num_samples,
            reports=reports,
            influence=self.settings.influence.model_dump(),
            ask=self.sites,
            said=self.said,
            stopped=stopped,
        )

    def before_round(self, number: int) -> None:
        self.server.before_round(self.round(number))

    def stage(self, number: int) -> str:
        return self.server.stage(self.round(number))

    def has_rule(self, number: int) -> bool:
        return self.server.weights_rule(self.round(number)) is not None

    def weights(self, number: int, reports: Reports) -> LayerWeights:
        rule = self.server.weights_rule(self.round(number, reports))
        assert rule is not None
        return rule(NoModels())

    def described(self) -> dict[str, Any]:
        return self.server.describe(self.round(len(self.history)))


def finish(made: RoundLoop, ious: Mapping[str, float], corrected: Collection[str] = ()) -> None:
    """Add the record of a round with the IoU of every site that took part; NaN for one without annotations."""
    reports = {}
    for site, iou in ious.items():
        loss = None if math.isnan(iou) else loss_of(iou)
        reports[site] = {"num_samples": 10, "dice_loss": loss, "has_corrected": site in corrected}
        made.num_samples[site] = 10
    made.history.append({"round": len(made.history) + 1, "sites": reports})


def after_warmup(
    sites: Sites, ious: Iterable[float] = (0.2, 0.3, 0.4), names: Iterable[str] = ("a", "b"), **settings: Any
) -> RoundLoop:
    """A run whose estimate is made; IoU lines grow by 0.1 a round unless said otherwise."""
    made = RoundLoop(sites, **settings)
    for iou in ious:
        finish(made, dict.fromkeys(names, iou))
    made.before_round(len(made.history) + 1)
    return made


def test_the_estimate_is_made_once_after_the_warm_up() -> None:
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)})
    made = RoundLoop(sites)
    for round_number in (1, 2, 3):
        made.before_round(round_number)
        assert made.stage(round_number) == "warm-up"
        finish(made, {"a": 0.1 * round_number, "b": 0.2})
    assert sites.asked == []
    made.before_round(4)
    assert sites.asked == [(ESTIMATE_COMPLETENESS, 4, None)]
    assert {site: estimate.value for site, estimate in made.server.completeness.items()} == {"a": 0.4, "b": 1.0}
    assert made.stage(4) == "completeness-aware"
    finish(made, {"a": 0.4, "b": 0.2})
    made.before_round(5)
    assert [task for task, *_ in sites.asked].count(ESTIMATE_COMPLETENESS) == 1


def test_the_other_estimator_takes_the_matches() -> None:
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9)}), estimator="matched")
    assert {site: estimate.value for site, estimate in made.server.completeness.items()} == {"a": 0.3, "b": 1.0}


def test_more_matches_than_predictions_of_a_site_that_gives_noise_to_its_counts_are_all() -> None:
    made = after_warmup(Sites({"a": (4, 10, 13), "b": (9, 0, 2)}), estimator="matched")
    assert {site: estimate.value for site, estimate in made.server.completeness.items()} == {"a": 1.0, "b": 1.0}
    assert not made.server.completeness["b"].is_estimable


@pytest.mark.parametrize(("blind", "waits"), [(("a", "b"), True), (("a",), False)])
def test_a_warm_up_model_that_finds_nothing_at_most_sites_goes_on_training_for_a_while(
    blind: tuple[str, ...], waits: bool
) -> None:
    sites = Sites({site: (4, 0 if site in blind else 8, 0) for site in ("a", "b")})
    made = after_warmup(sites, max_extra_warmup_rounds=2)
    assert (made.server.completeness is None) is waits
    for round_number in (5, 6):
        finish(made, {"a": 0.5, "b": 0.5})
        made.before_round(round_number)
    assert made.stage(6) == "completeness-aware"
    values = {site: (estimate.value, estimate.is_estimable) for site, estimate in made.server.completeness.items()}
    assert values == {site: (1.0, False) if site in blind else (0.5, True) for site in ("a", "b")}
    assert made.server._warmup_end == (5 if waits else 3)


def reports(**losses: Any) -> Reports:
    return {site: {"num_samples": 10} | ({} if loss is ... else {"dice_loss": loss}) for site, loss in losses.items()}


def test_weights_are_the_softmax_of_completeness_over_loss() -> None:
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9)}))
    assert made.has_rule(4)
    weights = made.weights(4, reports(a=0.5, b=0.25))
    # softmax(0.4 / 0.5, 1 / 0.25)
    a, b = math.exp(0.8), math.exp(4.0)
    for block in BLOCKS:
        assert weights.of("a")[block] == pytest.approx(a / (a + b), rel=1e-12)
        assert weights.of("b")[block] == pytest.approx(b / (a + b), rel=1e-12)
    assert weights.fewest_effective_sites == pytest.approx((a + b) ** 2 / (a**2 + b**2))


def test_sites_without_estimate_or_loss_weigh_by_quantity_and_one_without_annotation_has_the_loss_of_one() -> None:
    names = ("a", "b", "c", "d")
    made = after_warmup(Sites({"a": (4, 10, 3), "b": (9, 9, 9), "c": (0, 5, 0)}), names=names)
    # d has no estimate, b too few patients for a loss; c has nothing annotated, so its estimate is 0.
    weights = made.weights(4, reports(a=0.5, b=..., c=None, d=0.5))
    a, c = math.exp(0.8), math.exp(0.0)
    assert weights.of("b")["first"] == weights.of("d")["first"] == pytest.approx(0.25)
    assert weights.of("a")["first"] == pytest.approx(0.5 * a / (a + c))
    assert weights.of("c")["first"] == pytest.approx(0.5 * c / (a + c))


@pytest.mark.parametrize("losses", [{"a": 0.0, "b": 0.5}, {"a": 0.0, "b": 0.0}])
def test_a_loss_of_zero_overflows_nothing(losses: dict[str, float]) -> None:
    made = after_warmup(Sites({"a": (9, 9, 9), "b": (9, 9, 9)}))
    weights = made.weights(4, reports(**losses))
    assert weights.of("a")["first"] == pytest.approx(1.0 if losses["b"] else 0.5)


def test_without_any_loss_sites_weigh_by_quantity() -> None:
    made = after_warmup(Sites({"a": None, "b": None}), max_extra_warmup_rounds=0)
    weights = made.weights(4, reports(a=..., b=...))
    assert [weights.of(site)["first"] for site in ("a", "b")] == [0.5, 0.5]


def test_a_site_is_asked_for_corrections_when_its_iou_falls_below_its_line() -> None:
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
    assert not made.has_rule(7)
    finish(made, {"a": 0.1, "b": 0.1}, corrected="ab")
    made.before_round(8)
    assert len(sites.asked) == 4, "nobody is asked twice"
    assert made.described()["corrected_before_round"] == {"a": 5, "b": 7}


def test_the_last_round_of_the_warm_up_asks_nobody() -> None:
    sites = Sites({"a": (4, 10, 3)}, corrects="a")
    after_warmup(sites, ious=(0.2, 0.6, 0.1), names="a")
    assert IouLine.fit([0.2, 0.6, 0.1]).at(3) > 0.1 + 0.03
    assert [task for task, *_ in sites.asked] == [ESTIMATE_COMPLETENESS]


def test_a_site_that_does_not_answer_stays_due() -> None:
    sites = Sites({"a": (4, 10, 3)})
    made = after_warmup(sites, names="a")
    finish(made, {"a": 0.0})
    made.before_round(5)
    finish(made, {"a": 0.9})
    made.before_round(6)
    assert sites.asked[-2:] == [(CORRECT_ANNOTATIONS, 5, ["a"]), (CORRECT_ANNOTATIONS, 6, ["a"])]
    assert made.stage(6) == "completeness-aware"


def test_a_site_that_lost_its_corrections_is_asked_again() -> None:
    sites = Sites({"a": (4, 10, 3)}, corrects="a")
    made = after_warmup(sites, names="a")
    finish(made, {"a": 0.0})
    made.before_round(5)
    assert made.stage(5) == "corrected"
    finish(made, {"a": 0.9}, corrected="")
    made.before_round(6)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 6, ["a"])
    assert made.described()["corrected_before_round"] == {"a": 6}


def test_a_site_that_is_absent_for_five_rounds_is_not_waited_for() -> None:
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="a")
    made = after_warmup(sites)
    finish(made, {"a": 0.0})
    for round_number in range(5, 9):
        made.before_round(round_number)
        assert made.stage(round_number) == "completeness-aware", "b was there at most five rounds ago"
        finish(made, {"a": 0.9}, corrected="a")
    made.before_round(9)
    assert made.stage(9) == "corrected"


def test_sites_without_a_line_are_not_waited_for() -> None:
    sites = Sites({"a": (4, 10, 3), "b": (0, 5, 0)}, corrects="a")
    made = RoundLoop(sites)
    for _ in range(3):
        finish(made, {"a": 0.2, "b": math.nan})
    made.before_round(4)
    finish(made, {"a": 0.0, "b": math.nan, "late": 0.3})
    made.before_round(5)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 5, ["a"])
    assert made.stage(5) == "corrected"


def test_the_ablations() -> None:
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="ab")
    weights_only = after_warmup(sites, correction=False)
    finish(weights_only, {"a": 0.0, "b": 0.0})
    weights_only.before_round(5)
    assert CORRECT_ANNOTATIONS not in [task for task, *_ in sites.asked]
    assert weights_only.has_rule(5)
    corrections_only = after_warmup(sites, weighting="quantity")
    assert not corrections_only.has_rule(4)
    assert corrections_only.server.weights(corrections_only.round(4)) is None
    finish(corrections_only, {"a": 0.0, "b": 0.0})
    corrections_only.before_round(5)
    assert corrections_only.stage(5) == "corrected"


def test_a_restart_goes_on_with_the_same_estimate_line_and_corrections() -> None:
    sites = Sites({"a": (4, 10, 3), "b": (9, 9, 9)}, corrects="a")
    made = after_warmup(sites)
    finish(made, {"a": 0.0, "b": 0.0})
    made.before_round(5)
    again = RoundLoop(sites)
    again.history = made.history
    again.server.restore(made.server.state(), [as_record(item) for item in made.history])
    expected = {"a": Completeness(0.4, 4, 10), "b": Completeness(1.0, 9, 9)}
    assert again.server.completeness == made.server.completeness == expected
    assert (again.server._warmup_end, again.server._pending, again.server._corrected) == (3, {"b"}, {"a": 5})
    # Who is asked next follows from the lines of the warm-up.
    finish(again, {"a": 0.9, "b": 0.9}, corrected="a")
    again.before_round(6)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 6, ["b"])


def test_a_run_that_branches_from_federated_averaging_has_neither_estimate_nor_corrections() -> None:
    made = RoundLoop(Sites())
    made.server.restore({}, [])
    assert made.server.completeness is None
    assert made.server._corrected == {}


def test_a_loss_of_nothing_takes_no_more_than_the_bounds_allow() -> None:
    """Half of four equal sites at most, and the others divide the other half."""
    made = after_warmup(Sites(dict.fromkeys("abcd", (9, 9, 9))), names="abcd", influence={"max_quality_ratio": 2.0})
    reports = {site: {"num_samples": 10, "dice_loss": 0.5} for site in "abcd"}
    reports["a"]["dice_loss"] = 0.0
    weights = made.weights(5, reports)
    assert weights.of("a")["last"] == pytest.approx(1.0)
    this_round = made.round(5, reports)
    counted = this_round.bounds.weights(weights, this_round.samples_of_reports).most_concentrated
    assert counted == {"a": pytest.approx(0.5), **{site: pytest.approx(1 / 6) for site in "bcd"}}


def test_a_stop_while_sites_are_asked_decides_nothing() -> None:
    made = RoundLoop(Sites({"a": (4, 10, 3)}))
    for _ in range(3):
        finish(made, {"a": 0.2})
    made.server.before_round(made.round(4, stopped=True))
    assert made.server.completeness is None


def test_sites_without_estimate_or_line_are_named() -> None:
    made = RoundLoop(Sites({"a": (4, 10, 3), "b": (0, 0, 0)}))
    for _ in range(3):
        finish(made, {"a": 0.2, "b": math.nan})
    made.num_samples["c"] = 5
    made.before_round(4)
    assert made.said == [
        "Completeness of a: 0.40; 4 lesions annotated, 10 predicted.",
        "Completeness of b: not estimable (no lesion predicted), taken as 1; 0 lesions annotated, 0 predicted.",
        "c has no estimate of its completeness and is weighed by its number of samples.",
        "b reported no Dice loss in the warm-up and is not asked for corrections.",
        "c reported no Dice loss in the warm-up and is not asked for corrections.",
    ]


def test_the_summary_has_each_sites_estimate() -> None:
    made = RoundLoop(Sites({"a": (4, 10, 3)}))
    assert made.described() == {"completeness": None}
    assert made.server.rounds_of_averaging == 3
    made = after_warmup(Sites({"a": (4, 10, 3)}), names="a")
    assert made.described()["completeness"]["a"] == {
        "estimate": 0.4,
        "is_estimable": True,
        "num_annotated_lesions": 4,
        "num_predicted_lesions": 10,
        "corrected_before_round": None,
    }


# --- the job's own form


COMPLETE, HALF = (1.0, 0.96, 1.0, 1.0, 0.9), (0.5, 0.4, 0.6, 1.0, 0.9)


def test_where_nothing_is_confirmed_it_is_federated_averaging() -> None:
    # An interval that reaches one; one that ends too close to it; no interval at all.
    predicted = {"a": COMPLETE, "b": (0.8, 0.6, 0.96, 1.0, 0.9), "c": None}
    sites = PredictedSites(predicted, corrects="abc")
    made = after_warmup(sites, names="abc", **OWN)
    assert sites.asked == [(ESTIMATE_COMPLETENESS, 4, None), (CORRECT_ANNOTATIONS, 4, [])]
    assert made.stage(4) == "federated averaging"
    assert made.server.weights(made.round(4)) is None
    assert not made.has_rule(4)


def test_a_site_whose_completeness_is_confirmed_corrects_at_once_and_weighs_less() -> None:
    sites = PredictedSites({"a": COMPLETE, "b": HALF}, corrects="b")
    made = after_warmup(sites, **OWN)
    assert sites.asked == [(ESTIMATE_COMPLETENESS, 4, None), (CORRECT_ANNOTATIONS, 4, ["b"])]
    for number in (4, 5):
        assert made.stage(number) == "completeness-aware"
        weights = made.server.weights(made.round(number))
        assert weights is not None
        # exp(1 / 0.2) and exp(0.5 / 0.2); of two sites one may decide.
        assert weights.of("b")["last"] == pytest.approx(1 / (1 + math.exp(2.5)))
        finish(made, {"a": 0.5, "b": 0.5}, corrected="b")
        made.before_round(number + 1)
    result = made.described()["completeness"]["b"]
    assert (result["estimate"], result["low"], result["high"], result["is_confirmed"]) == (0.5, 0.4, 0.6, True)
    assert result["corrected_before_round"] == 4
    assert made.described()["completeness"]["a"]["is_confirmed"] is False
    assert made.said[0].startswith("Completeness of a: 1.00 (0.96 to 1.00); 4 lesions annotated, 10 predicted; the mod")


@pytest.mark.parametrize(("recall", "precision"), [(0.69, 0.9), (0.9, 0.69), (math.nan, math.nan)])
def test_a_model_that_is_not_fit_as_a_reference_corrects_nothing(recall: float, precision: float) -> None:
    sites = PredictedSites({"a": COMPLETE, "b": (0.5, 0.4, 0.6, recall, precision)}, corrects="b")
    made = after_warmup(sites, **OWN)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 4, [])
    weights = made.server.weights(made.round(4))
    assert weights is not None
    assert weights.of("a")["first"] == confirmed_weights({"a": 10, "b": 10}, {"b": 0.5}, 0.2)["a"]


def test_sites_that_have_not_corrected_are_predicted_again_half_way_through_the_remaining_rounds() -> None:
    sites = PredictedSites({"a": COMPLETE, "b": (0.5, 0.4, 0.6, 0.5, 0.9), "c": HALF}, corrects="bc")
    made = after_warmup(sites, names="abc", rounds=9, **OWN)
    for number in range(4, 9):
        finish(made, dict.fromkeys("abc", 0.5), corrected=sites.has_corrected)
        # By then the model sees enough.
        sites.predicted["b"] = HALF
        made.before_round(number + 1)
    asked = [(task, number, names) for task, number, names in sites.asked if names != []]
    # Rounds 4 to 9 remain; the second half begins with round 7.
    assert asked == [
        (ESTIMATE_COMPLETENESS, 4, None),
        (CORRECT_ANNOTATIONS, 4, ["c"]),
        (ESTIMATE_COMPLETENESS, 7, ["a", "b"]),
        (CORRECT_ANNOTATIONS, 7, ["b"]),
    ]


def test_without_corrections_there_are_confirmed_weights_alone() -> None:
    sites = PredictedSites({"a": COMPLETE, "b": HALF}, corrects="b")
    made = after_warmup(sites, correction=False, **OWN)
    assert [task for task, *_ in sites.asked] == [ESTIMATE_COMPLETENESS]
    assert made.server.weights(made.round(4)) is not None
    alone = after_warmup(PredictedSites({"a": COMPLETE, "b": HALF}, corrects="b"), **OWN | {"weighting": "quantity"})
    assert alone.server.weights(alone.round(4)) is None
    assert alone.server._corrected == {"b": 4}


def test_a_restart_knows_estimates_and_corrections_of_the_own_form() -> None:
    sites = PredictedSites({"a": COMPLETE, "b": HALF, "c": (0.4, 0.3, 0.5, 0.1, 0.1)}, corrects="b")
    made = after_warmup(sites, names="abc", **OWN)
    again = RoundLoop(sites, **OWN)
    again.server.restore(made.server.state(), [as_record(item) for item in made.history])
    assert again.server.completeness == made.server.completeness
    again.num_samples = made.num_samples
    before, after = (course.server.weights(course.round(5)) for course in (made, again))
    assert before is not None
    assert after is not None
    assert before.values.tolist() == after.values.tolist()
    assert again.described() == made.described()


def test_a_site_that_lost_its_corrections_is_asked_again_in_the_own_form() -> None:
    sites = PredictedSites({"a": COMPLETE, "b": HALF}, corrects="b")
    made = after_warmup(sites, **OWN)
    finish(made, {"a": 0.5, "b": 0.5})
    made.before_round(5)
    assert sites.asked[-1] == (CORRECT_ANNOTATIONS, 5, ["b"])


@pytest.mark.parametrize("change", [{"weighting": "established"}, {"trigger": "estimate"}])
def test_what_is_to_be_confirmed_needs_an_estimator_with_intervals(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"key 'estimator' is 'counts': .* need estimator = sure"):
        FedIASettings.model_validate(change)
    FedIASettings.model_validate({"trigger": "estimate", "correction": False})
