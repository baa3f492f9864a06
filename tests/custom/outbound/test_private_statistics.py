"""Noise that hides a patient: bounds by hand, sensitivity by brute force, deviation by many draws."""

import math

import numpy as np
import pytest

from fedannot.custom.outbound.private_statistics import (
    PatientVectors,
    SampleValues,
    noise_deviations,
    private_report,
)

NAN = math.nan


def slices(is_mean=True):
    """Three patients with three, one and two slices; the second class is in one slice of each of two patients."""
    values = [[1.0, NAN], [2.0, 4.0], [9.0, NAN], [0.5, NAN], [3.0, 2.0], [1.5, NAN]]
    return SampleValues.of(values, ["a", "a", "a", "b", "c", "c"], is_mean=is_mean)


def test_bounded_means_and_sums_by_hand():
    assert slices().bounded(0, 5.0) == pytest.approx((1 + 2 + 5 + 0.5 + 3 + 1.5) / 6)
    assert slices().bounded(1, 3.0) == pytest.approx((3 + 2) / 2)
    assert slices(is_mean=False).bounded(0, 2.0) == pytest.approx(1 + 2 + 2 + 0.5 + 2 + 1.5)


def test_the_patient_with_most_samples_decides_the_sensitivity():
    assert slices().sensitivity(0, 5.0) == pytest.approx(5.0 * 3 / 6)
    assert slices().sensitivity(1, 5.0) == pytest.approx(5.0 * 1 / 2)
    assert slices(is_mean=False).sensitivity(0, 5.0) == pytest.approx(15.0)


def test_signed_values_are_bounded_on_both_sides_and_one_can_change_twice_as_much():
    given = SampleValues.of([[-9.0], [1.0], [3.0], [-2.0]], list("abcd"), is_mean=True, is_signed=True)
    assert given.bounded(0, 2.0) == pytest.approx((-2 + 1 + 2 - 2) / 4)
    assert given.sensitivity(0, 2.0) == pytest.approx(2 * 2.0 / 4)
    ends = []
    for replacement in (-50.0, 50.0):
        other = given.values.copy()
        other[0] = replacement
        ends.append(SampleValues.of(other, list("abcd"), is_mean=True, is_signed=True).bounded(0, 2.0))
    assert ends[1] - ends[0] == pytest.approx(given.sensitivity(0, 2.0))
    result = draws({"d": [0.0]}, {"d": given}, {"d": 2.0}, number=200, noise_multiplier=3.0)
    assert min(item["d"][0] for item in result) == -2.0
    assert max(item["d"][0] for item in result) == 2.0


@pytest.mark.parametrize("is_mean", [True, False])
def test_no_patient_changes_a_value_by_more_and_one_can_by_as_much(is_mean):
    """Every patient's values are replaced by the extremes and by random ones, by brute force."""
    rng = np.random.default_rng(0)
    units = rng.integers(0, 5, size=14).astype(str)
    values = rng.uniform(-1, 8, size=(14, 1))
    given = SampleValues.of(values, units, is_mean=is_mean)
    largest_change = 0.0
    for unit in set(units):
        own = units == unit
        ends = []
        for replacement in [-5.0, 100.0, *rng.uniform(-1, 8, size=(20, own.sum(), 1))]:
            other = values.copy()
            other[own] = replacement
            ends.append(SampleValues.of(other, units, is_mean=is_mean).bounded(0, 4.0))
        largest_change = max(largest_change, max(ends) - min(ends))
    assert largest_change == pytest.approx(given.sensitivity(0, 4.0))


def draws(report, samples, largest, number=4000, noise_multiplier=0.7):
    source = np.random.default_rng(1).bytes
    return [
        private_report(report, samples, largest, noise_multiplier=noise_multiplier, random_bytes=source)
        for _ in range(number)
    ]


def test_the_noise_of_every_entry_has_its_deviation():
    """Three entries: σ √3 Δ of each; the bounds are far away, so that nothing is cut."""
    rng = np.random.default_rng(2)
    units = [f"patient {number}" for number in range(400)]
    first, second = rng.uniform(4, 6, size=(400, 2)), rng.uniform(40, 60, size=400)
    samples = {
        "d": SampleValues.of(first, units, is_mean=True),
        "n": SampleValues.of(second, units, is_mean=False),
    }
    report = {"d": first.mean(axis=0).tolist(), "n": float(second.sum()), "num_samples": 400}
    result = draws(report, samples, {"d": 10.0, "n": 100.0})
    assert all(entry["num_samples"] == 400 for entry in result)
    for entry in (0, 1):
        drawn = np.array([item["d"][entry] for item in result])
        deviation = 0.7 * math.sqrt(3) * 10.0 / 400
        assert drawn.std() == pytest.approx(deviation, rel=5 / math.sqrt(2 * 4000))
        assert drawn.mean() == pytest.approx(first[:, entry].mean(), abs=5 * deviation / math.sqrt(4000))
    assert np.std([item["n"] for item in result]) == pytest.approx(0.7 * math.sqrt(3) * 100.0, rel=5 / math.sqrt(8000))


def test_the_deviation_of_the_noise_is_known_entry_by_entry():
    samples = {
        "d": SampleValues.of(np.full((50, 2), 5.0), range(50), is_mean=True),
        "n": SampleValues.of(np.full(50, 2.0), range(50), is_mean=False),
    }
    result = noise_deviations({"d": [5.0, NAN], "n": 100.0}, samples, {"d": 10.0, "n": 4.0}, noise_multiplier=0.7)
    assert result["d"] == [pytest.approx(0.7 * math.sqrt(2) * 10.0 / 50, rel=1e-5), pytest.approx(NAN, nan_ok=True)]
    assert result["n"] == [pytest.approx(0.7 * math.sqrt(2) * 4.0, rel=1e-5)]


def test_what_is_withheld_stays_so_and_costs_no_noise():
    """With one entry left the noise is σ Δ."""
    values = np.column_stack([np.full(50, 5.0), np.full(50, 5.0)])
    samples = {"d": SampleValues.of(values, range(50), is_mean=True)}
    result = draws({"d": [5.0, NAN]}, samples, {"d": 10.0})
    assert all(math.isnan(item["d"][1]) for item in result)
    assert np.std([item["d"][0] for item in result]) == pytest.approx(0.7 * 10.0 / 50, rel=5 / math.sqrt(8000))


def test_counts_stay_counts_and_means_within_their_bounds():
    samples = {
        "n": SampleValues.of([1, 0, 1], list("abc"), is_mean=False),
        "share": SampleValues.of([True, True, False], list("abc"), is_mean=True),
    }
    result = draws({"n": 2, "share": 2 / 3}, samples, {"n": 20.0, "share": 1.0}, number=200, noise_multiplier=3.0)
    assert all(isinstance(item["n"], int) and item["n"] >= 0 for item in result)
    assert all(isinstance(item["share"], float) and 0 <= item["share"] <= 1 for item in result)
    assert len({item["n"] for item in result}) > 20


def test_a_site_without_a_sample_has_no_noise():
    samples = {"d": SampleValues.of(np.zeros((0, 2)), [], is_mean=True)}
    (result,) = draws({"d": [NAN, NAN]}, samples, {"d": 5.0}, number=1)
    assert all(map(math.isnan, result["d"]))


def test_sums_of_value_and_noise_lie_on_a_grid():
    """The deviation is 2 · 4 / 100, a bit more for rounding; the cell 2⁻¹²."""
    samples = {"d": SampleValues.of(np.random.default_rng(0).uniform(1, 3, 100), range(100), is_mean=True)}
    report = {"d": float(samples["d"].values.mean())}
    result = {item["d"] for item in draws(report, samples, {"d": 4.0}, number=200, noise_multiplier=2.0)}
    assert all((value * 2.0**12).is_integer() for value in result)
    assert len(result) > 50


def test_the_noise_is_the_systems_where_no_source_is_given():
    samples = {"d": SampleValues.of(np.full(100, 2.0), range(100), is_mean=True)}
    result = {private_report({"d": 2.0}, samples, {"d": 4.0}, noise_multiplier=20.0)["d"] for _ in range(20)}
    assert len(result) > 10


@pytest.mark.parametrize(("infinite", "bound"), [(math.inf, 4.0), (-math.inf, 0.0)])
def test_infinite_samples_count_as_their_bound(infinite, bound):
    """One patient's overflow neither holds an estimate back nor is another result than the bound's."""
    sent = [
        private_report(
            {"d": [float(np.mean([1.0, 1.0, value]))]},
            {"d": SampleValues.of([1.0, 1.0, value], list("abc"), is_mean=True)},
            {"d": 4.0},
            noise_multiplier=0.5,
            random_bytes=np.random.default_rng(5).bytes,
        )
        for value in (infinite, bound)
    ]
    assert sent[0] == sent[1]


def test_an_entry_without_a_sample_is_refused():
    samples = {"d": SampleValues.of([[1.0, NAN]] * 3, list("abc"), is_mean=True)}
    with pytest.raises(ValueError, match="Expected samples of every entry of 'd' that is not withheld"):
        private_report({"d": [1.0, 1.0]}, samples, {"d": 4.0}, noise_multiplier=1.0)


def test_samples_of_other_entries_are_refused():
    samples = {"d": SampleValues.of([1.0, 1.0, 1.0], list("abc"), is_mean=True)}
    with pytest.raises(ValueError, match="Expected samples of 2 entries of 'd', but got those of 1"):
        private_report({"d": [1.0, 1.0]}, samples, {"d": 4.0}, noise_multiplier=1.0)


# --- vectors that are cut to a length


def sent_mean(vectors, bound):
    """The whole field of patients' vectors, without noise."""
    made = PatientVectors.of_patients(vectors)
    return np.array([made.bounded(entry, bound) for entry in range(made.values.shape[1])])


def test_vectors_are_cut_to_a_length_and_who_has_none_counts_as_zero():
    """Two groups of two entries: (3, 4) becomes (1.2, 1.6); a patient without a vector still counts."""
    vectors = np.array([[[3.0, 4.0], [0.5, 0.0]], [[1.0, 0.0], [NAN, NAN]]])
    assert sent_mean(vectors, 2.0) == pytest.approx([1.0, 1.1, 0.8, 0.5, 0.25, 0.0])


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-308, math.inf, -math.inf, NAN, 0.0, 7.0])
def test_no_vector_is_longer_than_its_bound_or_not_finite(value):
    for vector in ([value, value, value], [value, 0.0, 1.0], [1.0, 2.0, -value]):
        part, *mean = sent_mean(np.array([[vector]]), 3.0)
        assert part in (0.0, 1.0)
        assert np.linalg.norm(mean) <= 3.0 * (1 + 1e-12)


@pytest.mark.parametrize("groups", [1, 3])
def test_no_patient_changes_vectors_by_more_than_the_noise_is_made_for(groups):
    """A patient's vectors are replaced by extremes and random ones, by brute force.

    With the deviation σ √M Δ_j in entry j, one Gaussian mechanism with μ = 1 / σ bears Σ (change_j / Δ_j)² ≤ M.
    """
    rng = np.random.default_rng(0)
    vectors = 4 * rng.standard_normal((7, groups, 5))
    vectors[1, 0], vectors[4, -1] = NAN, NAN
    made = PatientVectors.of_patients(vectors)
    number = made.values.shape[1]
    sensitivities = np.array([made.sensitivity(entry, 3.0) for entry in range(number)])
    assert noise_deviations({"v": [0.0] * number}, {"v": made}, {"v": 3.0}, noise_multiplier=0.5)["v"] == pytest.approx(
        (0.5 * math.sqrt(number) * sensitivities).tolist(), rel=1e-5
    )
    along = np.zeros((groups, 5))
    along[:, 2] = 1e9
    replacements = [along, -along, np.full((groups, 5), NAN), np.zeros((groups, 5))]
    replacements += [scale * rng.standard_normal((groups, 5)) for scale in (0.1, 1, 10) for _ in range(20)]
    fields = []
    for replacement in replacements:
        other = vectors.copy()
        other[2] = replacement
        fields.append(sent_mean(other, 3.0) / sensitivities)
    changes = [np.sum((one - other) ** 2) for one in fields for other in fields]
    assert max(changes) <= number * (1 + 1e-9)
    # A vector in place of its opposite changes as much as anybody can; one in place of none no more.
    assert changes[1] == pytest.approx(number)
    assert np.sum((fields[0] - fields[2]) ** 2) == pytest.approx(number)


def test_the_noise_in_vectors_has_its_deviation_and_nothing_is_cut_off():
    made, number = PatientVectors.of_patients(np.full((20, 1, 3), 0.5)), 1000
    result = np.array(
        [item["v"] for item in draws({"v": [0.0] * 4}, {"v": made}, {"v": 3.0}, number, noise_multiplier=8.0)]
    )
    # σ 2 · 3 / 20 in each of three entries; the part of the patients counts √3 · 3 times.
    expected = np.array([8.0 * 2 * 3 / 20 / (math.sqrt(3) * 3)] + [8.0 * 2 * 3 / 20] * 3)
    assert result.std(axis=0) == pytest.approx(expected, rel=5 / math.sqrt(2 * number))
    assert result.mean(axis=0) == pytest.approx([1.0, 0.5, 0.5, 0.5], abs=5 * expected.max() / math.sqrt(number))
    assert result[:, 1].max() > 3.0
