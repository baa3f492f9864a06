"""By how much one site that lies moves the boundary biases of the others: a table for docs/benchmarks.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/lying_curves.py [--seeds 2] [--first-seed 100] [--rows busi-ns]

One site's curve is replaced by each lie; others that are known count, compared with their biases without that site.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from boundary_profiles import ROWS, profile_cases, sites_of

from fedannot.custom.annotation_bias.profile.alignment import align
from fedannot.custom.annotation_bias.profile.curves import LEVELS, site_curve
from fedannot.custom.annotation_bias.profile.estimation import measure_curves
from fedannot.custom.annotation_bias.profile.thresholds import THRESHOLDS


def lies() -> list[np.ndarray]:
    """Curves that a site may send to move others: peaks where no boundary is, steps, noise, nothing."""
    generator = np.random.default_rng(0)
    peaks = [np.where(np.abs(LEVELS - place) < 1.1, 5.1, 0.55) for place in (-9, -6, -3, 3, 6, 9)]
    steps = [np.where(place > LEVELS, low, high) for place in (-6, 0, 6) for low, high in ((1.8, 0.2), (0.2, 1.8))]
    noise = [generator.uniform(0, 2, len(LEVELS)) for _ in range(4)]
    return [*peaks, *steps, *noise, np.zeros(len(LEVELS)), np.full(len(LEVELS), 5.1), np.full(len(LEVELS), np.nan)]


def moves(curves: np.ndarray) -> Iterator[float]:
    """Yield the largest move of a known bias, for each lie of the first site."""
    honest = align(curves[1:])
    for lie in lies():
        together = align(np.vstack([lie[None], curves[1:]]))
        known = (together.correlations[1:] >= THRESHOLDS.min_correlation) & (
            together.prominence >= THRESHOLDS.min_prominence
        )
        yield float(np.abs(together.biases[1:] - honest.biases)[known].max(initial=0.0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=100)
    asked = parser.parse_args()
    print("| data | median over lies | largest |\n|---|---|---|")
    for name in asked.rows.split(","):
        found = [
            move
            for seed in range(asked.first_seed, asked.first_seed + asked.seeds)
            for sites in sites_of(ROWS[name].make, seed)
            for label in ROWS[name].labels
            for move in moves(_curves({site: profile_cases(data) for site, data in sites.items()}, label))
        ]
        print(f"| {name} | {np.median(found):.2f} | {max(found):.2f} |", flush=True)


def _curves(cases: dict, label: int) -> np.ndarray:
    measured = [measure_curves(some, label) for some in cases.values()]
    return np.stack([site_curve(curves.curves) for curves in measured if curves is not None])


if __name__ == "__main__":
    main()
