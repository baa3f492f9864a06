"""What noise that hides single patients costs `auto`: how many sites' offsets are still confirmed, by simulation.

    python tests/benchmarks/private_bias.py

Ten sites draw by N_S "D" (two larger, eight smaller, by 3.1 to 6.3 pixels) or all right; the offsets of a site's
patients spread by a pixel around its own. Every site sends what `StatisticsPrivacyFilter` leaves of its mean offset and
the mean difference of patients, nothing of its images or their edges, and `decide` of `auto` concludes. Printed are, in
% of the sites over the draws: those that correct an offset, those of them within a pixel of what is right, and clean
sites that correct anything.
"""

import argparse

import numpy as np

from fedannot.custom.annotation_bias.boundary_bias import CaseOffset
from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.noisy_estimates import noisy_offset, offset_samples
from fedannot.custom.annotation_bias.noisy_fields import (
    LARGEST_DIFFERENCE,
    LARGEST_OFFSET,
    OFFSET_DIFFERENCE,
    OFFSET_MEAN,
)
from fedannot.custom.corrections.kinds import BoundaryShift, of_kind
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.outbound.private_statistics import noise_deviations, private_report
from fedannot.custom.outbound.private_updates import spent_epsilon

NOISES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
SITES, LARGER = 10, 2
SMALLEST, LARGEST = 3.125, 6.25
SPREAD = 1.0
BOUNDS = {OFFSET_MEAN: LARGEST_OFFSET, OFFSET_DIFFERENCE: LARGEST_DIFFERENCE}
SETTINGS = AutoSettings(rounds=9, warmup_rounds=3, unknown_images="in_domain")
UNKNOWN = (Estimate.unknown(),)
NOTHING = PredictedCase("patient", np.zeros((2, 2), dtype=np.uint8), np.full((2, 2, 2), 0.5))


def true_offsets(generator: np.random.Generator, *, clean: bool) -> np.ndarray:
    """Return the sites' offsets."""
    if clean:
        return np.zeros(SITES)
    strengths = generator.permutation(np.linspace(SMALLEST, LARGEST, SITES))
    return np.where(np.arange(SITES) < LARGER, strengths, -strengths)


def answer(offset: float, patients: int, noise: float, generator: np.random.Generator) -> BiasReport:
    """Return what the server reads of a site."""
    offsets = offset + SPREAD * generator.standard_normal(patients)
    cases = [
        (PredictedCase(f"{index:04}", NOTHING.annotation, NOTHING.probabilities), CaseOffset(one, 0.0, 1))
        for index, one in enumerate(offsets)
    ]
    samples, given = offset_samples([cases]), {OFFSET_MEAN: [0.0], OFFSET_DIFFERENCE: [0.0]}
    # Without noise it is as good as none.
    multiplier = noise or 1e-9
    sent = private_report(given, samples, BOUNDS, noise_multiplier=multiplier, random_bytes=generator.bytes)
    known = noise_deviations(given, samples, BOUNDS, noise_multiplier=multiplier)
    columns = [table[name][0] for name in (OFFSET_MEAN, OFFSET_DIFFERENCE) for table in (sent, known)]
    return BiasReport(
        pixel_size=1.0,
        images=ImageStatistics.unknown(),
        annotated_patients=(patients,),
        offset=(noisy_offset(patients, *columns, pixel=1.0),),
        edges=UNKNOWN,
        reviewed_from_model=UNKNOWN,
        given_from_reviewed=UNKNOWN,
        completeness=UNKNOWN,
    )


def shares(patients: int, noise: float, draws: int, seed: int) -> tuple[float, float, float]:
    """Return the three figures of the table."""
    corrected = right = wrong = 0
    for draw in range(draws):
        generator = np.random.default_rng((seed, patients, draw))
        for clean in (False, True):
            true = true_offsets(generator, clean=clean)
            answers = {f"site-{k}": answer(one, patients, noise, generator) for k, one in enumerate(true)}
            for site, asked in decide(answers, SETTINGS, seed=draw).corrections.items():
                shift = of_kind(asked, BoundaryShift)
                if shift is not None and clean:
                    wrong += 1
                elif shift is not None:
                    corrected += 1
                    right += abs(shift.bias[1] - true[int(site.removeprefix("site-"))]) <= 1
    return 100 * corrected / (draws * SITES), 100 * right / (draws * SITES), 100 * wrong / (draws * SITES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, nargs="+", default=[12, 40, 120, 400])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=100)
    arguments = parser.parse_args()
    for patients in arguments.patients:
        for noise in NOISES:
            corrected, right, wrong = shares(patients, noise, arguments.draws, arguments.seed)
            epsilon = f"{spent_epsilon(noise**-2, DELTA):.1f}" if noise else "none"
            print(
                f"{patients:4d} patients, sigma {noise:4g}, epsilon {epsilon:>5}: corrected {corrected:5.1f} %, right "
                f"{right:5.1f} %; clean sites that correct anything {wrong:4.1f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
