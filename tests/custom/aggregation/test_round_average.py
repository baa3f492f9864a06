"""The average of a round: what it accepts, what it refuses and why, and what comes out."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plain_records import in_words

from fedannot.custom.aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from fedannot.custom.aggregation.weighting import LayerWeights

BLOCK_OF = {"stem.weight": "stem", "head.weight": "head", "head.counter": "head"}

# Site, state dict, number of samples, round: what the average is given.
Result = tuple[str, Mapping[str, torch.Tensor] | None, Any, int | None]


def state(value: float, counter: int = 0) -> dict[str, torch.Tensor]:
    return {
        "stem.weight": torch.full((2, 2), float(value)),
        "head.weight": torch.full((3,), 10.0 * value),
        "head.counter": torch.tensor(counter),
    }


SENT = SentModel(2, state(0.0), BLOCK_OF)


def result(site: str, value: float = 1.0, num_samples: Any = 10, **changes: Any) -> Result:
    given = {
        "params": state(value, counter=int(num_samples or 0)),
        "num_samples": num_samples,
        "round_number": 2,
    } | changes
    return site, given["params"], given["num_samples"], given["round_number"]


def weights_of(**rows: Sequence[float]) -> LayerWeights:
    sites = tuple(sorted(rows))
    return LayerWeights(sites, ("stem", "head"), np.array([rows[site] for site in sites], dtype=np.float64))


def opened(weights: LayerWeights | None = None, num_sites: int = 4) -> RoundAverage:
    return RoundAverage(SENT, AveragingPlan(num_sites, weights))


def waiting(tmp_path: Path) -> RoundAverage:
    return RoundAverage(SENT, AveragingPlan(4, wait_in=tmp_path / "waiting"))


def accept(average: RoundAverage, *given: Result) -> None:
    assert [average.refuse_or_accept(*each) for each in given] == [None] * len(given)


def test_without_a_matrix_sites_count_by_their_numbers_of_samples() -> None:
    average = opened()
    for site, value, num_samples in (("a", 1.0, 10), ("b", 2.0, 30), ("c", 6.0, 20)):
        assert average.refuse_or_accept(*result(site, value, num_samples)) is None
    params = average.result()
    # (10·1 + 30·2 + 20·6) / 60 = 190/60
    torch.testing.assert_close(params["stem.weight"], torch.full((2, 2), 190 / 60), rtol=1e-7, atol=0)
    torch.testing.assert_close(params["head.weight"], torch.full((3,), 1900 / 60), rtol=1e-7, atol=0)
    assert params["head.counter"].item() == 30  # of the site with most samples


def test_a_second_average_is_of_the_same_results_by_samples_and_changes_nothing_of_the_first(tmp_path: Path) -> None:
    matrix = weights_of(a=[0.25, 1.0], b=[0.75, 0.0], c=[0.0, 0.0])
    given = [result(site, value, samples) for site, value, samples in (("a", 1.0, 10), ("b", 2.0, 30), ("c", 6.0, 20))]
    for waits in (False, True):
        alone, beside = (
            RoundAverage(SENT, AveragingPlan(4, matrix, tmp_path / name if waits else None, without))
            for name, without in (("alone", None), ("beside", {"b"}))
        )
        for average in (alone, beside):
            accept(average, *given)
            if waits:
                average.weigh(matrix)
        first, same, second = alone.result(), beside.result(), beside.second_average()
        assert all(torch.equal(first[name], same[name]) for name in first)
        assert alone.second_average() is None
        assert second is not None
        # (10·1 + 20·6) / 30
        torch.testing.assert_close(second["stem.weight"], torch.full((2, 2), 130 / 30), rtol=1e-7, atol=0)
        assert second["head.counter"].item() == 20
        assert beside.second_average() is None


def test_bounds_of_influence_hold_in_the_second_average(tmp_path: Path) -> None:
    sent = SentModel(2, state(1.0), BLOCK_OF)
    average = RoundAverage(sent, AveragingPlan(2, wait_in=tmp_path / "waiting", second_average_without=set()))
    accept(average, result("a", 3.0, 10), result("b", 101.0, 10))
    average.weigh(None, {"b": {"stem": 0.01, "head": 0.01}}, {"head.weight": (torch.zeros(3), torch.full((3,), 20.0))})
    second = average.second_average()
    assert second is not None
    # a: 3; b: 1 + 0.01 (101 − 1)
    torch.testing.assert_close(second["stem.weight"], torch.full((2, 2), 2.5))
    # Values up to 20 count: a 20; b: 10 + 0.01 (20 − 10)
    torch.testing.assert_close(second["head.weight"], torch.full((3,), 15.05))


def test_a_second_average_without_any_site_is_none() -> None:
    average = RoundAverage(SENT, AveragingPlan(2, second_average_without={"a"}))
    accept(average, result("a", 3.0))
    average.result()
    assert average.second_average() is None


def test_a_matrix_weighs_every_block_by_itself_whatever_the_numbers_of_samples() -> None:
    average = opened(weights_of(a=[0.25, 1.0], b=[0.75, 0.0]))
    accept(average, result("b", 2.0, num_samples=1))
    accept(average, result("a", 1.0, num_samples=99))
    params = average.result()
    assert params["stem.weight"].unique().tolist() == [1.75]
    assert params["head.weight"].unique().tolist() == [10.0]


def test_the_others_weights_are_renormalised_where_a_site_is_missing() -> None:
    average = opened(weights_of(a=[0.2, 0.5], b=[0.3, 0.5], c=[0.5, 0.0]))
    accept(average, result("a", 1.0))
    accept(average, result("b", 2.0))
    params = average.result()
    assert params["stem.weight"][0, 0].item() == pytest.approx((0.2 * 1 + 0.3 * 2) / 0.5)
    assert params["head.weight"][0].item() == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (result("b", round_number=1), "it is of round 1, expected 2"),
        (result("b", round_number=None), "it is of round None, expected 2"),
        (result("a"), "it is a second result for this round"),
        (result("z"), "the site joined after this round's weights were made; it counts from the next round on"),
        # Each of four sites may have a quarter of 2^24 samples.
        (result("b", num_samples=0), "its number of samples is 0, expected 1 to 4194304"),
        (result("b", num_samples=-3), "its number of samples is -3, expected 1 to 4194304"),
        (result("b", num_samples=4194305), "its number of samples is 4194305, expected 1 to 4194304"),
        (result("b", num_samples=2.0), "its number of samples is 2.0, expected 1 to 4194304"),
        (result("b", num_samples=True), "its number of samples is True, expected 1 to 4194304"),
        (result("b", num_samples=None), "its number of samples is None, expected 1 to 4194304"),
        (result("b", params={}), "it has no model"),
        (result("b", params={"stem.weight": torch.zeros(2, 2)}), "2 missing entries, e.g. 'head.counter'"),
        (
            result("b", params=state(1.0) | {"head.weight": torch.zeros(4)}),
            "'head.weight' has shape (4,), expected (3,)",
        ),
        (result("b", value=float("nan")), "'stem.weight' has values that are not finite"),
    ],
)
def test_result_that_cannot_be_used_is_refused_with_the_reason_and_changes_nothing(late: Result, reason: str) -> None:
    average = opened(weights_of(a=[0.5, 0.5], b=[0.5, 0.5]))
    accept(average, result("a", 3.0))
    assert in_words(average.refuse_or_accept(*late)) == reason
    params = average.result()
    assert params["stem.weight"].unique().tolist() == [3.0]


def test_a_claim_of_all_that_may_be_had_takes_nothing_from_the_others() -> None:
    """It is refused, whether it comes first or last, and honest sites count as without it."""
    for order in (("liar", "a", "b"), ("a", "b", "liar")):
        average = opened(num_sites=3)
        answers = {"liar": result("liar", 900.0, 2**24), "a": result("a", 1.0, 12), "b": result("b", 3.0, 12)}
        reasons = in_words({site: average.refuse_or_accept(*answers[site]) for site in order})
        assert reasons == {"liar": f"its number of samples is {2**24}, expected 1 to 5592405", "a": None, "b": None}
        assert average.result()["stem.weight"].unique().tolist() == [2.0]


@pytest.mark.parametrize("num_sites", [1, 4, 7])
def test_all_sites_together_may_claim_up_to_their_limits(num_sites: int) -> None:
    average = opened(num_sites=num_sites)
    limit = 2**24 // num_sites
    assert [average.refuse_or_accept(*result(f"site-{n}", float(n), limit)) for n in range(num_sites)] == (
        [None] * num_sites
    )
    mean = sum(range(num_sites)) / num_sites
    assert average.result()["stem.weight"][0, 0].item() == pytest.approx(mean)


def test_a_site_beyond_those_that_were_asked_waits_for_the_next_round() -> None:
    average = opened(num_sites=1)
    assert (
        in_words(average.refuse_or_accept(*result("a", float("nan")))) == "'stem.weight' has values that are not finite"
    )
    assert average.refuse_or_accept(*result("a")) is None
    reason = "the site was not asked in this round; it counts from the next round on"
    assert in_words(average.refuse_or_accept(*result("b"))) == reason


def test_without_weights_results_that_wait_count_by_their_numbers_of_samples_in_the_same_bits(tmp_path: Path) -> None:
    at_once, late = opened(), waiting(tmp_path)
    for average in (at_once, late):
        for site, num_samples in (("a", 10), ("b", 30), ("c", 7)):
            accept(average, result(site, 0.1 * ord(site), num_samples))
    late.weigh(None)
    expected, found = at_once.result(), late.result()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_values_count_within_their_ranges(tmp_path: Path) -> None:
    """Of 1 and 3 the second counts as 2 in the entry that has a range."""
    average = waiting(tmp_path)
    accept(average, result("a", 1.0))
    accept(average, result("b", 3.0))
    average.weigh(None, ranges={"stem.weight": (torch.zeros(2, 2), torch.full((2, 2), 2.0))})
    params = average.result()
    assert params["stem.weight"].unique().tolist() == [1.5]
    assert params["head.weight"].unique().tolist() == [20.0]


def test_refused_site_may_answer_again() -> None:
    average = opened()
    assert average.refuse_or_accept(*result("a", float("inf"))) is not None
    assert average.refuse_or_accept(*result("a", 2.0)) is None


def test_without_a_matrix_a_new_site_counts_at_once() -> None:
    assert opened().refuse_or_accept(*result("new")) is None


def test_after_its_result_a_round_is_closed() -> None:
    average = opened()
    accept(average, result("a", 4.0))
    average.result()
    assert in_words(average.refuse_or_accept(*result("b"))) == "no round is open"


def test_round_without_results_has_no_average() -> None:
    with pytest.raises(ValueError, match="none was added"):
        opened().result()


def test_results_of_many_threads_give_the_bits_of_one() -> None:
    generator = np.random.default_rng(0)
    results = [result(f"site-{n}", float(generator.normal()), int(generator.integers(1, 50))) for n in range(24)]
    one, many = opened(num_sites=24), opened(num_sites=24)
    accept(one, *results)
    threads = [threading.Thread(target=many.refuse_or_accept, args=each) for each in reversed(results)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected, found = one.result(), many.result()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_models_that_wait_for_their_weights_are_averaged_as_if_these_had_been_known(tmp_path: Path) -> None:
    weights = weights_of(a=[0.25, 1.0], b=[0.75, 0.0])
    known, late = opened(weights), waiting(tmp_path)
    for average, order in ((known, ("a", "b")), (late, ("b", "a"))):
        for site in order:
            assert average.refuse_or_accept(*result(site, 1.5 + ord(site), num_samples=7)) is None
    assert len(list((tmp_path / "waiting").iterdir())) == 2
    late.weigh(weights)
    expected, found = known.result(), late.result()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert not (tmp_path / "waiting").exists()


def test_a_second_model_of_a_site_is_refused_while_the_first_waits(tmp_path: Path) -> None:
    average = waiting(tmp_path)
    accept(average, result("a"))
    assert in_words(average.refuse_or_accept(*result("a", 9.0))) == "it is a second result for this round"


def test_a_round_that_is_given_up_leaves_no_model_behind(tmp_path: Path) -> None:
    average = waiting(tmp_path)
    accept(average, result("a"))
    average.give_up()
    assert not (tmp_path / "waiting").exists()
    assert in_words(average.refuse_or_accept(*result("a"))) == "no round is open"


def test_weights_come_late_only_to_a_round_that_waits_for_them() -> None:
    with pytest.raises(ValueError, match="Expected a round whose results wait for their weights"):
        opened().weigh(weights_of(a=[1.0, 1.0]))


def test_an_update_that_is_scaled_down_leaves_its_rest_with_the_global_model(tmp_path: Path) -> None:
    """θ + Σ w f (θ_k − θ), with θ = 1, θ_a = 2, θ_b = 101 and f_b = 0.01: 1 + 0.25·1 + 0.75·0.01·100 = 2."""
    weights = weights_of(a=[0.25, 0.5], b=[0.75, 0.5])
    average = RoundAverage(SentModel(2, state(1.0), BLOCK_OF), AveragingPlan(2, weights, tmp_path / "waiting"))
    accept(average, result("a", 2.0))
    accept(average, result("b", 101.0))
    average.weigh(weights, {"b": {"stem": 0.01, "head": 0.01}})
    params = average.result()
    torch.testing.assert_close(params["stem.weight"], torch.full((2, 2), 2.0), rtol=1e-7, atol=0)
    # 10 (1 + 0.5·1 + 0.5·0.01·100) = 20
    torch.testing.assert_close(params["head.weight"], torch.full((3,), 20.0), rtol=1e-7, atol=0)


def test_a_round_that_is_given_up_without_waiting_is_closed() -> None:
    average = opened()
    accept(average, result("a"))
    average.give_up()
    assert in_words(average.refuse_or_accept(*result("b"))) == "no round is open"


def test_nobody_waits_where_weights_are_known() -> None:
    with pytest.raises(ValueError, match="Expected a round whose results wait for their weights, but none is open"):
        _ = opened().waiting


def test_what_is_left_of_a_killed_round_does_not_count(tmp_path: Path) -> None:
    accept(waiting(tmp_path), result("killed"))
    average = waiting(tmp_path)
    assert list(average.waiting.sites) == []
