"""How right boundary biases from images alone are: the table of docs/benchmarks/boundary_profile.md.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/boundary_profiles.py [--seeds 5] [--first-seed 100] [--rows busi-ns]

The true bias of a site is the mean over its cases of the offset between its masks and the clean ones. Errors are given
with the level (bias less true bias) and without (less their mean in the federation). No network is trained; a row and
seed take seconds. A line of JSON per site goes to --out.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from profile_rows import ROWS, measured_rows, row_options, row_sites, true_bias, without_truth

from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate, image_fedavg_boundary
from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.corrections.kinds import BoundaryShift, of_kind
from fedannot.custom.methods.auto.image_decisions import decide_by_images
from fedannot.custom.methods.auto.settings import BiasSettings


def estimate_row(name: str, seed: int, *, alone: bool = False) -> Iterator[dict[str, Any]]:
    """Yield what is estimated of every site and class of a row, beside the truth; each site alone, or all together."""
    for sites in row_sites(name, seed):
        cases = {site: without_truth(known) for site, known in sites.items()}
        labels = ROWS[name].labels
        for group in [{site: cases[site]} for site in cases] if alone else [cases]:
            start = time.process_time()
            profiles = [estimate_from_images(group, label, seed=seed) for label in labels]
            seconds = (time.process_time() - start) / len(labels)
            decided = decide_by_images(profiles, BiasSettings())
            for index, (label, estimates) in enumerate(zip(labels, profiles, strict=True), start=1):
                level, averaged = decided.reference_levels[index - 1], _averaged(estimates)
                for site, estimate in estimates.items():
                    shift = of_kind(decided.corrections[site], BoundaryShift)
                    yield {
                        "row": name,
                        "seed": seed,
                        "site": site,
                        "class": label,
                        "true": true_bias(sites[site], label) / estimate.unit,
                        "bias": estimate.bias / estimate.unit,
                        "half_width": estimate.half_width / estimate.unit,
                        "patients": estimate.patients,
                        "known": estimate.is_known,
                        "correlation": estimate.correlation,
                        "prominence": estimate.prominence,
                        "standard_error": estimate.standard_error,
                        "corrected": shift is not None and index in shift.bias,
                        "averaged": averaged,
                        "level": None if level is None else level.kind.value,
                        "milliseconds_per_case": 1000 * seconds / sum(map(len, group.values())),
                    }


def _averaged(estimates: Mapping[str, ProfileEstimate]) -> float:
    """How far federated averaging's contours are off by the images, as a fraction of the objects' radius."""
    boundary = image_fedavg_boundary(estimates)
    radii = [one.radius / one.unit for one in estimates.values() if one.is_known]
    return math.nan if boundary is None else max(abs(boundary.low), abs(boundary.high)) / float(np.nanmedian(radii))


def averaged_table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return for each row the smallest and the largest of these fractions over its seeds and classes."""
    lines = ["| data | federated averaging's boundary is off by, of the radius |", "|---|---|"]
    for name in dict.fromkeys(item["row"] for item in found):
        fractions = [item["averaged"] for item in found if item["row"] == name]
        lines.append(f"| {name} | {np.nanmin(fractions):.2f} to {np.nanmax(fractions):.2f} |")
    return "\n".join(lines)


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all rows as Markdown."""
    lines = [
        "| data | sites | error, level removed: mean / largest | with level | known | > 1 px | covered | corrected |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(item["row"] for item in found))
    for name, group in [(name, [item for item in found if item["row"] == name]) for name in names] + [("all", found)]:
        lines.append(_line(name, group))
    return "\n".join(lines)


def _line(name: str, group: Sequence[Mapping[str, Any]]) -> str:
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


def followers(found: Sequence[Mapping[str, Any]]) -> str:
    """Return how many corrected estimates are not known but follow others, and how many of them get better."""
    following = [item for item in found if item["corrected"] and not item["known"]]
    better = sum(abs(item["true"] - item["bias"]) < abs(item["true"]) for item in following)
    return f"Not known, and corrected as others are: {len(following)}, {better} better."


def main() -> None:
    """Print the tables."""
    parser = row_options(__doc__, seeds=5)
    parser.add_argument("--alone", action="store_true", help="each site by itself, as one hospital would be")
    asked = parser.parse_args()
    found = measured_rows(asked, partial(estimate_row, alone=asked.alone), _line)
    print(table(found), averaged_table(found), followers(found), sep="\n\n")


if __name__ == "__main__":
    main()
