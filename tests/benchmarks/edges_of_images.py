"""How far the edges of images lie from clean contours, site by site: no training.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/edges_of_images.py --seed 100

The clean masks stand for what a perfect model predicts. Per site the median over cases with its 90 % interval, in
pixels of the network's images (millimetres where the spacing is known), positive outside of the contour.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmark_tables.feda3i import phantom
from benchmark_tables.rows import MakeData
from real_federations import (
    hippocampus_dataset_options,
    write_breast_lesions,
    write_hippocampi,
    write_majority_cells,
)
from scipy import ndimage

from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.annotation_bias.image_boundary import estimate_edges
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import SiteData, load_site_data

LABEL = 1
# Probabilities fall from inside to outside over so many pixels.
SOFTNESS = 1.0
FEDERATIONS: dict[str, MakeData] = {
    "generated lesions": phantom(None, num_sites=4),
    "BUSI lesions": write_breast_lesions,
    "hippocampus slices": partial(
        write_hippocampi, options=hippocampus_dataset_options(sliced=True, together=True), num_sites=3
    ),
    "cells of five sources": write_majority_cells,
}


def clean_cases(data: SiteData) -> Iterator[PredictedCase]:
    """Yield the samples with the clean mask in the place of a prediction."""
    for case in data.cases:
        labels = case.label if case.clean_label is None else case.clean_label
        for image, label in zip(case.image.numpy(), labels.numpy(), strict=True):
            mask = label == LABEL
            if mask.any():
                foreground = ndimage.gaussian_filter(mask.astype(np.float64), SOFTNESS)
                yield PredictedCase(
                    case.unit, mask.astype(np.uint8), np.stack([1 - foreground, foreground]), case.spacing, image
                )


def main() -> None:
    """Print a line for every site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=100)
    seed = parser.parse_args().seed
    for name, make in FEDERATIONS.items():
        with TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            make(data, seed)
            for site in read_federation(data).sites:
                loaded = load_site_data(data / site, Path(folder) / "cache", site=site)
                result = estimate_edges(list(clean_cases(loaded)), LABEL, seed=seed)
                print(f"{name:22s} {site:10s} {result.value:+.2f} [{result.low:+.2f}, {result.high:+.2f}]", flush=True)


if __name__ == "__main__":
    main()
