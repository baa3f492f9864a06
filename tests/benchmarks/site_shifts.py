"""How right shifts of all masks of a site are that images alone say, without a model.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/site_shifts.py [--seeds 2] [--first-seed 100] [--rows busi-ns]

All masks of a site are moved by 0, 1, 2 and 4 pixels along each axis. The true shift of a site is that, and the mean
over its cases of how far the centre of the given masks is from the centre of the clean ones. Errors are along the worst
axis, in pixels. A line of JSON per site and shift goes to --out.

With --other-images every site in turn has its masks exchanged among its cases instead: neither its shift nor its
boundary bias should be known.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from profile_rows import ROWS, KnownCase, asked_runs, measured_rows, row_options, row_sites, without_truth
from scipy import ndimage

from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.scales import ProfileCase
from fedannot.custom.annotation_bias.profile.site_shift import estimate_site_shift
from fedannot.transforms.shift_mask import shifted_mask

LENGTHS = (1, 2, 4)


def true_shift(cases: Sequence[KnownCase], label: int) -> np.ndarray:
    """Return how far the centres of a site's masks of a class are from those of the clean ones, in pixels."""
    pairs = [(known.case.annotation == label, known.clean == label) for known in cases if known.clean is not None]
    moves = [
        np.subtract(ndimage.center_of_mass(given), ndimage.center_of_mass(clean))
        for given, clean in pairs
        if given.any() and clean.any()
    ]
    return np.mean(moves, axis=0) if moves else np.zeros(cases[0].case.annotation.ndim)


def injected_shifts(axes: int) -> list[tuple[int, ...]]:
    """Return no shift, and each length along each axis, forth and back in turn."""
    moved = [
        tuple((-1) ** index * length if axis == other else 0 for other in range(axes))
        for axis in range(axes)
        for index, length in enumerate(LENGTHS)
    ]
    return [(0,) * axes, *moved]


def moved_cases(cases: Sequence[ProfileCase], steps: Sequence[int]) -> list[ProfileCase]:
    """Return cases whose annotations are moved by whole pixels."""
    return [replace(case, annotation=shifted_mask(case.annotation, steps)) for case in cases]


def estimate_row(name: str, seed: int, shifts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield what is estimated of every site, class and shift of a row, beside the truth."""
    for sites in row_sites(name, seed):
        for label in ROWS[name].labels:
            for site, known in sites.items():
                cases = without_truth(known)
                own = true_shift(known, label)
                for steps in injected_shifts(len(own)):
                    if max(map(abs, steps)) not in shifts:
                        continue
                    start = time.process_time()
                    result = estimate_site_shift(moved_cases(cases, steps), label, seed=seed)
                    pixel = np.array(result.pixel)
                    error = np.array(result.vector) / pixel - own - steps
                    yield {
                        "row": name,
                        "seed": seed,
                        "site": site,
                        "class": label,
                        "injected": steps,
                        "own": own.tolist(),
                        "error": np.abs(error).tolist(),
                        "half_width": (np.array(result.half_width) / pixel).tolist(),
                        "standard_error": result.standard_error,
                        "agreement": result.agreement,
                        "prominence": result.prominence,
                        "known": result.is_known,
                        "significant": result.is_significant,
                        "patients": result.patients,
                        "milliseconds_per_case": 1000 * (time.process_time() - start) / len(cases),
                    }


def masks_of_other_images(cases: Sequence[ProfileCase]) -> list[ProfileCase]:
    """Return the cases of a site, each with the annotation of the one half the list away."""
    half = len(cases) // 2
    others = [*cases[half:], *cases[:half]]
    return [replace(case, annotation=other.annotation) for case, other in zip(cases, others, strict=True)]


def other_images_row(name: str, seed: int) -> str:
    """Return how many sites are known although their masks are those of other images, one site at a time."""
    boundaries = shifts = count = 0
    for sites in row_sites(name, seed):
        cases = {site: without_truth(known) for site, known in sites.items()}
        for label in ROWS[name].labels:
            for site, own in cases.items():
                exchanged = {**cases, site: masks_of_other_images(own)}
                boundaries += estimate_from_images(exchanged, label, seed=seed)[site].is_known
                shifts += estimate_site_shift(exchanged[site], label, seed=seed).is_known
                count += 1
    return f"| {name} | {seed} | {count} | {boundaries} | {shifts} |"


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables of rows, and of injected lengths, as Markdown."""
    head = "sites | known | error of known: mean / largest | > 1 px | covered, per axis | significant | ms per case |"
    lines = []
    for title, key in (("data", lambda item: item["row"]), ("injected", lambda item: max(map(abs, item["injected"])))):
        lines += [f"| {title} | {head}", "|---|---|---|---|---|---|---|---|"]
        names = list(dict.fromkeys(map(key, found)))
        groups = [(str(name), [item for item in found if key(item) == name]) for name in names]
        lines += [_line(name, group) for name, group in [*groups, ("all", found)]] + [""]
    return "\n".join(lines)


def _line(name: str, group: Sequence[Mapping[str, Any]]) -> str:
    known = [item for item in group if item["known"]]
    worst = np.array([max(item["error"]) for item in known] or [np.nan])
    covered = [error <= width for item in known for error, width in zip(item["error"], item["half_width"], strict=True)]
    significant = sum(item["significant"] for item in group)
    cost = np.mean([item["milliseconds_per_case"] for item in group])
    return (
        f"| {name} | {len(group)} | {len(known)} | {worst.mean():.2f} / {worst.max():.1f} | {(worst > 1).sum()} "
        f"| {100 * np.mean(covered or [np.nan]):.0f} % | {significant} | {cost:.1f} |"
    )


def main() -> None:
    """Print the tables."""
    parser = row_options(__doc__, seeds=2)
    parser.add_argument("--shifts", default="0,1,2,4", help="injected lengths in pixels")
    parser.add_argument("--other-images", action="store_true", help="exchange masks among the cases of a site")
    asked = parser.parse_args()
    if asked.other_images:
        print("| data | seed | sites | boundary known | shift known |\n|---|---|---|---|---|")
        for name, seeds in asked_runs(asked).items():
            for seed in seeds:
                print(other_images_row(name, seed), flush=True)
        return
    shifts = [int(length) for length in asked.shifts.split(",")]
    print(table(measured_rows(asked, partial(estimate_row, shifts=shifts), _line)))


if __name__ == "__main__":
    main()
