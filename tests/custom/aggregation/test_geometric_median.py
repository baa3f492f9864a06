"""The geometric median: Weiszfeld's passes by hand, its limits, and what it does in a round."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fedannot.custom.aggregation.geometric_median import weiszfeld_weights
from fedannot.custom.aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from fedannot.custom.aggregation.settings import AggregationSettings

# The diagonals of these cross in the origin, where the sum of distances is least.
CROSS = np.array([(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 9.0)])
NAMES = "abcdefgh"


def median(points: np.ndarray, shares: Sequence[float], **changes: float) -> np.ndarray:
    """Of points whose coordinates are layer blocks of their own, with one share of a site in all of them."""
    distances = np.square(points[:, None] - points).transpose(2, 0, 1)
    values = np.tile(np.array(shares)[:, None], (1, points.shape[1]))
    alpha = weiszfeld_weights(distances, values, **({"smoothing": 1e-5, "passes": 100} | changes))
    return np.asarray((alpha * points).sum(axis=0))


def of_round(
    points: np.ndarray, samples: Sequence[int], folder: Path, order: Sequence[int] | None = None, **changes: float
) -> tuple[dict[str, torch.Tensor], RoundAverage]:
    """What a round makes of points as models of two layers, with running statistics and a counter."""
    models = [
        {"x": torch.tensor(point[:1]), "y": torch.tensor(point[1:]), "var": torch.tensor(100 * point[:1]), "n": count}
        for point, count in zip(points, map(torch.tensor, samples), strict=True)
    ]
    reference = {name: torch.zeros_like(value) for name, value in models[0].items()}
    block_of = {"x": "x", "y": "y", "var": "x", "n": "y"}
    rule = AggregationSettings.model_validate({"rule": "geometric_median"} | changes)
    average = RoundAverage(
        SentModel(1, reference, block_of, trained=("x", "y")), AveragingPlan(len(models), None, folder, rule=rule)
    )
    for index in order or range(len(models)):
        assert average.refuse_or_accept(NAMES[index], models[index], samples[index], 1) is None
    average.weigh(None)
    return average.result(), average


@pytest.mark.parametrize(("passes", "height"), [(1, 0.694855), (2, 0.209807), (3, 0.068085), (4, 0.023448)])
def test_passes_by_hand(passes: int, height: float, tmp_path: Path) -> None:
    assert median(CROSS, [0.25] * 4, passes=passes) == pytest.approx([0, height], abs=1e-6)
    result, _ = of_round(CROSS, [7] * 4, tmp_path / "waiting", passes=passes)
    assert (float(result["x"]), float(result["y"])) == pytest.approx((0, height), abs=1e-6)


def test_the_sum_of_distances_falls_with_every_pass() -> None:
    """From the mean, where it is 3.618034, to the crossing, where it is 3."""
    sums = [
        float(np.linalg.norm(CROSS - point, axis=1).mean())
        for point in (CROSS.mean(axis=0), *(median(CROSS, [0.25] * 4, passes=passes) for passes in (1, 2, 4, 100)))
    ]
    assert (sums[0], sums[1], sums[-1]) == pytest.approx((3.618034, 3.108856, 3.0), abs=1e-6)
    assert sums == sorted(sums, reverse=True)


def test_it_ends_where_the_sum_of_distances_is_least() -> None:
    assert median(CROSS, [0.25] * 4) == pytest.approx([0, 0], abs=1e-5)
    generator = np.random.default_rng(0)
    points, shares = generator.normal(size=(6, 3)), generator.dirichlet(np.ones(6))
    least = minimize(lambda v: shares @ np.linalg.norm(points - v, axis=1), shares @ points, tol=1e-12).x
    np.testing.assert_allclose(median(points, shares.tolist()), least, atol=1e-4)
    moved = median(points + 5.0, shares.tolist())
    np.testing.assert_allclose(moved, median(points, shares.tolist()) + 5.0, atol=1e-9)


def test_a_site_with_more_than_half_of_the_weight_is_the_median() -> None:
    line = np.array([[0.0], [1.0], [10.0]])
    assert median(line, [0.2, 0.2, 0.6]) == pytest.approx([10.0], abs=1e-3)


def test_of_one_site_it_is_that_sites_model_and_of_equal_ones_theirs(tmp_path: Path) -> None:
    for name, points in (("one", CROSS[3:]), ("equal", np.tile(CROSS[3:], (3, 1)))):
        result, _ = of_round(points, [3] * len(points), tmp_path / name)
        assert (float(result["x"]), float(result["y"]), int(result["n"])) == (0.0, 9.0, 3)


def test_where_all_models_are_near_it_is_the_average_bit_for_bit(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    points, samples = generator.normal(size=(5, 2)), [3, 1, 4, 1, 5]
    result, average = of_round(points, samples, tmp_path / "waiting", smoothing=1e9)
    mean = RoundAverage(
        SentModel(1, {name: torch.zeros_like(value) for name, value in result.items()}, dict.fromkeys(result, "all")),
        AveragingPlan(5),
    )
    for name, point, count in zip(NAMES, points, samples, strict=False):
        model = {"x": point[:1], "y": point[1:], "var": 100 * point[:1]}
        params = {key: torch.tensor(value) for key, value in model.items()} | {"n": torch.tensor(count)}
        assert mean.refuse_or_accept(name, params, count, 1) is None
    expected = mean.result()
    assert all(torch.equal(result[name], value) for name, value in expected.items())
    assert average.in_effect is not None
    assert average.in_effect.of("e") == {"x": pytest.approx(5 / 14), "y": pytest.approx(5 / 14)}


def test_no_order_changes_a_bit_and_statistics_and_counters_follow_the_parameters(tmp_path: Path) -> None:
    samples = [3, 1, 4, 1]
    one, average = of_round(CROSS, samples, tmp_path / "one")
    other, _ = of_round(CROSS, samples, tmp_path / "other", order=[2, 0, 3, 1])
    assert all(torch.equal(one[name], value) for name, value in other.items())
    assert average.in_effect is not None
    alpha = average.in_effect.values[:, 0]
    assert float(one["var"]) == pytest.approx(100 * float(alpha @ CROSS[:, 0]))
    assert int(one["n"]) == 4
    # The one that is far off counts least for its size.
    assert alpha[3] < 1 / 9
