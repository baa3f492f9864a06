"""Curves of sites that hide single patients: by hand, their intervals by many draws, and that noise shows no bias."""

import math

import numpy as np
import pytest

from fedannot.custom.annotation_bias.profile.alignment import align
from fedannot.custom.annotation_bias.profile.curves import LEVELS, site_curve
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.estimation import MeasuredCurves, SiteCurves
from fedannot.custom.annotation_bias.profile.interval import half_width
from fedannot.custom.annotation_bias.profile.noisy_curves import (
    NUM_COSINES,
    errors_with_noise,
    noise_error,
    noisy_site_curves,
    noisy_standard_error,
    patient_vectors,
)
from fedannot.custom.methods.auto.outbound import LARGEST_DEPARTURE, VECTOR_ENTRIES
from fedannot.custom.outbound.private_statistics import noise_deviations, private_report


def peak(place, height=2.0):
    """A smooth curve of mean 1 with its largest change at a level."""
    curve = 0.6 + height * np.exp(-0.5 * ((LEVELS - place) / 1.5) ** 2)
    return curve / curve.mean()


def site_of(bias, patients, generator, spread=1.0):
    """The curves of a site that annotates too large: the boundary lies inside of its contours."""
    return np.stack([peak(-bias + spread * generator.standard_normal()) for _ in range(patients)])


def measured_of(curves, names=None):
    return MeasuredCurves(curves, tuple(names or [f"{n:03}" for n in range(len(curves))]), tuple(range(len(curves))))


def sent(curves, noise, generator, *, patients=None):
    names = [f"{number:03}" for number in range(patients or len(curves))]
    samples = {"v": patient_vectors([measured_of(curves, names[: len(curves)])], names)}
    given, bound = {"v": [0.0] * VECTOR_ENTRIES}, {"v": LARGEST_DEPARTURE}
    report = private_report(given, samples, bound, noise_multiplier=noise, random_bytes=generator.bytes)
    noises = noise_deviations(given, samples, bound, noise_multiplier=noise)
    return noisy_site_curves(report["v"], noises["v"], len(names), 1.0)


def test_the_field_has_a_part_and_the_cosines():
    assert VECTOR_ENTRIES == NUM_COSINES + 1


def test_a_patient_is_the_mean_of_its_cases_and_one_without_a_curve_counts_as_none():
    curves = np.stack([peak(0.0), peak(2.0), peak(-3.0)])
    samples = patient_vectors([measured_of(curves, ["a", "a", "b"]), None], ["a", "a", "b", "c"])
    assert samples.values.shape == (3, 2 * VECTOR_ENTRIES)
    assert samples.values[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert samples.values[:, VECTOR_ENTRIES:].tolist() == np.zeros((3, VECTOR_ENTRIES)).tolist()
    alone = patient_vectors([measured_of(curves[:2], ["a", "b"])], ["a", "b"])
    assert samples.values[0, 1:VECTOR_ENTRIES] == pytest.approx(alone.values[:, 1:].mean(axis=0))


def test_twelve_cosines_are_the_curve():
    curve = peak(1.0, height=0.5)
    samples = patient_vectors([measured_of(curve[None], ["a"])], ["a"])
    values = [samples.bounded(entry, LARGEST_DEPARTURE) for entry in range(VECTOR_ENTRIES)]
    result = noisy_site_curves(values, [0.0] * VECTOR_ENTRIES, 10, 2.0)
    assert result.curves[0] == pytest.approx(curve, abs=0.02)
    assert (result.patients, result.unit, result.noise) == ((10,), 2.0, (0.0,))


def test_the_curve_is_that_of_those_who_have_one():
    """Half of the patients have none: the rest of the curve is as strong, the noise twice as large."""
    generator = np.random.default_rng(0)
    curves = np.stack([peak(1.0)] * 40)
    whole, half = sent(curves, 1e-6, generator), sent(curves, 1e-6, generator, patients=80)
    assert half.curves[0] == pytest.approx(whole.curves[0], abs=1e-3)
    assert half.patients[0] == pytest.approx(40, abs=1)
    assert half.noise[0] == pytest.approx(whole.noise[0], rel=1e-3)
    # Cut to a length of 3: less than 97 levels' root mean square of 1 / 3.
    assert np.sqrt(np.mean((whole.curves[0] - 1) ** 2)) == pytest.approx(3 / math.sqrt(97), rel=0.01)


def test_a_class_with_too_few_patients_has_no_curve():
    generator = np.random.default_rng(0)
    assert not sent(np.stack([peak(0.0)] * 2), 1e-6, generator, patients=50).has(0)
    assert not noisy_site_curves([math.nan] * VECTOR_ENTRIES, [math.nan] * VECTOR_ENTRIES, 50, 1.0).has(0)
    assert not sent(np.stack([peak(0.0)] * 20), 30.0, generator).has(0)


def test_moved_contours_move_a_curve():
    curves = SiteCurves(np.stack([peak(-3.0), peak(0.0)]), (5, 5), 2.0)
    moved = curves.moved([4.0, 0.0])
    assert moved.curves[0] == pytest.approx(peak(-1.0), abs=1e-3)
    assert moved.curves[1] == pytest.approx(curves.curves[1])
    assert curves.moved([0.0, 0.0]) is curves


def federation(noise, generator, *, patients=60, biases=(3.0, -2.0, 0.0, 1.0, -3.0), spread=1.0, draw=site_of):
    """The estimates of sites that all hide their patients."""
    sites = [draw(bias, patients, generator, spread) for bias in biases]
    measured = {f"{k}": sent(curves, noise, generator) for k, curves in enumerate(sites)}
    names = [site for site, of in measured.items() if of.has(0)]
    alignment = align(np.stack([measured[site].curves[0] for site in names]))
    templates = {site: [template] for site, template in zip(names, alignment.templates, strict=True)}
    errors = errors_with_noise({site: measured[site] for site in names}, templates, {})
    for place, site in enumerate(names):
        of, error = measured[site], errors[site][0]
        half = half_width(error, of.patients[0], is_alone=False)
        correlation = float(alignment.correlations[place])
        found = ProfileEstimate(
            of.patients[0], float(alignment.biases[place]), error, half, 1.0, alignment.prominence, correlation
        )
        yield found, biases[int(site)]


@pytest.mark.parametrize(("noise", "known_at_least"), [(0.5, 0.9), (1.5, 0.3)])
def test_intervals_have_the_noise_in_them(noise, known_at_least):
    """Whole sites drawn again, with noise as the filter gives it: at least nine of ten intervals hold the truth."""
    generator = np.random.default_rng(100)
    results = [result for _ in range(4) for result in federation(noise, generator)]
    common = np.median([found.bias - true for found, true in results])
    known = [(found, true) for found, true in results if found.is_known]
    assert len(known) >= known_at_least * len(results)
    assert np.mean([abs(found.bias - true - common) <= found.half_width for found, true in known]) >= 0.9
    assert all(abs(found.bias - true - common) <= 1.0 for found, true in known)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_noise_shows_no_boundary(noise):
    """Curves without any: twelve cosines of noise always fit each other somewhere. Nothing is known all the same."""

    def flat(bias, patients, generator, spread):
        del bias, spread
        return 1 + 0.02 * generator.standard_normal((patients, len(LEVELS)))

    generator = np.random.default_rng(100)
    results = [found for _ in range(2) for found, _ in federation(noise, generator, draw=flat)]
    assert results
    assert not any(found.is_known for found in results)


def test_the_error_by_noise_is_that_of_curves_drawn_again():
    generator = np.random.default_rng(0)
    others = align(np.stack([site_curve(site_of(0.0, 40, generator)) for _ in range(3)])).templates[0]
    curve, noise = site_curve(site_of(1.0, 200, generator)), 0.2
    said = noise_error(curve, noise, others, seed=0)
    again = [noise_error(curve, noise, others, seed=seed) for seed in range(1, 5)]
    assert said == pytest.approx(np.mean(again), rel=0.2)
    assert noise_error(curve, 0.5 * noise, others, seed=0) < said
    assert noise_error(curve, 0.0, others, seed=0) == 0.0


def test_by_how_much_patients_spread_is_not_asked():
    curve = peak(0.0)
    assert noisy_standard_error(curve, 0.0, 16, None, seed=0) == pytest.approx(2.0 / 4)
    assert noisy_standard_error(curve, 0.0, 1, None, seed=0) == math.inf
    assert noisy_standard_error(np.full(97, np.nan), 0.0, 16, None, seed=0) == math.inf


def test_noise_of_others_widens_the_interval_of_a_site_that_hides_nobody():
    generator = np.random.default_rng(0)
    curves = [site_of(0.0, 40, generator) for _ in range(3)]
    exact = SiteCurves(site_curve(curves[0])[None], (40,), 1.0)
    measured = {"a": exact, "b": sent(curves[1], 3.0, generator), "c": sent(curves[2], 3.0, generator)}
    alignment = align(np.stack([of.curves[0] for of in measured.values()]))
    templates = {site: [template] for site, template in zip("abc", alignment.templates, strict=True)}
    errors = errors_with_noise(measured, templates, {"a": [0.1]})
    assert errors["a"][0] > 0.12
    # Who says nothing has no error, unless it hides its patients.
    assert set(errors_with_noise(measured, templates, {})) == {"b", "c"}
