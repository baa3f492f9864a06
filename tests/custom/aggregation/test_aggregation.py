"""The streaming average against float64 NumPy averages and hand-worked cases."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_records import in_words

from fedannot.custom.aggregation.streaming_average import StreamingAverage, refusal_reason

HALF_UNIT = 2.0**-24  # relative error of rounding to float32
BLOCK_OF = {"stem.weight": "stem", "stem.bias": "stem", "head.weight": "head", "head.counter": "head"}
BLOCK_OF_STEM = {"stem.weight": "stem"}
BLOCKS = ("stem", "head")


def random_state(generator, scale=1.0, counter=0):
    """Entries of several magnitudes in two blocks, and an integer counter."""
    return {
        "stem.weight": torch.from_numpy((scale * generator.normal(size=(4, 3, 3))).astype(np.float32)),
        "stem.bias": torch.from_numpy((1e-3 * scale * generator.normal(size=4)).astype(np.float32)),
        "head.weight": torch.from_numpy((50 * scale * generator.normal(size=(2, 4))).astype(np.float32)),
        "head.counter": torch.tensor(counter),
    }


def random_federation(seed, num_sites, scale=1.0):
    """Reference, site states, weights that sum to one per block, and numbers of samples."""
    generator = np.random.default_rng(seed)
    names = [f"site-{number}" for number in range(1, num_sites + 1)]
    reference = random_state(generator, scale)
    states = {name: random_state(generator, scale, counter=number) for number, name in enumerate(names)}
    shares = generator.dirichlet(np.ones(num_sites), size=len(BLOCKS))
    weights = {name: dict(zip(BLOCKS, shares[:, number].tolist(), strict=True)) for number, name in enumerate(names)}
    counts = {name: int(generator.integers(1, 40)) for name in names}
    return reference, states, weights, counts


def streamed(reference, states, weights, counts, order=None, bound=1.0):
    average = StreamingAverage(reference, {name: BLOCK_OF[name] for name in reference}, total_weight_bound=bound)
    for site in order or states:
        average.add(site, states[site], weights[site], counts[site])
    return average.result()


def numpy_average(states, weights, entry):
    """Σ w θ / Σ w in float64."""
    total = sum(weights[site][BLOCK_OF[entry]] for site in states)
    parts = (weights[site][BLOCK_OF[entry]] * states[site][entry].numpy().astype(np.float64) for site in states)
    return sum(parts) / total


def same_bits(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("num_sites", [2, 5, 20])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_average_equals_the_float64_average_within_float32_rounding(num_sites, scale):
    reference, states, weights, counts = random_federation(num_sites, num_sites, scale)
    result = streamed(reference, states, weights, counts)
    for entry in ("stem.weight", "stem.bias", "head.weight"):
        expected = numpy_average(states, weights, entry)
        # Rounding to float32, and the fixed-point step: half a unit of 2^-40 of the range is far below it.
        allowed = 1.001 * HALF_UNIT * np.abs(expected) + 2.0**-40 * max(1.0, float(reference[entry].abs().max()))
        assert result[entry].dtype == torch.float32
        assert (np.abs(result[entry].numpy() - expected) <= allowed).all()


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), num_sites=st.integers(2, 4), scale=st.sampled_from([1e-8, 1e-2, 1.0, 1e3]))
def test_order_of_arrival_changes_no_bit(seed, num_sites, scale):
    reference, states, weights, counts = random_federation(seed, num_sites, scale)
    first = streamed(reference, states, weights, counts)
    for order in itertools.permutations(states):
        assert same_bits(streamed(reference, states, weights, counts, order), first)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), weight=st.floats(1e-3, 1.0))
def test_one_site_keeps_its_values_whatever_its_weight(seed, weight):
    reference, states, _, counts = random_federation(seed, 1)
    result = streamed(reference, states, {"site-1": dict.fromkeys(BLOCKS, weight)}, counts)
    for entry in ("stem.weight", "stem.bias", "head.weight"):
        allowed = 2.0**-40 * max(1.0, float(reference[entry].abs().max()))
        torch.testing.assert_close(result[entry], states["site-1"][entry], rtol=2 * HALF_UNIT, atol=allowed)
    assert torch.equal(result["head.counter"], states["site-1"]["head.counter"])


def test_one_site_with_all_the_weight_keeps_every_bit():
    reference, states, _, counts = random_federation(3, 1)
    large = {
        name: tensor.where(tensor.abs() > 2.0**-20, torch.ones_like(tensor))
        for name, tensor in states["site-1"].items()
    }
    assert same_bits(streamed(reference, {"site-1": large}, {"site-1": dict.fromkeys(BLOCKS, 1.0)}, counts), large)


def test_identical_sites_average_to_themselves():
    reference, states, weights, counts = random_federation(4, 6)
    states = dict.fromkeys(states, states["site-1"])
    result = streamed(reference, states, weights, counts)
    for entry in ("stem.weight", "stem.bias", "head.weight"):
        allowed = 2.0**-40 * max(1.0, float(reference[entry].abs().max()))
        torch.testing.assert_close(result[entry], states["site-1"][entry], rtol=2 * HALF_UNIT, atol=allowed)


def test_hand_worked_example_with_a_weight_per_block():
    reference = {"stem.weight": torch.zeros(2), "head.weight": torch.zeros(1, 2)}
    states = {
        "a": {"stem.weight": torch.tensor([1.0, 2.0]), "head.weight": torch.tensor([[10.0, -4.0]])},
        "b": {"stem.weight": torch.tensor([5.0, -2.0]), "head.weight": torch.tensor([[20.0, 8.0]])},
    }
    weights = {"a": {"stem": 0.25, "head": 0.5}, "b": {"stem": 0.75, "head": 0.5}}
    result = streamed(reference, states, weights, {"a": 1, "b": 1})
    assert result["stem.weight"].tolist() == [4.0, -1.0]  # 1/4 · 1 + 3/4 · 5 and 1/4 · 2 - 3/4 · 2
    assert result["head.weight"].tolist() == [[15.0, 2.0]]


def test_missing_site_is_left_out_and_the_others_weights_renormalised():
    reference, states, weights, counts = random_federation(5, 4)
    present = {site: states[site] for site in ("site-1", "site-3")}
    result = streamed(reference, present, weights, counts)
    for entry in ("stem.weight", "head.weight"):
        first, third = (weights[site][BLOCK_OF[entry]] for site in ("site-1", "site-3"))
        expected = (first * states["site-1"][entry].double() + third * states["site-3"][entry].double()) / (
            first + third
        )
        torch.testing.assert_close(result[entry].double(), expected, rtol=2 * HALF_UNIT, atol=1e-10)


def test_block_without_any_weight_keeps_the_reference():
    reference, states, weights, counts = random_federation(6, 3)
    weights = {site: {"stem": share["stem"], "head": 0.0} for site, share in weights.items()}
    result = streamed(reference, states, weights, counts)
    assert torch.equal(result["head.weight"], reference["head.weight"])
    assert not torch.equal(result["stem.weight"], reference["stem.weight"])


@pytest.mark.parametrize(("counts", "expected"), [((5, 9, 9), 1), ((9, 5, 9), 0), ((1, 2, 3), 2), ((7, 7, 7), 0)])
def test_integer_buffers_come_from_the_largest_site_and_then_the_first_by_name(counts, expected):
    reference, states, weights, _ = random_federation(7, 3)
    samples = dict(zip(states, counts, strict=True))
    for order in itertools.permutations(states):
        counter = streamed(reference, states, weights, samples, order)["head.counter"]
        assert counter.item() == expected
        assert counter.dtype == torch.int64


def test_result_has_the_types_of_the_reference():
    reference = {
        "stem.weight": torch.zeros(3, dtype=torch.float16),
        "head.weight": torch.zeros(3, dtype=torch.float64),
        "head.counter": torch.tensor(0),
    }
    state = {
        "stem.weight": torch.ones(3, dtype=torch.float16),
        "head.weight": torch.ones(3, dtype=torch.float64),
        "head.counter": torch.tensor(4),
    }
    result = streamed(reference, {"a": state}, {"a": dict.fromkeys(BLOCKS, 1.0)}, {"a": 1})
    assert {name: tensor.dtype for name, tensor in result.items()} == {n: t.dtype for n, t in reference.items()}


def test_sample_counts_may_be_the_weights():
    reference, states, _, _ = random_federation(8, 4)
    counts = {"site-1": 1, "site-2": 2**23, "site-3": 2**22, "site-4": 2**22 - 1}  # their sum is the bound
    weights = {site: dict.fromkeys(BLOCKS, float(count)) for site, count in counts.items()}
    result = streamed(reference, states, weights, counts, bound=2.0**24)
    for entry in ("stem.weight", "head.weight"):
        expected = numpy_average(states, weights, entry)
        torch.testing.assert_close(result[entry].double().numpy(), expected, rtol=2 * HALF_UNIT, atol=1e-10)


@pytest.mark.parametrize("count", [1, 12])
def test_few_samples_as_weights_are_exact_to_the_fixed_point_step(count):
    generator = np.random.default_rng(9)
    values = generator.uniform(-1, 1, size=(3, 500))
    states = {f"site-{n}": {"stem.weight": torch.from_numpy(row)} for n, row in enumerate(values)}
    reference = {"stem.weight": torch.ones(500, dtype=torch.float64)}
    weights = {site: {"stem": float(count)} for site in states}
    result = streamed(reference, states, weights, dict.fromkeys(states, count), bound=2.0**24)
    # 62 bits less 24 of the weights and 12 of the headroom: units of 2^-26, of which every site loses half at most.
    error = result["stem.weight"].numpy() - values.mean(axis=0)
    assert np.abs(error).max() <= 0.5 * 2.0**-26 / count


def test_fixed_point_rounding_is_below_two_to_the_minus_forty_of_the_range():
    generator = np.random.default_rng(10)
    for largest in (1.0, 37.0, 1e3):
        reference = {"stem.weight": torch.full((500,), largest, dtype=torch.float64)}
        states = {
            f"site-{number}": {"stem.weight": torch.from_numpy(generator.uniform(-largest, largest, 500))}
            for number in range(50)
        }
        shares = generator.dirichlet(np.ones(50))
        weights = {site: {"stem": share} for site, share in zip(states, shares.tolist(), strict=True)}
        average = StreamingAverage(reference, {"stem.weight": "stem"})
        for site, state in states.items():
            average.add(site, state, weights[site], 1)
        error = average.result()["stem.weight"].numpy() - numpy_average(states, weights, "stem.weight")
        assert np.abs(error).max() < 2.0**-40 * largest


@pytest.mark.parametrize("magnitude", [1e-8, 1e3])
def test_tiny_and_large_values_keep_their_digits(magnitude):
    generator = np.random.default_rng(11)
    values = generator.uniform(0.5, 1.0, size=(3, 200)) * magnitude
    states = {
        f"site-{number}": {"stem.weight": torch.from_numpy(row.astype(np.float32))} for number, row in enumerate(values)
    }
    weights = {site: {"stem": 1 / 3} for site in states}
    reference = {"stem.weight": torch.full((200,), magnitude)}
    result = streamed(reference, states, weights, dict.fromkeys(states, 1))
    expected = numpy_average(states, weights, "stem.weight")
    # Beside float32's own rounding, 3 sites lose half a unit of 2^-50 each (2e-7 of 1e-8).
    assert np.abs(result["stem.weight"].numpy() / expected - 1).max() < HALF_UNIT + 3e-7


def test_sites_are_sorted_and_adding_twice_is_refused():
    reference, states, weights, counts = random_federation(12, 2)
    average = StreamingAverage(reference, BLOCK_OF)
    average.add("site-2", states["site-2"], weights["site-2"], counts["site-2"])
    average.add("site-1", states["site-1"], weights["site-1"], counts["site-1"])
    assert average.sites == ("site-1", "site-2")
    with pytest.raises(ValueError, match=r"Expected one model per site, but site-1 was added twice\."):
        average.add("site-1", states["site-1"], weights["site-1"], counts["site-1"])


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_weights_that_are_no_weights_are_refused_and_change_nothing(weight):
    reference, states, weights, counts = random_federation(13, 2)
    average = StreamingAverage(reference, BLOCK_OF)
    average.add("site-1", states["site-1"], weights["site-1"], 1)
    with pytest.raises(ValueError, match=rf"Expected finite weights >= 0, but site-2 has {weight} for block 'head'\."):
        average.add("site-2", states["site-2"], {"stem": 0.1, "head": weight}, 99)
    assert average.sites == ("site-1",)
    average.add("site-2", states["site-2"], weights["site-2"], counts["site-2"])
    assert same_bits(average.result(), streamed(reference, states, weights, {"site-1": 1, "site-2": counts["site-2"]}))


def test_weights_beyond_the_bound_are_refused():
    reference, states, _, _ = random_federation(14, 2)
    average = StreamingAverage(reference, BLOCK_OF)
    average.add("site-1", states["site-1"], {"stem": 0.5, "head": 0.75}, 1)
    with pytest.raises(ValueError, match=r"Expected weights that sum to at most 1\.0, but 'head' has 1\.25\."):
        average.add("site-2", states["site-2"], {"stem": 0.5, "head": 0.5}, 1)


def test_nothing_to_average_is_an_error():
    reference, _, _, _ = random_federation(15, 1)
    with pytest.raises(ValueError, match=r"Expected at least one model to average, but none was added\."):
        StreamingAverage(reference, BLOCK_OF).result()


def test_result_is_given_once():
    reference, states, weights, counts = random_federation(16, 2)
    average = StreamingAverage(reference, BLOCK_OF)
    average.add("site-1", states["site-1"], weights["site-1"], counts["site-1"])
    average.result()
    with pytest.raises(ValueError, match=r"Expected an average whose result has not been given, but it has\."):
        average.result()
    with pytest.raises(ValueError, match=r"Expected an average whose result has not been given, but it has\."):
        average.add("site-2", states["site-2"], weights["site-2"], counts["site-2"])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_large_entries_in_any_layout_are_averaged_in_their_places(layout):
    """More values than fit into one piece of the sum, in 2 sites whose entries lie in memory in the other order."""
    generator = torch.Generator().manual_seed(0)
    states = {name: torch.randn(64, 48, 5, 7, generator=generator) for name in ("site-1", "site-2")}
    average = StreamingAverage({"stem.weight": torch.zeros(64, 48, 5, 7)}, BLOCK_OF_STEM)
    for name, weight in (("site-1", 0.25), ("site-2", 0.75)):
        average.add(name, {"stem.weight": states[name].to(memory_format=layout)}, {"stem": weight}, 1)
    expected = 0.25 * states["site-1"].double() + 0.75 * states["site-2"].double()
    torch.testing.assert_close(average.result()["stem.weight"].double(), expected, rtol=2**-23, atol=0)


def test_aggregation_leaves_the_sites_models_and_the_reference_as_they_are():
    reference, states, weights, counts = random_federation(16, 2)
    copies = [{name: tensor.clone() for name, tensor in state.items()} for state in (reference, *states.values())]
    result = streamed(reference, states, weights, counts)
    for tensor in result.values():
        tensor.zero_()
    assert all(same_bits(a, b) for a, b in zip(copies, (reference, *states.values()), strict=True))


@pytest.mark.parametrize(("bound", "unit"), [(1.0, 2.0**-50), (2.0**24, 2.0**-26)])
@pytest.mark.parametrize("num_sites", [2, 9, 60])
def test_rounding_of_values_up_to_one_is_as_the_class_says(num_sites, bound, unit):
    generator = np.random.default_rng(num_sites)
    values = generator.uniform(-1, 1, size=(num_sites, 40))
    counts = generator.integers(1, 30, num_sites)
    total = int(counts.sum())
    shares = (counts / total if bound == 1.0 else counts.astype(float)).tolist()
    average = StreamingAverage({"stem.weight": torch.ones(40, dtype=torch.float64)}, BLOCK_OF_STEM, bound)
    for number, (row, share) in enumerate(zip(values, shares, strict=True)):
        average.add(f"site-{number}", {"stem.weight": torch.from_numpy(row)}, {"stem": share}, 1)
    result = average.result()["stem.weight"].tolist()
    for value, column in zip(result, values.T.tolist(), strict=True):
        exact = sum(int(count) * Fraction(entry) for count, entry in zip(counts, column, strict=True)) / total
        allowed = num_sites * unit / (1 if bound == 1.0 else total)
        # Beside the class's own rounding, shares and result are rounded to float64.
        assert abs(Fraction(value) - exact) < allowed + 4 * 2.0**-53


def with_entry(state, name, value):
    return state | {name: value}


REFERENCE = random_state(np.random.default_rng(17))


def test_fitting_model_is_not_refused():
    assert refusal_reason(random_state(np.random.default_rng(18)), REFERENCE) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda s: {name: s[name] for name in ("stem.weight", "head.weight")},
            "2 missing entries, e.g. 'head.counter'",
        ),
        (lambda s: with_entry(s, "extra", torch.zeros(1)), "1 unexpected entries, e.g. 'extra'"),
        (lambda s: with_entry(s, "stem.bias", np.zeros(4)), "'stem.bias' is ndarray, expected a tensor"),
        (lambda s: with_entry(s, "stem.bias", torch.zeros(5)), "'stem.bias' has shape (5,), expected (4,)"),
        (
            lambda s: with_entry(s, "stem.bias", torch.zeros(4, dtype=torch.int64)),
            "'stem.bias' has type torch.int64, expected torch.float32",
        ),
        (
            # Passes NVFlare's messages, and no sum is made of it.
            lambda s: with_entry(s, "stem.bias", torch.zeros(4, dtype=torch.float8_e5m2)),
            "'stem.bias' has type torch.float8_e5m2, expected torch.float32",
        ),
        (
            lambda s: with_entry(s, "head.counter", torch.tensor(1.0)),
            "'head.counter' has type torch.float32, expected torch.int64",
        ),
        (
            lambda s: with_entry(s, "head.counter", torch.tensor(1, dtype=torch.int32)),
            "'head.counter' has type torch.int32, expected torch.int64",
        ),
        (
            lambda s: with_entry(s, "head.counter", torch.tensor(True)),
            "'head.counter' has type torch.bool, expected torch.int64",
        ),
        (
            lambda s: with_entry(s, "stem.bias", torch.tensor([0.0, float("nan"), 0.0, 0.0])),
            "'stem.bias' has values that are not finite",
        ),
        (
            lambda s: with_entry(s, "stem.bias", torch.tensor([0.0, float("-inf"), 0.0, 0.0])),
            "'stem.bias' has values that are not finite",
        ),
        (
            lambda s: with_entry(s, "stem.bias", torch.full((4,), -5000.0)),
            "'stem.bias' has values up to 5e+03, more than 4.1e+03: training has diverged",
        ),
    ],
)
def test_model_that_cannot_be_aggregated_is_refused_with_the_reason(change, reason):
    assert in_words(refusal_reason(change(random_state(np.random.default_rng(18))), REFERENCE)) == reason


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float64])
def test_floating_entries_of_another_precision_are_accepted_and_averaged_in_the_reference_s(precision):
    halves = torch.tensor([0.5, -1.5])
    reference = {"stem.weight": torch.zeros(2)}
    state = {"stem.weight": halves.to(precision)}
    assert refusal_reason(state, reference) is None
    average = StreamingAverage(reference, BLOCK_OF_STEM)
    average.add("site-1", state, {"stem": 1.0}, 1)
    result = average.result()["stem.weight"]
    assert result.dtype == torch.float32
    assert torch.equal(result, halves)


def test_divergence_limit_is_4096_times_the_power_of_two_above_the_range():
    reference = {"w": torch.tensor([3.0])}  # range up to 4
    assert refusal_reason({"w": torch.tensor([4 * 4096.0])}, reference) is None
    assert "diverged" in in_words(refusal_reason({"w": torch.tensor([4 * 4096.0 + 1])}, reference))


def test_entries_without_elements_are_accepted():
    assert refusal_reason({"w": torch.zeros(0)}, {"w": torch.zeros(0)}) is None


def test_largest_values_that_are_accepted_do_not_overflow():
    reference = {"stem.weight": torch.tensor([1.0, -1.0])}
    state = {"stem.weight": torch.tensor([4096.0, -4096.0])}
    assert refusal_reason(state, reference) is None
    average = StreamingAverage(reference, {"stem.weight": "stem"}, total_weight_bound=2.0**24)
    for number in range(4):
        average.add(f"site-{number}", state, {"stem": 2.0**22}, 1)
    assert average.result()["stem.weight"].tolist() == [4096.0, -4096.0]


@pytest.mark.parametrize("largest", [0, 8])
def test_entries_that_are_added_in_one_row_have_the_bits_of_those_added_alone(monkeypatch, largest):
    reference, states, weights, counts = random_federation(5, num_sites=3)
    for state in states.values():
        state["stem.bias"] = state["stem.bias"].to(torch.bfloat16)
        state["head.weight"] = state["head.weight"].to(torch.float64)
    weights["site-2"]["head"] = 0.0
    expected = streamed(reference, states, weights, counts)
    monkeypatch.setattr("fedannot.custom.aggregation.streaming_average._SMALL", largest)
    assert same_bits(streamed(reference, states, weights, counts), expected)
    exact = numpy_average(
        {site: {"head.weight": state["head.weight"].to(torch.float32)} for site, state in states.items()},
        weights,
        "head.weight",
    )
    np.testing.assert_allclose(expected["head.weight"].numpy(), exact, rtol=1e-6)
