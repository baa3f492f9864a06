"""Where `auto` finds the zero of the offsets, by simulation of the sites' estimates: no training.

    python tests/benchmarks/zero_of_offsets.py --draws 300

Offsets of sites are drawn as the contour noise of the benchmarks draws them, in pixels of 64 × 64 images, and get the
error that estimates on twelve phantoms have. Edges lie at the true zero, or by an error away from it, as on real
images. "right": the zero lies within one pixel of the true one, and offsets are undone; "wrong": they are undone, and
the zero is off by more. The rest is federated averaging: zero cannot be told, or federated averaging's contours, the
median of the sites', lie within `edge_error` of it.
"""

import argparse

import numpy as np

from fedannot.custom.channel.anchor import choose_anchor
from fedannot.custom.channel.averaged_contour import averaged_contour
from fedannot.custom.channel.estimate import Estimate
from fedannot.custom.data.noise.choice import NoiseChoice

REDUCTION = 4
ERROR = 0.3
FLOOR = 0.5
EDGE_ERROR = 2.0
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


def verdict(noise: tuple[str, float | None], num_sites: int, seed: int, edge: float | None) -> str:
    """Return whether offsets of one federation are undone from a right zero, a wrong one, or not at all."""
    generator = np.random.default_rng(seed)
    drawn = NoiseChoice(noise[0], exact=True, stratified=noise[1]).draw(num_sites, seed)
    half = 1.645 * ERROR
    estimates = {}
    for index, one in enumerate(drawn):
        value = one.mean / REDUCTION + ERROR * generator.standard_normal()
        estimates[f"site-{index}"] = Estimate(12, value, value - half, value + half)
    edges = None if edge is None else Estimate(12 * num_sites, edge, edge - 0.1, edge + 0.1)
    anchor = choose_anchor(estimates, seed=seed, floor=FLOOR, edges=edges, edge_error=EDGE_ERROR)
    if anchor is None or not anchor.is_sure:
        return "averaging"
    averaged = averaged_contour(
        {site: estimate.value - anchor.value for site, estimate in estimates.items()}, dict.fromkeys(estimates, 1)
    )
    if averaged is None or averaged.is_within(EDGE_ERROR):
        return "averaging"
    return "right" if abs(anchor.value) <= 1.0 else "wrong"


def main() -> None:
    """Print right / wrong in per cent for every noise, number of sites and place of the edges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    arguments = parser.parse_args()
    places: tuple[float | None, ...] = (None, 0.0, -0.5, 2.0, -2.0)
    print(f"{'noise':18s} sites  " + "  ".join(f"edges {'unknown' if e is None else f'{e:+.1f}':>7s}" for e in places))
    for name, noise in NOISES.items():
        for num_sites in (4, 6, 10, 20):
            cells = []
            for edge in places:
                found = [verdict(noise, num_sites, 100 + draw, edge) for draw in range(arguments.draws)]
                right, wrong = (100 * found.count(kind) / len(found) for kind in ("right", "wrong"))
                cells.append(f"{right:5.0f} / {wrong:4.0f} ")
            print(f"{name:18s} {num_sites:5d}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
