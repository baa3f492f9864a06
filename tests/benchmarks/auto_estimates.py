"""How right the estimates of finished runs of `auto` are: read from their summaries, and from the clean labels.

    python tests/benchmarks/auto_estimates.py runs/bench/auto runs/bench/real

Offsets: true ones are the medians over a site's cases of the offset between its masks and the clean ones. Since zero is
common to all sites, errors and coverage are of the site less the reference level, the reference level being what makes
the mean error 0; the last column is the error of the reference level itself. A site whose given masks of its reviewed
cases were measured needs no reference level: its errors are of the offset as it is, and stand by themselves. Missing
objects: the true share is that of the objects of the clean masks that the given ones have nothing of, less that of the
most complete site. Confused classes: the true share is that of the given objects that have another class in the clean
masks. In the unit of the estimates, for each class; the first and the last estimate of each run.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import pearsonr

from fedannot.custom.annotation_bias.boundary_bias import mask_offset
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.transforms.connected_lesions import label_lesions

# Where true offsets spread by less, in the unit of the estimates, there is no order to be found.
SMALLEST_SPREAD = 0.3
CONFUSED_OBJECTS = "swapped 0"


def samples(data: SiteData) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Yield the spacing, the given and the clean classes of every sample."""
    for case in data.cases:
        if case.clean_label is not None:
            for given, clean in zip(case.label.numpy(), case.clean_label.numpy(), strict=True):
                yield case.spacing, given, clean


def with_true_classes(given: np.ndarray, clean: np.ndarray) -> np.ndarray:
    """Return given classes where each object has the one that most of it has in the clean ones, if any."""
    right = given.copy()
    for label in set(np.unique(given).tolist()) - {0}:
        objects, count = label_lesions(given == label)
        for number in range(1, count + 1):
            classes = np.bincount(clean[objects == number], minlength=2)[1:]
            if classes.any():
                right[objects == number] = classes.argmax() + 1
    return right


def true_offset(data: SiteData, label: int = 1) -> float:
    """Return the median offset of a site's masks of a class from the clean ones; NaN without any.

    An object counts by its true class: where given classes are wrong, contours are reported by what they were made.
    """
    result = [
        mask_offset(with_true_classes(given, clean) == label, clean == label, spacing)
        for spacing, given, clean in samples(data)
    ]
    offsets = [item.offset for item in result if item is not None]
    return statistics.median(offsets) if offsets else float("nan")


def complete_share(data: SiteData, label: int = 1) -> float:
    """Return the fraction of the clean objects of which the given masks have something; NaN without any.

    Those count neither way of which they have another class alone.
    """
    kept = gone = 0
    for _, given, clean in samples(data):
        objects, count = label_lesions(clean == label)
        of_class = set(np.unique(objects[given == label]).tolist()) - {0}
        of_any = set(np.unique(objects[given != 0]).tolist()) - {0}
        kept += len(of_class)
        gone += count - len(of_any)
    return kept / (kept + gone) if kept + gone else float("nan")


def confused_share(data: SiteData) -> float:
    """Return the fraction of the given objects of which most has another class in the clean masks; 0 where none differ.

    A case without a clean mask counts as right.
    """
    wrong = total = 0
    for case in data.cases:
        clean = case.label if case.clean_label is None else case.clean_label
        for given, true in zip(case.label.numpy(), clean.numpy(), strict=True):
            for label in set(np.unique(given).tolist()) - {0}:
                objects, count = label_lesions(given == label)
                for number in range(1, count + 1):
                    classes = np.bincount(true[objects == number], minlength=2)[1:]
                    total += 1
                    wrong += bool(classes.any()) and int(classes.argmax()) + 1 != label
    return wrong / total if total else float("nan")


def rows(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield name, data and summary of every finished run of `auto` in a benchmark's folder."""
    for file in sorted(folder.glob("*/runs/runs/auto-seed*/summary.json")):
        summary = json.loads(file.read_text(encoding="utf-8"))
        name = f"{file.parents[3].name} {file.parent.name.removeprefix('auto-')}"
        yield name, folder / file.parents[3].name / "data" / file.parent.name.removeprefix("auto-"), summary


def by_one_zero(found: Sequence[Mapping[str, Any]], true: np.ndarray) -> str:
    """Say how right offsets are that have their zero in common."""
    value, low, high = (np.array([item[key] for item in found]) for key in ("estimate", "low", "high"))
    shared = (value - true).mean()
    inside = (low - shared <= true) & (true <= high - shared)
    error = np.abs(value - shared - true).mean()
    deviation = [item["effect"] for item in found if item["effect"] is not None]
    zero = value.mean() - np.mean(deviation) - shared if len(deviation) == len(value) else np.nan
    return (
        f"  Pearson {pearsonr(value, true).statistic:.3f}  error {error:.2f} = {100 * error / true.std():.0f} % of the "
        f"spread  coverage {100 * inside.mean():.0f} %  zero {zero:+.2f}"
    )


def by_own_zero(found: Sequence[Mapping[str, Any]], true: np.ndarray) -> str:
    """Say how right offsets are that each site has from reviewed cases of its own."""
    errors = np.array([item["estimate"] for item in found]) - true
    inside = np.array([one["low"] <= offset <= one["high"] for one, offset in zip(found, true, strict=True)])
    return (
        f"  own reviewed cases: errors {' '.join(f'{error:+.2f}' for error in errors)}"
        f"  mean {np.abs(errors).mean():.2f}  coverage {100 * inside.mean():.0f} %"
    )


def of_shares(what: str, found: Sequence[Mapping[str, Any]], true: np.ndarray) -> str:
    """Say how right fractions of objects are."""
    errors = np.array([item["estimate"] for item in found]) - true
    inside = np.array([one["low"] <= share <= one["high"] for one, share in zip(found, true, strict=True)])
    return (
        f"  {what}: mean error {np.abs(errors).mean():.3f}, with its sign {errors.mean():+.3f}"
        f"  coverage {100 * inside.mean():.0f} %"
    )


def has_own_zero(found: Mapping[str, Any]) -> bool:
    """Tell whether an offset could be tested as it was measured, with nothing taken off for a common zero."""
    return found["p_value"] is not None and found["effect"] == found["estimate"]


def print_class(name: str, label: int, summary: dict[str, Any], loaded: Mapping[str, SiteData]) -> None:
    """Print a line for the first and one for the last estimate of a class in a run."""
    sites = list(loaded)
    offsets = np.array([true_offset(loaded[site], label) for site in sites])
    complete = np.array([complete_share(loaded[site], label) for site in sites])
    missing = 1 - complete / np.nanmax(complete) if np.isfinite(complete).any() else complete
    for channel in dict.fromkeys((0, len(summary["channels"]) - 1)):
        parameters = [summary["channels"][channel]["sites"][site]["parameters"] for site in sites]
        line = f"{name:34s} class {label} before round {summary['channels'][channel]['before_round']:2d}"
        result = [parameter[f"offset {label}"] for parameter in parameters]
        known = np.array([item["estimate"] is not None for item in result]) & np.isfinite(offsets)
        own = np.array([has_own_zero(item) for item in result]) & known
        for chosen, said, fewest in ((known & ~own, by_one_zero, 3), (own, by_own_zero, 1)):
            if chosen.sum() >= fewest and (said is by_own_zero or offsets[chosen].std() > SMALLEST_SPREAD):
                line += said([one for one, is_chosen in zip(result, chosen, strict=True) if is_chosen], offsets[chosen])
        shares = [parameter[f"missing {label}"] for parameter in parameters]
        if (
            np.isfinite(missing).all()
            and missing.max() > 0.1
            and all(share["estimate"] is not None for share in shares)
        ):
            line += of_shares("missing", shares, missing)
        print(line, flush=True)


def print_confused(name: str, summary: dict[str, Any], loaded: Mapping[str, SiteData]) -> None:
    """Print a line for the first and one for the last estimate of confused classes, where any are."""
    true = np.array([confused_share(data) for data in loaded.values()])
    if not true.max() > 0:
        return
    for channel in dict.fromkeys((0, len(summary["channels"]) - 1)):
        sites = summary["channels"][channel]["sites"]
        result = [sites[site]["parameters"][CONFUSED_OBJECTS] for site in loaded]
        known = np.array([item["estimate"] is not None for item in result])
        confirmed = [site for site, one in zip(loaded, result, strict=True) if one["status"] == "confirmed"]
        shares = [one for one, is_known in zip(result, known, strict=True) if is_known]
        number = summary["channels"][channel]["before_round"]
        said = of_shares("swapped", shares, true[known])
        print(f"{name:34s} all     before round {number:2d}{said}  confirmed at {', '.join(confirmed) or 'none'}")


def print_run(name: str, data: Path, summary: dict[str, Any]) -> None:
    """Print the lines of all classes of a run."""
    of_first = summary["channels"][0]["sites"]
    parameters = {parameter for site in of_first.values() for parameter in site["parameters"]}
    labels = sorted(int(item.removeprefix("offset ")) for item in parameters if item.startswith("offset "))
    with TemporaryDirectory() as cache:
        loaded = {site: load_site_data(data / site, Path(cache), site=site) for site in of_first}
        for label in labels:
            print_class(name, label, summary, loaded)
        if CONFUSED_OBJECTS in parameters:
            print_confused(name, summary, loaded)


def main() -> None:
    """Print the lines of all runs in the named folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="output folders of `fedannot bench auto` and the like")
    for folder in parser.parse_args().folders:
        for name, data, summary in rows(folder):
            print_run(name, data, summary)


if __name__ == "__main__":
    main()
