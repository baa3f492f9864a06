"""What noise that hides single patients costs boundary biases from images.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/private_profiles.py [--patients 10 20 40 80 200] [--rows busi-clean]

Federations of eight sites. A site draws its patients from all of a row's, with replacement; its clean contours are
moved by a bias of the site, from -4 to 4 pixels, and by one of the patient, of standard deviation 1. Every site sends
its curve as `StatisticsPrivacyFilter` leaves it. Printed are, over sites and draws: the mean error of the bias less the
error that all sites have in common, the % that are known, of these the % wrong by more than a pixel, and the % of the
intervals that hold the truth; `one` is a single site with noise among seven without. --forms compares other forms of
the noise, by the mean error of all.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from profile_rows import row_sites

from fedannot.custom.annotation_bias.profile.alignment import Template, align
from fedannot.custom.annotation_bias.profile.curves import LEVELS, site_curve
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.estimation import MeasuredCurves, SiteCurves, estimate_profiles
from fedannot.custom.annotation_bias.profile.interval import standard_error
from fedannot.custom.annotation_bias.profile.noisy_curves import errors_with_noise, noisy_site_curves, patient_vectors
from fedannot.custom.annotation_bias.profile.scales import curve_at_scale
from fedannot.custom.methods.auto.outbound import LARGEST_DEPARTURE, PROFILE_VECTOR
from fedannot.custom.outbound.private_statistics import noise_deviations, private_report
from fedannot.custom.outbound.private_updates import spent_epsilon

NOISES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
SITES, LARGEST_BIAS, SPREAD, STEP, REACH = 8, 4.0, 1.0, 0.5, 8.0
OFFSETS = np.arange(-REACH, REACH + STEP / 2, STEP)

Curves = np.ndarray


@cache
def curves_of_offsets(row: str, seed: int, kinds: str) -> Curves:
    """Return the curve of every case with its clean contours moved by every offset, ``(cases, offsets, 97)``."""
    cases = [known.case for sites in row_sites(row, seed) for of_site in sites.values() for known in of_site]
    if kinds == "shuffled":
        images = [case.image for case in cases]
        cases = [
            type(case)(case.patient, image, case.annotation, case.spacing)
            for case, image in zip(cases, images[1:] + images[:1], strict=True)
        ]
    absent = np.full(len(LEVELS), np.nan)
    return np.array(
        [
            [absent if (curve := curve_at_scale(case, 1, bias=-offset)) is None else curve for offset in OFFSETS]
            for case in cases
        ]
    )


def drawn_sites(pool: Curves, patients: int, generator: np.random.Generator) -> tuple[Curves, list[Curves]]:
    """Return the true biases of sites, and the curves of their patients."""
    true = generator.permutation(np.round(np.linspace(-LARGEST_BIAS, LARGEST_BIAS, SITES) / STEP) * STEP)
    sites = []
    for bias in true:
        offsets = np.clip(np.round((bias + SPREAD * generator.standard_normal(patients)) / STEP) * STEP, -REACH, REACH)
        places = np.round((offsets + REACH) / STEP).astype(int)
        curves = pool[generator.integers(len(pool), size=patients), places]
        sites.append(curves[np.isfinite(curves).any(axis=1)])
    return true, sites


def sent(curves: Curves, patients: int, noise: float, generator: np.random.Generator) -> SiteCurves:
    """Return what the server reads of a site whose statistics are private."""
    names = [f"{number:04}" for number in range(patients)]
    measured = MeasuredCurves(curves, tuple(names[: len(curves)]), tuple(range(len(curves))))
    samples = {PROFILE_VECTOR: patient_vectors([measured], names)}
    given = {PROFILE_VECTOR: [0.0] * samples[PROFILE_VECTOR].values.shape[1]}
    bound = {PROFILE_VECTOR: LARGEST_DEPARTURE}
    report = private_report(given, samples, bound, noise_multiplier=noise, random_bytes=generator.bytes)
    deviations = noise_deviations(given, samples, bound, noise_multiplier=noise)
    return noisy_site_curves(report[PROFILE_VECTOR], deviations[PROFILE_VECTOR], patients, 1.0)


@dataclass(frozen=True)
class DrawnSites:
    """Sites at one scale, of which some hide their patients."""

    patients: Mapping[str, Curves]
    measured: Mapping[str, SiteCurves]

    def coarsest(self) -> int:
        """Return the only scale."""
        return 0

    def curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> Mapping[str, SiteCurves]:
        """Return what sites have sent."""
        del halvings, biases
        return self.measured

    def standard_errors(
        self, biases: Mapping[str, Sequence[float]], templates: Mapping[str, Sequence[Template | None]]
    ) -> dict[str, list[float]]:
        """Return those that sites say, and that the server makes of what it knows of their noise."""
        del biases
        said = {
            site: [standard_error(curves, [str(n) for n in range(len(curves))], templates[site][0], seed=0)]
            for site, curves in self.patients.items()
            if not self.measured[site].noise
        }
        return errors_with_noise(self.measured, templates, said)


def exact(curves: Curves) -> SiteCurves:
    """Return what a site sends that hides nothing."""
    return SiteCurves(site_curve(curves)[np.newaxis], (len(curves),), 1.0)


def estimated(
    pool: Curves, patients: int, noise: float, generator: np.random.Generator, *, one: bool
) -> Iterator[tuple[float, ProfileEstimate]]:
    """Yield the error and the estimate of every site with noise."""
    true, sites = drawn_sites(pool, patients, generator)
    names = [f"site-{number}" for number in range(len(sites))]
    hidden = names[:1] if one else names
    measured = {
        name: sent(curves, patients, noise, generator) if noise and name in hidden else exact(curves)
        for name, curves in zip(names, sites, strict=True)
    }
    (found,) = estimate_profiles(DrawnSites(dict(zip(names, sites, strict=True)), measured), 1)
    errors = {name: found[name].bias - bias for name, bias in zip(names, true, strict=True)}
    finite = [errors[name] for name in (names[1:] if one else names) if np.isfinite(errors[name])]
    common = float(np.median(finite)) if finite else 0.0
    for name in hidden:
        yield errors[name] - common, found[name]


def line(results: Sequence[tuple[float, ProfileEstimate]]) -> str:
    """Return the figures of a setting."""
    errors = np.abs([error for error, _ in results if np.isfinite(error)])
    known = [(abs(error), found) for error, found in results if found.is_known]
    wrong = np.mean([error > 1 for error, _ in known]) if known else 0.0
    covered = np.mean([error <= found.half_width for error, found in known]) if known else np.nan
    of_known = np.mean([error for error, _ in known]) if known else np.nan
    return (
        f"error {errors.mean() if len(errors) else np.nan:5.2f}, known {100 * len(known) / len(results):5.1f} %, "
        f"of these error {of_known:4.2f}, > 1 px {100 * wrong:4.1f} %, covered {100 * covered:5.1f} %"
    )


def forms(bound: float) -> dict[str, Callable[[Curves, int, float, np.random.Generator], Curves]]:
    """Return other forms of a site's noisy curve, by name."""
    levels = np.arange(len(LEVELS)) + 0.5

    def filled(curves: Curves) -> Curves:
        known = [np.flatnonzero(np.isfinite(curve)) for curve in curves]
        return np.array([np.interp(levels - 0.5, at, curve[at]) for at, curve in zip(known, curves, strict=True)])

    def by_level(curves: Curves, patients: int, noise: float, generator: np.random.Generator) -> Curves:
        deviation = noise * np.sqrt(len(LEVELS)) * 6 / patients
        return np.clip(filled(curves), 0, 6).mean(axis=0) + deviation * generator.standard_normal(len(LEVELS))

    def smoothed(curves: Curves, patients: int, noise: float, generator: np.random.Generator) -> Curves:
        kernel = np.exp(-0.5 * (np.arange(-12, 13) / 4) ** 2)
        return np.convolve(
            np.pad(by_level(curves, patients, noise, generator), 12, "edge"), kernel / kernel.sum(), "valid"
        )

    def of_basis(basis: Curves, length: float) -> Callable[[Curves, int, float, np.random.Generator], Curves]:
        def form(curves: Curves, patients: int, noise: float, generator: np.random.Generator) -> Curves:
            vectors = (filled(curves) - 1) @ basis.T
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            mean = (vectors * np.minimum(1, length / np.maximum(lengths, 1e-9))).mean(axis=0)
            return 1 + (mean + noise * 2 * length / patients * generator.standard_normal(len(basis))) @ basis

        return form

    def cosines(number: int) -> Curves:
        waves = np.cos(np.pi * np.outer(np.arange(1, number + 1), levels) / len(LEVELS))
        return np.sqrt(2 / len(LEVELS)) * waves

    return {
        "each level cut to 6": by_level,
        "the same, smoothed by 1 px": smoothed,
        f"length of 97 levels cut to {bound:g}": of_basis(np.eye(len(LEVELS)), bound),
        **{
            f"{number} cosines, length cut to {bound:g}": of_basis(cosines(number), bound)
            for number in (6, 8, 12, 16, 24)
        },
        **{f"12 cosines, length cut to {length:g}": of_basis(cosines(12), length) for length in (0.5, 1, 2, 4, 6)},
    }


def mean_errors(pool: Curves, patients: int, noise: float, draws: int, seed: int) -> Iterator[tuple[str, float, float]]:
    """Yield of each form of the noise the mean error, without the common one, and the part above a pixel."""
    for name, form in forms(LARGEST_DEPARTURE).items():
        generator, errors = np.random.default_rng(seed), []
        for _ in range(draws):
            true, sites = drawn_sites(pool, patients, generator)
            curves = np.stack([form(curves, patients, noise, generator) for curves in sites])
            off = align(curves).biases - true
            errors += np.abs(off - np.median(off)).tolist()
        yield name, float(np.mean(errors)), float(np.mean(np.array(errors) > 1))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=["busi-clean", "phantom-clean", "cells-crowd"])
    parser.add_argument("--patients", type=int, nargs="+", default=[10, 20, 40, 80, 200])
    parser.add_argument("--noises", type=float, nargs="+", default=NOISES)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--forms", action="store_true")
    parser.add_argument("--images", choices=["own", "shuffled"], default="own", help="masks with images of others")
    asked = parser.parse_args()
    for row in asked.rows:
        pool = curves_of_offsets(row, asked.seed, asked.images)
        for patients in asked.patients:
            for noise in asked.noises:
                epsilon = f"{spent_epsilon(noise**-2, DELTA):.1f}" if noise else "none"
                title = f"{row}, {patients:3d} patients, sigma {noise:4g}, epsilon {epsilon:>4}"
                if asked.forms and noise:
                    for name, error, wrong in mean_errors(pool, patients, noise, asked.draws, asked.seed):
                        print(f"{title}: {name}: error {error:.2f}, > 1 px {100 * wrong:.0f} %", flush=True)
                    continue
                for one in (False, True):
                    generator = np.random.default_rng((asked.seed, patients))
                    draws = asked.draws * (2 if one else 1)
                    found = [
                        result for _ in range(draws) for result in estimated(pool, patients, noise, generator, one=one)
                    ]
                    print(f"{title}, {'one' if one else 'all'}: {line(found)}", flush=True)


if __name__ == "__main__":
    main()
