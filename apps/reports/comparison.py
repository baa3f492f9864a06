"""What a comparison found: the runs' scores, differences paired by seed, and whether groups are those drawn."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text
from scipy.stats import ttest_rel

from ...custom.aggregation.weighting import FEW_EFFECTIVE_SITES
from ...transforms.strict_files import read_json
from ..terminal import Terminal
from .annotation_findings import completeness_errors, correction_scores, pooled_correction
from .centre_scores import centre_scores
from .label_findings import pooled_selection, rare_class_recall, rare_classes, selection_scores
from .output import number, percent, score_columns, scoring_of

_NO_SPREAD = 1e-12


def paired_statistics(reference: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Return differences other - reference, their mean and standard deviation, and the paired t-test's two-sided
    p-value.

    With one pair, or equal differences, there is no test and the p-value is None.
    """
    differences = [b - a for a, b in zip(reference, other, strict=True)]
    deviation = statistics.stdev(differences) if len(differences) > 1 else None
    # Differences that are equal but for rounding leave nothing to test.
    p_value = float(ttest_rel(other, reference).pvalue) if deviation is not None and deviation > _NO_SPREAD else None
    return {
        "differences": differences,
        "mean": statistics.fmean(differences),
        "standard_deviation": deviation,
        "p_value": p_value,
    }


def print_comparison(comparison: Mapping[str, Any], console: Terminal) -> None:
    """Print a row per run and the paired differences to the reference."""
    table = Table(title="Mean of the last five rounds", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    findings = [heading for heading, show in _FINDINGS.items() if any(show(run) != "-" for run in comparison["runs"])]
    scores = score_columns(comparison["runs"])
    for heading in ("arm", "seed", *scores, *findings, "s", "MB"):
        left = heading in ("arm", "groups", "as drawn")
        # Headings may have several lines.
        table.add_column(Text(heading), justify="left" if left else "right", no_wrap=True)
    for index, run in enumerate(comparison["runs"]):
        table.add_row(
            run["arm"],
            str(run["seed"]),
            *(cells[index] for cells in scores.values()),
            *(_FINDINGS[heading](run) for heading in findings),
            number(run["seconds"], 0),
            number(run["peak_memory_mb"], 0),
        )
    console.print(table)
    for run in comparison["runs"]:
        _print_dominance(run, console)
    label = scoring_of(comparison["runs"][0]).label
    for pair in comparison["paired"]:
        spread = "" if pair["standard_deviation"] is None else f" ± {100 * pair['standard_deviation']:.1f}"
        test = "" if pair["p_value"] is None else f", paired t-test p = {pair['p_value']:.3f}"
        each = ", ".join(f"{100 * difference:+.1f}" for difference in pair["differences"])
        difference = f"{100 * pair['mean']:+.1f}{spread} {label} points"
        console.print(f"{pair['arm']} - {pair['reference']}: {difference} (seeds: {each}){test}")


def _print_dominance(run: Mapping[str, Any], console: Terminal) -> None:
    """Say of a run whose weights were nearly one site's in a round."""
    known = [record for record in run.get("rounds", []) if record.get("effective_sites") is not None]
    few = [record for record in known if record["effective_sites"] < FEW_EFFECTIVE_SITES]
    if few and run.get("num_sites", 1) > 1:
        worst = min(few, key=lambda record: float(record["effective_sites"]))
        console.print_named(
            run["arm"],
            f", seed {run['seed']}: in {len(few)} rounds one site nearly decided alone; {worst['effective_sites']:.2f} "
            f"effective sites of {run['num_sites']} in round {worst['round']}",
            style="yellow",
        )


def describe_run(
    arm: str, seed: int, run: Path, summary: Mapping[str, Any], federation: Path, *, scores_centres: bool = False
) -> dict[str, Any]:
    """Return what a comparison keeps of one run.

    Args:
        arm: the arm's name.
        seed: the run's seed.
        run: the run's output folder.
        summary: the run's summary.
        federation: folder of the run's data, for the noise that was drawn and the lesions that were left out.
        scores_centres: score the final models on generic data and on the sites' own cases.
    """
    estimate = summary.get("estimate")
    groups = {site: judged["group"] for site, judged in estimate["sites"].items()} if estimate else {}
    counts = {group: sum(found == group for found in groups.values()) for group in ("larger", "smaller")}
    kept = ("round", *scoring_of(summary).names, "stability", "effective_sites")
    described = "-"
    if estimate:
        described = "none" if estimate["reason"] else f"{counts['larger']} larger, {counts['smaller']} smaller"
    return {
        "arm": arm,
        "task": summary["task"],
        "method": summary["method"],
        "seed": seed,
        "last_rounds": summary["last_rounds"],
        "last_round": summary["last_round"],
        "num_sites": len(summary["sites"]),
        "rounds": [{key: record[key] for key in kept if key in record} for record in summary["rounds"]],
        "groups": described,
        "p_value": estimate["p_value"] if estimate else None,
        "groups_as_drawn": groups_as_drawn(groups, federation),
        **_completeness_findings(run, summary, federation),
        **_label_findings(run, summary, federation),
        "centres": centre_scores(run, summary, federation) if scores_centres else None,
        "seconds": summary["seconds"],
        "peak_memory_mb": summary["peak_memory_mb"],
    }


def _completeness_findings(run: Path, summary: Mapping[str, Any], federation: Path) -> dict[str, Any]:
    """How right a method was that estimates completeness and corrects annotations; both None for others."""
    estimates = summary.get("completeness")
    if not estimates:
        return {"completeness": None, "corrections": None}
    return {
        "completeness": completeness_errors(estimates, federation),
        "corrections": correction_scores(run, federation, list(estimates)),
    }


def _label_findings(run: Path, summary: Mapping[str, Any], federation: Path) -> dict[str, Any]:
    """How right a method was that doubts labels, and what became of rare classes; both None for segmentation."""
    if summary["task"] != "classification":
        return {"selection": None, "rare_recall": None}
    return {
        "selection": selection_scores(run, list(summary["sites"])),
        "rare_recall": rare_class_recall(summary["rounds"], rare_classes(federation)),
    }


def groups_as_drawn(groups: Mapping[str, str | None], federation: Path) -> bool | None:
    """Return whether the groups agree with the sign of every site's true noise, None where there are no groups or no
    noise.

    Args:
        groups: ``larger`` or ``smaller`` by site.
        federation: folder whose manifests tell the noise that was drawn; known in research runs only.
    """
    drawn: dict[str, str] = {}
    for site in groups:
        manifest = federation / site / "manifest.json"
        noise = read_json(manifest, "a manifest").get("noise") if manifest.is_file() else None
        if noise:
            drawn[site] = "larger" if noise["mean"] > 0 else "smaller"
    if not drawn or not any(groups.values()):
        return None
    return all(groups[site] == group for site, group in drawn.items())


def _completeness_error(run: Mapping[str, Any]) -> str:
    return number(run["completeness"]["mean_absolute_error"], 2) if run.get("completeness") else "-"


def _correction(run: Mapping[str, Any]) -> str:
    pooled = pooled_correction(run["corrections"]) if run.get("corrections") else None
    if pooled is None or pooled["precision"] is None:
        return "-"
    return f"{percent(pooled['precision'])}, {percent(pooled['recall'])}"


def _selection(run: Mapping[str, Any]) -> str:
    pooled = pooled_selection(run["selection"]) if run.get("selection") else None
    if pooled is None or pooled["precision"] is None:
        return "-"
    return f"{percent(pooled['precision'])}, {percent(pooled['recall'])}"


def _generic(run: Mapping[str, Any]) -> str:
    return percent(run["centres"]["generic"]) if run.get("centres") else "-"


def _own(run: Mapping[str, Any]) -> str:
    own = (run.get("centres") or {}).get("own")
    return percent(statistics.fmean(own.values())) if own else "-"


# What a method found out about annotations; a column is shown where any run has something to say.
_FINDINGS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "groups": lambda run: str(run["groups"]),
    "as drawn": lambda run: {True: "yes", False: "no", None: "-"}[run["groups_as_drawn"]],
    "compl.\nerror": _completeness_error,
    "added: prec.,\nrecall %": _correction,
    "wrong labels:\nprec., recall %": _selection,
    "generic,\nlast round": _generic,
    "own cases,\nlast round": _own,
}
