"""Where `auto` finds the zero of the offsets, by simulation of the sites' estimates: no training.

    python tests/benchmarks/reference_levels.py --draws 300
    python tests/benchmarks/reference_levels.py --draws 300 --second --error 0.7

Offsets of sites are drawn as the contour noise of the benchmarks draws them, in pixels of 64 × 64 images, and get the
error that estimates on twelve phantoms have. Edges lie at the true zero, or by an error away from it, as on real
images. "right": the zero lies within one pixel of the true one, and offsets are corrected; "wrong": they are corrected,
and the zero is off by more. The rest is federated averaging: zero cannot be known, or federated averaging's contours,
the median of the sites', lie within `image_boundary_error` of it. With `--second` another model estimates all sites
again, each time with edges that are off by a standard deviation of half a pixel: by the second alone, and beside the
first one.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.annotation_bias.fedavg_boundary import fedavg_boundary
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.reference_level import choose_reference_level
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.bias_record import bias_record
from fedannot.custom.methods.auto.decisions import Decisions, decide
from fedannot.custom.methods.auto.settings import AutoSettings

REDUCTION = 4
FLOOR = 0.5
IMAGE_BOUNDARY_ERROR = 2.0
NOISES = {
    "N_S D": ("M(25,-25,10,0.2)", 0.5),
    "N_E D": ("M(25,-25,10,0.8)", 0.5),
    "N_S from 0": ("M(25,-25,10,0.2)", None),
    "medium D": ("M(16,-16,7,0.2)", 0.5),
    "weak D": ("M(8,-8,4,0.2)", 0.5),
    "all larger D": ("M(25,-25,10,1)", 0.5),
    "all larger from 0": ("M(25,-25,10,1)", None),
    "one bad of ten D": ("M(25,-8,4,0.1)", 0.5),
    "clean": ("M(0,0,0,0.5)", None),
}


def verdict(noise: tuple[str, float | None], num_sites: int, seed: int, edge: float | None, error: float) -> str:
    """Return whether offsets of one federation are corrected from a right zero, a wrong one, or not at all."""
    generator = np.random.default_rng(seed)
    drawn = NoiseChoice(noise[0], exact=True, stratified=noise[1]).draw(num_sites, seed)
    estimates = {
        f"site-{index}": estimate(one.mean / REDUCTION + error * generator.standard_normal(), error)
        for index, one in enumerate(drawn)
    }
    edges = None if edge is None else Estimate(12 * num_sites, edge, edge - 0.1, edge + 0.1)
    reference_level = choose_reference_level(
        estimates, seed=seed, floor=FLOOR, edges=edges, image_boundary_error=IMAGE_BOUNDARY_ERROR
    )
    if reference_level is None or not reference_level.is_confident:
        return "averaging"
    averaged = fedavg_boundary(
        {site: estimate.value - reference_level.value for site, estimate in estimates.items()},
        dict.fromkeys(estimates, 1),
    )
    if averaged is None or averaged.is_within(IMAGE_BOUNDARY_ERROR):
        return "averaging"
    return "right" if abs(reference_level.value) <= 1.0 else "wrong"


def estimate(value: float, error: float) -> Estimate:
    """Return an estimate over twelve patients whose standard deviation is the error."""
    half = 1.645 * error
    return Estimate(12, value, value - half, value + half, slope=1.0, auroc=1.0)


def verdicts_of_two(noise: tuple[str, float | None], num_sites: int, seed: int, error: float) -> tuple[str, str]:
    """Return the verdict of a second estimate alone, and of one that has the first one beside it."""
    generator, settings = np.random.default_rng(seed), AutoSettings(rounds=9, warmup_rounds=3)
    drawn = NoiseChoice(noise[0], exact=True, stratified=noise[1]).draw(num_sites, seed)
    images, unknown = ImageStatistics(12, (0.0,) * len(FEATURES), (1.0,) * len(FEATURES)), (Estimate.unknown(),)

    def answers() -> dict[str, BiasReport]:
        edges = (estimate(generator.normal(0, 0.5), 0.05),)
        offsets = [item.mean / REDUCTION + error * generator.standard_normal() for item in drawn]
        return {
            f"site-{index}": BiasReport(
                12, 1.0, images, (12,), (estimate(offset, error),), edges, unknown, unknown, unknown
            )
            for index, offset in enumerate(offsets)
        }

    first = decide(answers(), settings, seed=seed)
    again = answers()
    alone = decide(again, settings, seed=seed)
    beside = decide(again, settings, seed=seed, before=bias_record(first, 5))
    return verdict_of(alone), verdict_of(beside)


def verdict_of(decisions: Decisions) -> str:
    """Return what was corrected, and from which zero."""
    reference_level = decisions.reference_levels[0]
    if reference_level is None or not any(decisions.corrections.values()):
        return "averaging"
    return "right" if abs(reference_level.value) <= 1.0 else "wrong"


def print_two(draws: int, error: float) -> None:
    """Print right / wrong in per cent for every noise and number of sites."""
    print(f"{'noise':18s} sites  second alone  beside the first")
    for name, noise in NOISES.items():
        for num_sites in (6, 10, 20):
            result = zip(*(verdicts_of_two(noise, num_sites, 100 + draw, error) for draw in range(draws)), strict=True)
            print(f"{name:18s} {num_sites:5d}  " + "  ".join(f"{in_per_cent(of_kind):>12s}" for of_kind in result))


def in_per_cent(verdicts: Sequence[str]) -> str:
    """Return the fractions of right and of wrong ones."""
    right, wrong = (100 * verdicts.count(kind) / len(verdicts) for kind in ("right", "wrong"))
    return f"{right:5.0f} / {wrong:4.0f}"


def main() -> None:
    """Print right / wrong in per cent for every noise, number of sites and place of the edges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--error", type=float, default=0.3, help="standard deviation of a site's estimate, in pixels")
    parser.add_argument("--second", action="store_true", help="what a second estimate adds")
    arguments = parser.parse_args()
    if arguments.second:
        print_two(arguments.draws, arguments.error)
        return
    places: tuple[float | None, ...] = (None, 0.0, -0.5, 2.0, -2.0)
    print(f"{'noise':18s} sites  " + "  ".join(f"edges {'unknown' if e is None else f'{e:+.1f}':>7s}" for e in places))
    for name, noise in NOISES.items():
        for num_sites in (4, 6, 10, 20):
            cells = []
            for edge in places:
                draws = range(100, 100 + arguments.draws)
                cells.append(in_per_cent([verdict(noise, num_sites, seed, edge, arguments.error) for seed in draws]))
            print(f"{name:18s} {num_sites:5d}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
