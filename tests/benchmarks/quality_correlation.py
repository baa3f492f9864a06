"""Estimated against true annotation quality of the sites of a finished comparison, whose clean labels are known.

    python tests/benchmarks/quality_correlation.py runs/bench/real/cells

True quality is the mean Dice of a site's masks against its clean ones. What the server knows of a site is its learning
difficulty: inside (q_in) and outside (q_out) the annotated contours. Their sum says how hard the site's contours are to
learn, their difference whether it draws larger or smaller than the others.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr

from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import load_site_data


def true_quality(federation: Path) -> dict[str, dict[str, float]]:
    """Return the mean Dice of every site's masks against the clean ones, and the area ratio."""
    quality = {}
    with tempfile.TemporaryDirectory() as cache:
        for site in read_federation(federation).sites:
            data = load_site_data(federation / site, Path(cache), site=site)
            assert data.clean_labels is not None
            given, clean = (labels.flatten(1) > 0 for labels in (data.labels, data.clean_labels))
            dice = 2 * (given & clean).sum(1) / (given.sum(1) + clean.sum(1))
            ratio = torch.log(given.sum(1) / clean.sum(1)).mean().exp()
            quality[site] = {"dice": float(dice.mean()), "area_ratio": float(ratio)}
    return quality


def correlations(estimate: dict[str, Any], quality: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return Spearman's rank correlations over the sites that have an estimate."""
    sites = sorted(estimate["sites"])
    inner, outer = ([sum(estimate["sites"][site][key]) for site in sites] for key in ("inner", "outer"))
    dice = [quality[site]["dice"] for site in sites]
    ratio = [quality[site]["area_ratio"] for site in sites]
    total = [a + b for a, b in zip(inner, outer, strict=True)]
    difference = [a - b for a, b in zip(inner, outer, strict=True)]
    return {
        "sites": {
            site: quality[site] | {"q_in": a, "q_out": b} for site, a, b in zip(sites, inner, outer, strict=True)
        },
        "difficulty_with_dice": float(spearmanr(total, dice).statistic),
        "difference_with_area_ratio": float(spearmanr(difference, ratio).statistic),
        "group_p_value": estimate["p_value"],
    }


def main() -> None:
    """Print the correlations of every seed and their means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", type=Path, help="folder of a row of compare_on_real_images.py")
    row = parser.parse_args().row
    result = {}
    for run in sorted((row / "runs" / "runs").glob("feda3i-seed*")):
        if (run / "summary.json").is_file():
            seed = run.name.removeprefix("feda3i-seed")
            summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
            result[seed] = correlations(summary["estimate"], true_quality(row / "data" / f"seed{seed}"))
    print(json.dumps(result, indent=1))
    for key in ("difficulty_with_dice", "difference_with_area_ratio"):
        print(f"{key}: mean {statistics.fmean(item[key] for item in result.values()):+.2f} over {len(result)} seeds")


if __name__ == "__main__":
    main()
