"""The curve of a site that hides single patients: a few bounded numbers with noise on them, and the curve from these.

A level of a curve may be anything up to 6, and 97 levels with noise for that are of no use with fewer than thousands of
patients. A curve is smooth, though, and lies around 1. A patient's departure from 1 is described by twelve cosines, and
is cut to a length. Cutting changes how strong it is, not where it has its boundary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Floats
from ...outbound.private_statistics import PatientVectors
from .alignment import Template
from .curves import LARGEST_CHANGE, LEVELS
from .estimation import MeasuredCurves, SiteCurves
from .interval import places_of_draws
from .thresholds import THRESHOLDS

# Cosines that describe a curve: waves of 4 pixels and longer. The field's length in `auto` is by these.
NUM_COSINES = 12

_PLACES = np.arange(len(LEVELS)) + 0.5
_COSINES = math.sqrt(2 / len(LEVELS)) * np.cos(np.pi * np.outer(np.arange(1, NUM_COSINES + 1), _PLACES) / len(LEVELS))


def patient_vectors(measured: Sequence[MeasuredCurves | None], patients: Sequence[str]) -> PatientVectors:
    """Return what the noisy curves of a site are the means of; it stays at the site.

    A patient counts as the mean of its cases' curves. All patients of the site count, whether they have a curve or not:
    how many have one is hidden, too.

    Args:
        measured: the curves of each class.
        patients: of every case of the site.
    """
    names = sorted(set(patients))
    vectors = np.full((len(names), len(measured), NUM_COSINES), np.nan)
    for index, of_class in enumerate(measured):
        if of_class is None:
            continue
        of_cases = np.stack([_vector(curve) for curve in of_class.curves])
        for place, name in enumerate(names):
            own = [patient == name for patient in of_class.patients]
            if any(own):
                vectors[place, index] = of_cases[own].mean(axis=0)
    return PatientVectors.of_patients(vectors)


def noisy_site_curves(values: Sequence[float], noises: Sequence[float], patients: int, unit: float) -> SiteCurves:
    """Return the curves of a site from what it sends with noise.

    A class with too few patients, or too much noise, has none.

    Args:
        values: of each class the part of the patients with a curve, and the mean of their vectors over all patients.
        noises: standard deviation of the noise in each of them.
        patients: of the site.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
    """
    of_classes = np.reshape(values, (-1, NUM_COSINES + 1)), np.reshape(noises, (-1, NUM_COSINES + 1))
    found = [_noisy_curve(value, noise, patients) for value, noise in zip(*of_classes, strict=True)]
    return SiteCurves(
        np.stack([one.curve for one in found]),
        tuple(one.patients for one in found),
        unit,
        tuple(one.noise for one in found),
    )


def errors_with_noise(
    measured: Mapping[str, SiteCurves],
    templates: Mapping[str, Sequence[Template | None]],
    errors: Mapping[str, Sequence[float]],
) -> dict[str, list[float]]:
    """Return by site and class the standard errors of boundary biases with what noise adds, in pixels.

    A site that hides its patients is not asked for its own. The noise of others is in a site's template, as their mean.

    Args:
        measured: the curves of all sites, with what is known of their noise.
        templates: by site and class that of the others.
        errors: by site and class what sites that hide no patients say of theirs.
    """
    return {
        site: [
            _error_with_noise(measured, site, index, template, errors.get(site))
            for index, template in enumerate(templates[site])
        ]
        for site, curves in measured.items()
        if site in errors or curves.noise
    }


def _error_with_noise(
    measured: Mapping[str, SiteCurves],
    site: str,
    index: int,
    template: Template | None,
    errors: Sequence[float] | None,
) -> float:
    curves = measured[site]
    others = [of.noise[index] if of.noise else 0.0 for name, of in measured.items() if name != site and of.has(index)]
    of_template = math.sqrt(sum(noise**2 for noise in others)) / max(len(others), 1)
    own = curves.noise[index] if curves.noise else 0.0
    noise, curve, seed = math.hypot(own, of_template), curves.curves[index], index
    if curves.noise:
        return noisy_standard_error(curve, noise, curves.patients[index], template, seed=seed)
    if errors is None or not np.isfinite(curve).any():
        return math.inf
    return math.hypot(errors[index], noise_error(curve, noise, template, seed=seed))


def noise_error(curve: Floats, noise: float, template: Template | None, *, seed: int) -> float:
    """Return the standard error of a boundary bias by noise, in pixels: noise as strong is drawn again and added.

    Args:
        curve: of the site ``(97,)``.
        noise: standard deviation of the noise in each cosine, of site and template together.
        template: of the other sites; None of a site alone.
        seed: decides the draws.
    """
    if noise == 0:
        return 0.0
    generator = np.random.default_rng(seed)
    drawn = noise * generator.standard_normal((THRESHOLDS.bootstrap_draws, NUM_COSINES))
    return float(places_of_draws(curve + drawn @ _COSINES, template).std())


def noisy_standard_error(curve: Floats, noise: float, patients: int, template: Template | None, *, seed: int) -> float:
    """Return the standard error of the bias of a site that hides its patients, in pixels.

    It has the error by noise, and that by patients who spread as much as they do at worst: by how much they spread is
    not asked. It is infinite where there is none.

    Args:
        curve: see :func:`noise_error`, as the others.
        noise: of site and template.
        patients: with a curve.
        template: of the other sites.
        seed: decides the draws.
    """
    if patients < 2 or not np.isfinite(curve).any():
        return math.inf
    of_patients = THRESHOLDS.spread_of_hidden_patients / math.sqrt(patients)
    return math.hypot(of_patients, noise_error(curve, noise, template, seed=seed))


@dataclass(frozen=True)
class _NoisyCurve:
    curve: Floats
    noise: float
    patients: int


def _noisy_curve(values: Floats, noises: Floats, patients: int) -> _NoisyCurve:
    """The curve of those patients that have one; their number is lower by a deviation of its noise."""
    absent = _NoisyCurve(np.full(len(LEVELS), np.nan), 0.0, 0)
    if not (np.isfinite(values).all() and np.isfinite(noises).all()):
        return absent
    part = float(np.clip(values[0], 0.0, 1.0))
    at_least = math.floor(patients * max(part - float(noises[0]), 0.0))
    if at_least < THRESHOLDS.min_hidden_patients:
        return absent
    noise = float(noises[1:].max()) / part
    if noise > THRESHOLDS.max_hidden_noise:
        return absent
    curve = np.clip(1.0 + (values[1:] / part) @ _COSINES, 0.0, LARGEST_CHANGE)
    return _NoisyCurve(curve, noise, at_least)


def _vector(curve: Floats) -> Floats:
    """The cosines of a case's curve; levels without a value have that of the nearest one."""
    known = np.flatnonzero(np.isfinite(curve))
    if not len(known):
        return np.full(NUM_COSINES, np.nan)
    result: Floats = _COSINES @ (np.interp(np.arange(len(LEVELS)), known, curve[known]) - 1.0)
    return result
