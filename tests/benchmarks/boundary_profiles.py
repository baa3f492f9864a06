"""How right boundary biases are that images alone say, without a model: the table of docs/benchmarks/profile.md.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/boundary_profiles.py [--seeds 5] [--first-seed 100] [--rows busi-ns]

The true bias of a site is the mean over its cases of the offset between its masks and the clean ones. Errors are given
with the level (bias less true bias) and without (less their mean in the federation). No network is trained; a row and
seed take seconds. A line of JSON per site goes to --out.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from auto_estimates import samples, with_true_classes
from benchmark_tables.feda3i import NOISE_LARGER, NOISE_SMALLER, one_bad_site, phantom
from compare_on_real_images import NOISE_LARGER as REAL_LARGER
from compare_on_real_images import NOISE_OF_CELLS, real
from compare_on_real_images import NOISE_SMALLER as REAL_SMALLER
from real_federations import (
    hippocampus_dataset_options,
    write_breast_lesions,
    write_cells,
    write_hippocampi,
    write_majority_cells,
)

from fedannot.custom.annotation_bias.boundary_bias import mask_offset
from fedannot.custom.annotation_bias.profile.decision import is_to_correct, profile_reference_level
from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.scales import ProfileCase
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import SiteData, load_site_data

RANDOM, ALL_LARGER, WEAK = "M(0,0,10,0.5)", "M(25,-25,10,1)", "M(8,-8,4,0.5)"


@dataclass(frozen=True)
class ProfileRow:
    """One kind of federation.

    Attributes:
        make: writes it for a seed.
        labels: classes that are estimated.
    """

    make: Callable[[Path, int], None]
    labels: tuple[int, ...] = (1,)


def _hippocampi(noise: str | None, *, sliced: bool, together: bool) -> ProfileRow:
    options = hippocampus_dataset_options(sliced=sliced, together=together)
    return ProfileRow(real(partial(write_hippocampi, options=options), noise), (1,) if together else (1, 2))


ROWS: dict[str, ProfileRow] = {
    "busi-ns": ProfileRow(real(write_breast_lesions, REAL_SMALLER)),
    "busi-ne": ProfileRow(real(write_breast_lesions, REAL_LARGER)),
    "busi-clean": ProfileRow(write_breast_lesions),
    "phantom-ns": ProfileRow(phantom(NOISE_SMALLER)),
    "phantom-ne": ProfileRow(phantom(NOISE_LARGER)),
    "phantom-random": ProfileRow(phantom(RANDOM, stratified=None)),
    "phantom-weak": ProfileRow(phantom(WEAK, stratified=None)),
    "phantom-clean": ProfileRow(phantom(None)),
    "phantom-larger": ProfileRow(phantom(ALL_LARGER)),
    "phantom-one-bad": ProfileRow(one_bad_site),
    "slices-ns": _hippocampi(REAL_SMALLER, sliced=True, together=True),
    "slices-ne": _hippocampi(REAL_LARGER, sliced=True, together=True),
    "slices-two-ns": _hippocampi(REAL_SMALLER, sliced=True, together=False),
    "volumes-ns": _hippocampi(REAL_SMALLER, sliced=False, together=True),
    "volumes-two-ns": _hippocampi(REAL_SMALLER, sliced=False, together=False),
    "cells-offsets": ProfileRow(real(write_majority_cells, NOISE_OF_CELLS)),
    "cells-crowd": ProfileRow(write_cells),
}


def profile_cases(data: SiteData) -> list[ProfileCase]:
    """Return the samples of a site as the profile takes them."""
    return [
        ProfileCase(case.unit, image, annotation, case.spacing)
        for case in data.cases
        for image, annotation in zip(case.image.numpy(), case.label.numpy(), strict=True)
    ]


def true_bias(data: SiteData, label: int) -> float:
    """Return the mean bias of a site's masks of a class against the clean ones; NaN without any."""
    offsets = [
        mask_offset(with_true_classes(given, clean) == label, clean == label, spacing)
        for spacing, given, clean in samples(data)
    ]
    known = [item.offset for item in offsets if item is not None]
    return statistics.fmean(known) if known else 0.0


def sites_of(make: Callable[[Path, int], None], seed: int) -> Iterator[dict[str, SiteData]]:
    """Yield the sites of a federation, which is there until the next one."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "federation"
        make(folder, seed)
        yield {
            site: load_site_data(folder / site, Path(temporary) / "store", site=site)
            for site in read_federation(folder).sites
        }


def estimate_row(name: str, seed: int, *, alone: bool = False) -> Iterator[dict[str, Any]]:
    """Yield what is estimated of every site and class of a row, beside the truth; each site alone, or all together."""
    row = ROWS[name]
    for sites in sites_of(row.make, seed):
        cases = {site: profile_cases(data) for site, data in sites.items()}
        for label in row.labels:
            start = time.process_time()
            groups = [{site: cases[site]} for site in cases] if alone else [cases]
            estimates = {
                site: estimate
                for group in groups
                for site, estimate in estimate_from_images(group, label, seed=seed).items()
            }
            seconds = time.process_time() - start
            level = profile_reference_level(estimates)
            for site, estimate in estimates.items():
                true = true_bias(sites[site], label) / estimate.unit
                yield {
                    "row": name,
                    "seed": seed,
                    "site": site,
                    "class": label,
                    "true": true,
                    "bias": estimate.bias / estimate.unit,
                    "half_width": estimate.half_width / estimate.unit,
                    "known": estimate.is_known,
                    "correlation": estimate.correlation,
                    "prominence": estimate.prominence,
                    "standard_error": estimate.standard_error,
                    "corrected": is_to_correct(estimate, level),
                    "level": None if level is None else level.kind.value,
                    "milliseconds_per_case": 1000 * seconds / sum(map(len, cases.values())),
                }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of all rows as Markdown."""
    lines = [
        "| data | sites | error, level removed: mean / largest | with level | known | > 1 px | covered | corrected |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(item["row"] for item in found))
    for name, group in [(name, [item for item in found if item["row"] == name]) for name in names] + [("all", found)]:
        lines.append(_line(name, group))
    return "\n".join(lines)


def _line(name: str, group: Sequence[dict[str, Any]]) -> str:
    errors = np.array([item["bias"] - item["true"] for item in group])
    keys = [(item["row"], item["seed"], item["class"]) for item in group]
    levels = {key: np.nanmean([e for e, other in zip(errors, keys, strict=True) if other == key]) for key in keys}
    without = np.abs(errors - np.array([levels[key] for key in keys]))
    known = np.array([item["known"] for item in group])
    widths = np.array([item["half_width"] for item in group])
    moved = [item for item in group if item["corrected"]]
    better = sum(abs(item["true"] - item["bias"]) < abs(item["true"]) for item in moved)
    mean, largest, with_level = np.nanmean(without), np.nanmax(without), np.nanmean(abs(errors))
    return (
        f"| {name} | {len(group)} | {mean:.2f} / {largest:.1f} | {with_level:.2f} "
        f"| {known.sum()} | {(without[known] > 1).sum()} | {100 * (without[known] <= widths[known]).mean():.0f} % "
        f"| {len(moved)}, {better} better |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--alone", action="store_true", help="each site by itself, as one hospital would be")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found = []
    for name in asked.rows.split(","):
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            found += list(estimate_row(name, seed, alone=asked.alone))
        print(_line(name, [item for item in found if item["row"] == name]), flush=True)
    print(table(found))
    if asked.out:
        asked.out.write_text("".join(json.dumps(item) + "\n" for item in found))


if __name__ == "__main__":
    main()
