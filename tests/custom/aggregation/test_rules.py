"""Robust rules of aggregation: against the published vectors and plain sorting, whatever the order and the path."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedannot.custom.aggregation.counted_models import CountedModels
from fedannot.custom.aggregation.model_spool import ModelSpool
from fedannot.custom.aggregation.multi_krum import chosen_models, krum_scores, squared_distances_between
from fedannot.custom.aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from fedannot.custom.aggregation.settings import AggregationSettings
from fedannot.custom.aggregation.streaming_average import PIECE
from fedannot.custom.aggregation.trimmed_mean import TrimmedMean
from fedannot.custom.aggregation.weighted_median import weighted_median
from fedannot.custom.aggregation.weighting import LayerWeights

# Of Yin et al.: five sites, two coordinates.
YIN = ((1.0, 10.0), (2.0, 0.0), (3.0, 20.0), (4.0, 6.0), (100.0, -50.0))
SITES = "abcdefgh"
BLOCK_OF = {"w": "block", "var": "block", "count": "block"}
RULES = {
    "trimmed_mean": AggregationSettings(rule="trimmed_mean"),
    "median": AggregationSettings(rule="median"),
    "multi_krum": AggregationSettings(rule="multi_krum"),
}


def state(values: Sequence[float], variance: float = 1.0, count: int = 0) -> dict[str, torch.Tensor]:
    return {
        "w": torch.tensor(values, dtype=torch.float32),
        "var": torch.tensor([variance], dtype=torch.float32),
        "count": torch.tensor(count),
    }


def averaged(
    rule: AggregationSettings,
    models: Mapping[str, dict[str, torch.Tensor]],
    folder: Path | None,
    *,
    weights: LayerWeights | None = None,
    samples: Mapping[str, int] | None = None,
    order: Sequence[str] | None = None,
) -> dict[str, torch.Tensor]:
    """What a round makes of these models, with equal numbers of samples unless others are given."""
    reference = {name: torch.zeros_like(tensor) for name, tensor in next(iter(models.values())).items()}
    sent = SentModel(1, reference, BLOCK_OF, trained=("w",))
    average = RoundAverage(sent, AveragingPlan(len(models), weights, folder, rule=rule))
    for site in order or sorted(models):
        assert average.refuse_or_accept(site, models[site], (samples or {}).get(site, 7), 1) is None
    if folder is not None:
        average.weigh(weights)
    return average.result()


def of_yin() -> dict[str, dict[str, torch.Tensor]]:
    return {site: state(values) for site, values in zip(SITES, YIN, strict=False)}


@pytest.mark.parametrize("waits", [False, True])
def test_trimmed_mean_of_the_published_values(waits: bool, tmp_path: Path) -> None:
    result = averaged(RULES["trimmed_mean"], of_yin(), tmp_path / "waiting" if waits else None)
    torch.testing.assert_close(result["w"], torch.tensor([3.0, 16 / 3]))
    # Without a trimmed site it is the mean; here of sites of one size.
    plain = averaged(AggregationSettings(), of_yin(), None)
    torch.testing.assert_close(plain["w"], torch.tensor([22.0, -2.8]))


def test_median_of_the_published_values_of_an_odd_and_an_even_number_of_sites(tmp_path: Path) -> None:
    models = of_yin()
    assert averaged(RULES["median"], models, tmp_path / "five")["w"].tolist() == [3.0, 6.0]
    del models["e"]
    assert averaged(RULES["median"], models, tmp_path / "four")["w"].tolist() == [2.5, 8.0]


def test_trimmed_mean_of_all_but_the_middle_is_the_median() -> None:
    result = averaged(AggregationSettings(rule="trimmed_mean", trim=2), of_yin(), None)
    assert result["w"].tolist() == [3.0, 6.0]


def test_scores_of_krum_and_the_models_that_it_keeps(tmp_path: Path) -> None:
    models = {site: state([value]) for site, value in zip(SITES, (0.0, 1.0, 3.0, 3.5, 20.0), strict=False)}
    values = np.array([0.0, 1.0, 3.0, 3.5, 20.0])
    scores = krum_scores((values[:, None] - values) ** 2, byzantine=1)
    assert scores.tolist() == [10.0, 5.0, 4.25, 6.5, 561.25]
    for kept, expected in ((1, 3.0), (3, 2.5), (5, 5.5), (None, 7.5 / 4)):
        rule = AggregationSettings(rule="multi_krum", kept=kept)
        assert averaged(rule, models, tmp_path / "waiting")["w"].tolist() == [pytest.approx(expected)]
    with pytest.raises(ValueError, match="at least 7 models for f = 2, but got 5"):
        krum_scores(np.zeros((5, 5)), byzantine=2)


def test_of_models_that_stay_those_of_krums_sites_alone_do(tmp_path: Path) -> None:
    """What a method combines are the models that count, and no file or mapping of another one is left."""
    folder = tmp_path / "waiting"
    average = RoundAverage(
        SentModel(1, state([0.0]), BLOCK_OF, trained=("w",)),
        AveragingPlan(5, wait_in=folder, rule=AggregationSettings(rule="multi_krum", kept=3)),
    )
    for site, value in zip(SITES, (0.0, 1.0, 3.0, 3.5, 20.0), strict=False):
        assert average.refuse_or_accept(site, state([value]), 10, 1) is None
    average.weigh(None, keep=True)
    assert average.counted is not None
    assert average.kept == average.counted.sites == ("b", "c", "d")
    assert [float(average.counted.params(site)["w"]) for site in "bcd"] == [1.0, 3.0, 3.5]
    assert len(list(folder.iterdir())) == 3
    average.give_up()
    assert not folder.exists()


def counted(models: Mapping[str, dict[str, torch.Tensor]], folder: Path) -> CountedModels:
    spool = ModelSpool(folder)
    for site, params in models.items():
        spool.put(site, params, 1)
    return CountedModels(spool, {}, BLOCK_OF, {}, {})


def test_distances_are_over_the_parameters_alone_and_of_every_piece(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(5, 2 * PIECE + 3)).astype(np.float32)
    models = {
        site: state(row.tolist(), variance=1000.0 * row[0] ** 2) for site, row in zip(SITES, values, strict=False)
    }
    distances = squared_distances_between(counted(models, tmp_path / "spool"), ["w"])
    expected = np.square(values[:, None].astype(np.float64) - values).sum(axis=2)
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=0)


def test_of_models_that_are_alike_the_first_by_name_are_kept(tmp_path: Path) -> None:
    models = {site: state([1.0]) for site in "edcba"}
    assert chosen_models(counted(models, tmp_path), ["w"], byzantine=1, kept=2) == ("a", "b")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_order_of_arrival_changes_no_bit(rule: AggregationSettings, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    # Rounded, so that many values are the same at several sites, which have other weights.
    models = {
        site: state(generator.normal(size=300).round(1).tolist(), variance=float(generator.uniform())) for site in SITES
    }
    samples = {site: int(generator.integers(1, 50)) for site in SITES}
    results = [
        averaged(rule, models, tmp_path / "waiting", samples=samples, order=order)
        for order in (SITES, SITES[::-1], generator.permutation(list(SITES)).tolist())
    ]
    for other in results[1:]:
        assert all(torch.equal(results[0][name], other[name]) for name in other)


def test_a_trimmed_mean_has_the_same_bits_in_one_pass_and_of_models_that_wait(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    models = {site: state(generator.normal(size=50).round(1).tolist()) for site in SITES}
    samples = {site: int(generator.integers(1, 50)) for site in SITES}
    rule = AggregationSettings(rule="trimmed_mean", trim=3)
    at_once = averaged(rule, models, None, samples=samples, order=SITES[::-1])
    late = averaged(rule, models, tmp_path / "waiting", samples=samples)
    assert all(torch.equal(at_once[name], late[name]) for name in late)


def plain_trimmed_mean(values: np.ndarray, weights: np.ndarray, trim: int) -> np.ndarray:
    """By sorting (value, place of the site) in every coordinate."""
    means = []
    for column in values.T.astype(np.float64):
        left = sorted(range(len(column)), key=lambda index: (column[index], index))[trim : len(column) - trim]
        means.append(np.average(column[left], weights=weights[left]))
    return np.array(means)


@given(st.data(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_weighted_trimmed_mean_against_sorting(data: st.DataObject, trim: int) -> None:
    number = data.draw(st.integers(2 * trim + 1, 9))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = generator.normal(size=(number, 20)).round(1).astype(np.float32)
    weights = generator.uniform(0.1, 1.0, size=number)
    weights /= weights.sum()
    average = TrimmedMean({"w": torch.zeros(20)}, {"w": "block"}, trim=trim)
    for index in generator.permutation(number):
        params = {"w": torch.from_numpy(values[index])}
        average.add(f"site-{index}", params, {"block": float(weights[index])}, num_samples=1)
    expected = plain_trimmed_mean(values, weights, trim)
    np.testing.assert_allclose(average.result()["w"].numpy(), expected, rtol=1e-6, atol=1e-6)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=9))
def test_weighted_median_against_copies_of_the_values(sites: list[tuple[int, int]]) -> None:
    """A weight of n is n equal values."""
    copies = [float(value) for value, weight in sites for _ in range(weight)]
    if copies:
        values = np.array([[float(value)] for value, _ in sites])
        assert weighted_median(values, [weight for _, weight in sites]).tolist() == [np.median(copies)]


def test_a_weight_above_half_decides_the_median() -> None:
    assert weighted_median(np.array([[0.0], [1.0], [10.0]]), [0.2, 0.2, 0.6]).tolist() == [10.0]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_weights_of_a_method_count_and_equal_ones_are_as_none(rule: AggregationSettings, tmp_path: Path) -> None:
    models = {site: state([value]) for site, value in zip(SITES, (0.0, 1.0, 2.0, 4.0, 50.0), strict=False)}

    def of(*weights: float) -> float:
        matrix = LayerWeights.same_in_all_blocks(dict(zip("abcde", weights, strict=True)), ("block",))
        return float(averaged(rule, models, tmp_path / "waiting", weights=matrix)["w"])

    assert of(*[0.2] * 5) == pytest.approx(float(averaged(rule, models, tmp_path / "waiting")["w"]))
    # The trimmed mean: (0.1·1 + 0.1·2 + 0.6·4) / 0.8. The median: the value at which half is reached. Multi-Krum keeps
    # a to d: (0.1·1 + 0.1·2 + 0.6·4) / 0.9.
    expected = {"trimmed_mean": 2.7 / 0.8, "median": 4.0, "multi_krum": 2.7 / 0.9}
    assert of(0.1, 0.1, 0.1, 0.6, 0.1) == pytest.approx(expected[rule.rule])


def test_a_coordinate_of_which_all_weight_is_dropped_keeps_the_global_value() -> None:
    average = TrimmedMean({"w": torch.tensor([7.0, 7.0])}, {"w": "block"}, trim=1)
    for site, values, weight in (("a", [1.0, 2.0], 0.0), ("b", [2.0, 1.0], 0.0), ("c", [9.0, 1.5], 1.0)):
        average.add(site, {"w": torch.tensor(values)}, {"block": weight}, num_samples=1)
    assert average.result()["w"].tolist() == [7.0, 1.5]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("lie", [1e3, -1e3, 0.0])
def test_one_liar_moves_no_coordinate_beyond_the_others_and_no_variance_below_zero(
    rule: AggregationSettings, lie: float, tmp_path: Path
) -> None:
    """Whatever it sends and claims; its weight is below half, as the bound of shares makes it."""
    generator = np.random.default_rng(3)
    honest = {site: state(generator.normal(5.0, 1.0, size=40).tolist(), variance=1e-3) for site in SITES[:-1]}
    models = honest | {SITES[-1]: state([lie] * 40, variance=abs(lie))}
    samples = dict.fromkeys(SITES, 10) | {SITES[-1]: 60}
    result = averaged(rule, models, tmp_path / "waiting", samples=samples)
    values = torch.stack([params["w"] for params in honest.values()])
    assert (result["w"] >= values.min(dim=0).values - 1e-6).all()
    assert (result["w"] <= values.max(dim=0).values + 1e-6).all()
    assert 0 <= float(result["var"]) <= 1e-3 + 1e-7


def test_integer_buffers_are_of_the_site_with_most_samples(tmp_path: Path) -> None:
    models = {site: state([float(number)], count=number) for number, site in enumerate("abcde")}
    samples = {"a": 3, "b": 9, "c": 9, "d": 1, "e": 2}
    for rule in RULES.values():
        assert int(averaged(rule, models, tmp_path / "waiting", samples=samples)["count"]) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_tables_of_indices_that_one_site_changes_stay_as_they_are(waits: bool, tmp_path: Path) -> None:
    """Nobody trains them; a liar that claims most samples does not give them to the others."""
    table, lie = torch.arange(6).view(2, 3), torch.full((2, 3), 10**9)
    mask = torch.tensor([True, False])
    rules = RULES if waits else {"mean": AggregationSettings(), "trimmed_mean": RULES["trimmed_mean"]}
    for name, rule in rules.items():
        reference = {"w": torch.zeros(1), "index": table, "mask": mask, "count": torch.tensor(3)}
        sent = SentModel(1, reference, dict.fromkeys(reference, "block"), trained=("w",))
        average = RoundAverage(sent, AveragingPlan(6, None, tmp_path / name if waits else None, rule=rule))
        for number, site in enumerate("abcdef"):
            model = reference | {"w": torch.tensor([float(number)]), "count": torch.tensor(4 + number)}
            model |= {"index": lie, "mask": ~mask} if site == "a" else {}
            assert average.refuse_or_accept(site, model, 101 if site == "a" else 100, 1) is None
        if waits:
            average.weigh(None)
        result = average.result()
        assert torch.equal(result["index"], table)
        assert torch.equal(result["mask"], mask)
        # Counters change at every site.
        assert int(result["count"]) != 3


def test_of_one_site_the_median_is_its_model(tmp_path: Path) -> None:
    model = state([1.5, -2.0], variance=0.1, count=4)
    result = averaged(RULES["median"], {"a": model}, tmp_path / "waiting")
    assert all(torch.equal(result[name], value) for name, value in model.items())


def test_too_few_models_are_no_trimmed_mean() -> None:
    average = TrimmedMean({"w": torch.zeros(1)}, {"w": "block"}, trim=1)
    for site in "ab":
        average.add(site, {"w": torch.ones(1)}, {"block": 0.5}, num_samples=1)
    with pytest.raises(ValueError, match="more than 2 models to drop 1 at each end, but got 2"):
        average.result()


def test_rules_on_models_that_wait_have_no_streaming_pass_and_no_second_average(tmp_path: Path) -> None:
    for folder, without in ((None, None), (tmp_path, {"a"})):
        with pytest.raises(ValueError, match="for the rule 'median'"):
            AveragingPlan(3, wait_in=folder, second_average_without=without, rule=RULES["median"])


def test_a_second_average_is_by_the_same_rule_and_none_of_too_few_sites() -> None:
    for without, expected in ((frozenset(), [3.0, 16 / 3]), (frozenset("a"), [3.5, 3.0]), (frozenset("abc"), None)):
        plan = AveragingPlan(5, second_average_without=without, rule=RULES["trimmed_mean"])
        average = RoundAverage(SentModel(1, state([0.0, 0.0]), BLOCK_OF), plan)
        for site, params in of_yin().items():
            assert average.refuse_or_accept(site, params, 7, 1) is None
        average.result()
        second = average.second_average()
        assert (second and second["w"].tolist()) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_update_that_is_scaled_down_counts_so_in_every_rule(rule: AggregationSettings, tmp_path: Path) -> None:
    """All five have 10 in both groups, of which only a tenth counts in one of them, with θ = 0."""
    reference = {"w": torch.zeros(2), "b": torch.zeros(2)}
    groups = {"w": "block/weights", "b": "block/biases"}
    average = RoundAverage(
        SentModel(1, reference, dict.fromkeys(reference, "block"), groups),
        AveragingPlan(5, wait_in=tmp_path / "waiting", rule=rule),
    )
    for site in "abcde":
        assert average.refuse_or_accept(site, {name: torch.full((2,), 10.0) for name in reference}, 1, 1) is None
    average.weigh(None, {site: {"block/weights": 1.0, "block/biases": 0.1} for site in "abcde"})
    result = average.result()
    torch.testing.assert_close(result["w"], torch.full((2,), 10.0))
    torch.testing.assert_close(result["b"], torch.full((2,), 1.0))
