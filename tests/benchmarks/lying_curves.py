"""By how much one site that lies moves the boundary biases of the others: a table for docs/benchmarks.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/lying_curves.py [--seeds 2] [--first-seed 100] [--rows busi-ns]

One site's curve is replaced by each lie; others that are known count, compared with their biases without that site.
"""

from collections.abc import Iterator

import numpy as np
from profile_rows import ROWS, Sites, asked_runs, row_options, row_sites, without_truth

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
    asked = row_options(__doc__, seeds=2).parse_args()
    print("| data | median over lies | largest |\n|---|---|---|")
    for name, seeds in asked_runs(asked).items():
        found = [
            move
            for seed in seeds
            for sites in row_sites(name, seed)
            for label in ROWS[name].labels
            for move in moves(_curves(sites, label))
        ]
        print(f"| {name} | {np.median(found):.2f} | {max(found):.2f} |", flush=True)


def _curves(sites: Sites, label: int) -> np.ndarray:
    measured = [measure_curves(without_truth(cases), label) for cases in sites.values()]
    return np.stack([site_curve(curves.curves) for curves in measured if curves is not None])


if __name__ == "__main__":
    main()
