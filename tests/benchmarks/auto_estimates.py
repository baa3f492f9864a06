"""How right the estimates of finished runs of `auto` are: read from their summaries, and from the clean labels.

    python tests/benchmarks/auto_estimates.py runs/bench/auto runs/bench/real

Offsets: true ones are the medians over a site's cases of the offset between its masks and the clean ones. Since zero is
common to all sites, errors and coverage are of the site less the anchor, the anchor being what makes the mean error 0;
the last column is the error of the anchor itself. Missing objects: the true share is that of the objects of the clean
masks that the given ones have nothing of, less that of the most complete site. In the unit of the estimates; the first
and the last estimate of each run.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import pearsonr

from fedannot.custom.channel.offset import mask_offset
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.transforms.connected_lesions import label_lesions

LABEL = 1


def samples(data: SiteData) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Yield the spacing, the given and the clean mask of every sample."""
    for case in data.cases:
        if case.clean_label is not None:
            for given, clean in zip(case.label.numpy(), case.clean_label.numpy(), strict=True):
                yield case.spacing, given == LABEL, clean == LABEL


def true_offset(data: SiteData) -> float:
    """Return the median offset of a site's masks from the clean ones."""
    found = [mask_offset(given, clean, spacing) for spacing, given, clean in samples(data)]
    return statistics.median(one.offset for one in found if one is not None)


def complete_share(data: SiteData) -> float:
    """Return the share of the clean objects of which the given masks have something."""
    kept = total = 0
    for _, given, clean in samples(data):
        objects, count = label_lesions(clean)
        total += count
        kept += len(np.unique(objects[given & (objects > 0)]))
    return kept / total


def rows(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield name, data and summary of every finished run of `auto` in a benchmark's folder."""
    for file in sorted(folder.glob("*/runs/runs/auto-seed*/summary.json")):
        summary = json.loads(file.read_text(encoding="utf-8"))
        name = f"{file.parents[3].name} {file.parent.name.removeprefix('auto-')}"
        yield name, folder / file.parents[3].name / "data" / file.parent.name.removeprefix("auto-"), summary


def print_run(name: str, data: Path, summary: dict[str, Any]) -> None:
    """Print a line for the first and one for the last estimate of a run."""
    sites = list(summary["channels"][0]["sites"])
    with TemporaryDirectory() as cache:
        loaded = {site: load_site_data(data / site, Path(cache), site=site) for site in sites}
        offsets = np.array([true_offset(loaded[site]) for site in sites])
        complete = np.array([complete_share(loaded[site]) for site in sites])
    missing = 1 - complete / complete.max()
    for channel in dict.fromkeys((0, len(summary["channels"]) - 1)):
        parameters = [summary["channels"][channel]["sites"][site]["parameters"] for site in sites]
        line = f"{name:34s} before round {summary['channels'][channel]['before_round']:2d}"
        found = [one["offset 1"] for one in parameters]
        known = np.array([one["estimate"] is not None for one in found])
        if known.sum() > 2 and offsets.std() > 0.3:
            value, low, high = (
                np.array([one[key] for one in found if one["estimate"] is not None])
                for key in ("estimate", "low", "high")
            )
            true = offsets[known]
            shared = (value - true).mean()
            inside = (low - shared <= true) & (true <= high - shared)
            error = np.abs(value - shared - true).mean()
            deviation = [one["deviation"] for one in found if one["deviation"] is not None]
            zero = value.mean() - np.mean(deviation) - shared if len(deviation) == len(value) else np.nan
            spread = 100 * error / true.std()
            line += (
                f"  Pearson {pearsonr(value, true).statistic:.3f}  error {error:.2f} = {spread:.0f} % of the spread"
                f"  coverage {100 * inside.mean():.0f} %  zero {zero:+.2f}"
            )
        shares = [one["missing 1"]["estimate"] for one in parameters]
        if missing.max() > 0.1 and None not in shares:
            line += f"  missing: mean error {np.abs(np.array(shares) - missing).mean():.2f}"
        print(line, flush=True)


def main() -> None:
    """Print the lines of all runs in the named folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="output folders of `fedannot bench auto` and the like")
    for folder in parser.parse_args().folders:
        for name, data, summary in rows(folder):
            print_run(name, data, summary)


if __name__ == "__main__":
    main()
