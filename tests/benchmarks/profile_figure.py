"""The figure of docs/boundary-profile.md: level sets on a case, the curves of sites, and the template.

    python tests/benchmarks/profile_figure.py docs/images/boundary_profile.png

The federation is generated: ten sites of twelve phantoms each, N_S, seed 100.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from profile_rows import row_sites, without_truth

from fedannot.custom.annotation_bias.profile.alignment import align
from fedannot.custom.annotation_bias.profile.contours import signed_distance
from fedannot.custom.annotation_bias.profile.curves import LEVELS, site_curve
from fedannot.custom.annotation_bias.profile.estimation import measure_curves

SEED = 100


def draw(file: Path) -> None:
    """Draw the figure into a file."""
    for sites in row_sites("phantom-ns", SEED):
        cases = {site: without_truth(known) for site, known in sites.items()}
        clean = {site: known[0].clean for site, known in sites.items()}
    curves = np.stack([site_curve(measure_curves(some, 1).curves) for some in cases.values()])
    biases = align(curves).biases
    largest = int(np.argmax(biases))
    site = list(cases)[largest]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    _draw_case(left, cases[site][0], clean[site], float(biases[largest]))
    colours = plt.get_cmap("coolwarm")((biases - biases.min()) / np.ptp(biases))
    for curve, bias, colour in zip(curves, biases, colours, strict=True):
        middle.plot(LEVELS, curve, color=colour)
        right.plot(LEVELS + bias, curve, color=colour, alpha=0.8)
    middle.set(title="curves of ten sites", xlabel="signed distance d to the annotated contour (px)", ylabel="E(d)")
    right.set(title="moved by their biases", xlabel="d + β (px), 0 at the image boundary", xlim=(-8, 8))
    right.axvline(0, color="black", linewidth=0.8)
    figure.savefig(file, dpi=110)


def _draw_case(axes, case, clean, bias: float) -> None:
    distance = signed_distance(case.annotation == 1, np.ones(2))
    axes.imshow(case.image[0], cmap="gray")
    axes.contour(distance, levels=[-8, -6, -4, -2, 2, 4], colors="tab:blue", linewidths=0.6)
    axes.contour(distance, levels=[0], colors="tab:red", linewidths=1.8)
    axes.contour(clean, levels=[0.5], colors="tab:green", linewidths=1.8)
    axes.set_title(f"annotated (red), correct (green); β = {bias:+.1f} px")
    axes.set_axis_off()


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    draw(parser.parse_args().file)


if __name__ == "__main__":
    main()
