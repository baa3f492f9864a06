"""How often images alone flag masks of other images, and a bias of one side: sites as they are, and with such errors.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/site_flags.py [--seeds 3] [--first-seed 0] [--rows busi-ns]

At each site some masks of its list, a quarter to all, are rolled by half of them; or one side of all masks is moved by
2, 3, 4 or −3 pixels along an axis, the next direction at the next site; or all masks are shifted by 2 pixels. A site is
flagged rightly if the side and the sign are right. No network is trained.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from profile_rows import row_sites, without_truth
from site_shifts import moved_cases

from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.mask_pairing import PairingStatus, compare_masks
from fedannot.custom.annotation_bias.profile.one_sided import estimate_one_sided
from fedannot.custom.annotation_bias.profile.scales import ProfileCase

FRACTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
LENGTHS = (0, 2, 3, 4, -3)
SHIFT = 2
# A boundary bias is estimated first, with so many other sites.
NUM_OTHERS = 4
_FLAGS = (PairingStatus.SOME_OF_OTHER_IMAGES, PairingStatus.OF_OTHER_IMAGES)


@dataclass(frozen=True)
class Direction:
    """A side of objects: of an axis, towards higher indices or lower ones."""

    axis: int
    is_towards_end: bool


def exchanged(cases: Sequence[ProfileCase], fraction: float, generator: np.random.Generator) -> list[ProfileCase]:
    """Return cases of which a fraction has the masks of others among them."""
    result = list(cases)
    if not fraction:
        return result
    count = max(2, round(fraction * len(cases)))
    places = np.sort(generator.permutation(len(cases))[:count])
    for place, other in zip(places, np.roll(places, count // 2), strict=True):
        result[place] = replace(cases[place], annotation=cases[other].annotation)
    return result


def with_moved_side(case: ProfileCase, label: int, direction: Direction, length: int) -> ProfileCase:
    """Return a case with one side of the objects of a class moved outward by so many pixels, inward if negative."""
    mask, background = case.annotation == label, case.annotation == 0
    sign = (1 if direction.is_towards_end else -1) * (1 if length > 0 else -1)
    moved = [mask]
    for number in range(1, abs(length) + 1):
        step = [0] * mask.ndim
        step[direction.axis] = sign * number
        (shifted,) = moved_cases([ProfileCase("", case.image, mask.astype(np.uint8))], step)
        moved.append(shifted.annotation == 1)
    new = np.any(moved, axis=0) if length > 0 else np.all(moved, axis=0)
    annotation = np.where(mask & ~new, 0, np.where(new & background, label, case.annotation))
    return replace(case, annotation=annotation.astype(np.uint8))


def pairing_line(name: str, seeds: Sequence[int]) -> str:
    """Return a row of the table of exchanged masks: flagged sites of each fraction, some and all."""
    counts = {fraction: [0, 0, 0] for fraction in FRACTIONS}
    for seed, site, cases, _ in _sites(name, seeds):
        generator = np.random.default_rng([seed, *site.encode()])
        for fraction in FRACTIONS:
            status = compare_masks(exchanged(cases, fraction, generator), 1).status
            counts[fraction][0] += 1
            for place, flag in enumerate(_FLAGS, start=1):
                counts[fraction][place] += status is flag
    cells = " | ".join(f"{some} + {every}" for _, some, every in counts.values())
    return f"| {name} | {counts[0.0][0]} | {cells} |"


def side_line(name: str, seeds: Sequence[int]) -> str:
    """Return a row of the table of moved sides: flagged sites, those rightly, and the mean size."""
    cells: dict[str, list[tuple[bool, bool, float]]] = {}
    for number, (seed, site, cases, others) in enumerate(_sites(name, seeds)):
        axes = cases[0].annotation.ndim
        direction = Direction(number // 2 % axes, number % 2 == 0)
        shift = [0] * axes
        shift[direction.axis] = SHIFT if direction.is_towards_end else -SHIFT
        kinds = {str(n): [with_moved_side(case, 1, direction, n) if n else case for case in cases] for n in LENGTHS}
        for kind, changed in {**kinds, f"shift {SHIFT}": moved_cases(cases, shift)}.items():
            estimate = estimate_from_images({**others, site: changed}, 1, seed=seed)[site]
            bias = estimate.bias if estimate.is_known else 0.0
            result = estimate_one_sided(changed, 1, bias=bias, seed=seed)
            moved = result.moved
            is_right = moved is not None and Direction(moved.axis, moved.is_towards_end) == direction
            is_right &= moved is not None and (moved.excess > 0) == (not kind.startswith("-"))
            size = moved.excess / result.unit if moved is not None else np.nan
            cells.setdefault(kind, []).append((moved is not None, is_right, size))
    return f"| {name} | {len(cells['0'])} | {' | '.join(map(_cell, cells.values()))} |"


def _cell(results: Sequence[tuple[bool, bool, float]]) -> str:
    flagged, right, sizes = (np.array(values) for values in zip(*results, strict=True))
    size = f", {np.nanmean(sizes):+.1f}" if flagged.any() else ""
    return f"{flagged.sum()}, {right.sum()} right{size}"


def _sites(
    name: str, seeds: Sequence[int]
) -> Iterator[tuple[int, str, list[ProfileCase], dict[str, list[ProfileCase]]]]:
    for seed in seeds:
        for known in row_sites(name, seed):
            cases = {site: without_truth(some) for site, some in known.items()}
            for site, own in cases.items():
                others = [other for other in cases if other != site][:NUM_OTHERS]
                yield seed, site, own, {other: cases[other] for other in others}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--rows", default="busi-clean,busi-ns,busi-ne,phantom-clean,phantom-ns,phantom-random,slices-ns"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    print(f"| masks exchanged: some + all flagged | sites | {' | '.join(f'{part:.0%}' for part in FRACTIONS)} |")
    for name in asked.rows.split(","):
        print(pairing_line(name, seeds), flush=True)
    print(f"\n| one side moved by px | sites | {' | '.join(map(str, LENGTHS))} | all shifted by {SHIFT} |")
    for name in asked.rows.split(","):
        print(side_line(name, seeds), flush=True)


if __name__ == "__main__":
    main()
