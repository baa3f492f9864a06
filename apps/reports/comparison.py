"""What a comparison found: the runs' scores, differences paired by seed, and whether groups are those drawn."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text
from scipy.stats import ttest_rel

from ...custom.aggregation.weighting import FEW_EFFECTIVE_SITES
from ...custom.methods.feda3i.records import EstimateRecord, QualityFindings
from ...custom.methods.fedia.records import CompletenessFindings
from ...custom.run.summary_record import ClassificationSummary, Summary
from ...transforms.strict_files import read_json
from ..terminal import Terminal
from ..wording.case_tests import METRIC_NAMES, evaluated_in_words, interval_in_words, metric_factor, p_value_in_words
from ..wording.final_model import case_models_in_words, compared_in_words
from .annotation_findings import PrecisionAndRecall, completeness_errors, correction_scores, pooled_correction
from .case_statistics import CaseTest
from .centre_scores import centre_scores
from .compared_runs import COMPARED_ROUNDS, ComparedRound, ComparedRun, Comparison, PairedDifferences
from .compared_settings import settings_in_words
from .label_findings import pooled_selection, rare_class_recall, rare_classes, selection_scores
from .output import number, percent, score_columns, scoring_of

_NO_SPREAD = 1e-12
# Columns of words.
LEFT_COLUMNS = ("arm", "groups", "as drawn")


def paired_statistics(reference: Sequence[float], other: Sequence[float]) -> PairedDifferences:
    """Return differences other - reference, their mean and standard deviation, and the paired t-test's two-sided
    p-value.

    With one pair, or equal differences, there is no test and the p-value is None.
    """
    differences = [b - a for a, b in zip(reference, other, strict=True)]
    deviation = statistics.stdev(differences) if len(differences) > 1 else None
    # Differences that are equal but for rounding leave nothing to test.
    p_value = float(ttest_rel(other, reference).pvalue) if deviation is not None and deviation > _NO_SPREAD else None
    return PairedDifferences(
        differences=tuple(differences),
        mean=statistics.fmean(differences),
        standard_deviation=deviation,
        p_value=p_value,
    )


def comparison_columns(comparison: Comparison) -> dict[str, list[str]]:
    """Return the cells of a table with a row per run, by heading, which may have several lines.

    What a method found out has a column where any run has something to say.
    """
    runs = comparison.runs
    columns = {"arm": [run.arm for run in runs], "seed": [str(run.seed) for run in runs], **score_columns(runs)}
    for heading, show in _FINDINGS.items():
        cells = [show(run) for run in runs]
        if set(cells) != {"-"}:
            columns[heading] = cells
    columns["s"] = [number(run.seconds, 0) for run in runs]
    columns["MB"] = [number(run.peak_memory_mb, 0) for run in runs]
    return columns


def differences_in_words(comparison: Comparison) -> list[str]:
    """Return a line for every arm but the first: how its scores differ, over seeds and with a paired test."""
    label = scoring_of(comparison.runs[0]).label
    lines = []
    for pair in comparison.paired:
        spread = "" if pair.standard_deviation is None else f" ± {100 * pair.standard_deviation:z.1f}"
        test = "" if pair.p_value is None else f", paired t-test p = {pair.p_value:z.3f}"
        each = ", ".join(f"{100 * difference:+z.1f}" for difference in pair.differences)
        difference = f"{100 * pair.mean:+z.1f}{spread} {label} points"
        lines.append(f"{pair.arm} - {pair.reference}: {difference} (seeds: {each}){test}")
    return lines


def case_differences_in_words(comparison: Comparison) -> list[str]:
    """Return what is tested over cases, and a line for every arm that has results per case: how it differs."""
    tests = comparison.case_tests or ()
    return [case_tests_head(comparison), *map(_case_difference, tests)] if tests else []


def case_tests_head(comparison: Comparison) -> str:
    """Return of which models and on which cases the tests over cases are, as a sentence; empty without any."""
    if not comparison.case_tests:
        return ""
    known = [run.case_model for run in comparison.runs if run.case_model is not None]
    models = case_models_in_words(known) or "the final models"
    return f"Case by case: {models}, on {evaluated_in_words(comparison.case_tests[0].evaluated_on)}."


def _case_difference(test: CaseTest) -> str:
    factor = metric_factor(test.metric)
    points = "" if test.metric == "hd95" else " points"
    return (
        f"{test.arm} - {test.reference}, case by case: {factor * test.mean:+z.1f} {METRIC_NAMES[test.metric]}{points}, "
        f"95 % interval {interval_in_words(test.metric, test.low, test.high)} ({test.num_cases} pairs of cases, "
        f"{test.num_patients} patients); Wilcoxon p = {p_value_in_words(test.p_wilcoxon)}, "
        f"Holm over arms {p_value_in_words(test.p_wilcoxon_holm)}"
    )


def case_test_columns(comparison: Comparison) -> dict[str, list[str]]:
    """Return the cells of a table with a row per test over cases, by heading."""
    tests = comparison.case_tests or ()
    return {
        "arm": [test.arm for test in tests],
        "difference": [f"{metric_factor(test.metric) * test.mean:+z.1f}" for test in tests],
        "95 % interval, cases": [interval_in_words(test.metric, test.low, test.high) for test in tests],
        "Wilcoxon p": [p_value_in_words(test.p_wilcoxon) for test in tests],
        "Holm": [p_value_in_words(test.p_wilcoxon_holm) for test in tests],
        "95 % interval, seeds": [interval_in_words(test.metric, test.seeds_low, test.seeds_high) for test in tests],
        "paired t, p": [p_value_in_words(test.p_seeds) for test in tests],
        "Holm, seeds": [p_value_in_words(test.p_seeds_holm) for test in tests],
        "cases": [str(test.num_cases) for test in tests],
        "patients": [str(test.num_patients) for test in tests],
    }


def print_comparison(comparison: Comparison, console: Terminal) -> None:
    """Print what the arms have alike and what differs, a row per run, and the paired differences to the reference."""
    for line in settings_in_words(comparison.settings):
        console.print(line, soft_wrap=True)
    title = compared_in_words(comparison.runs).capitalize()
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    columns = comparison_columns(comparison)
    for heading in columns:
        # Headings may have several lines.
        table.add_column(Text(heading), justify="left" if heading in LEFT_COLUMNS else "right", no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)
    _print_unscored(comparison, console)
    for run in comparison.runs:
        _print_dominance(run, console)
    for line in differences_in_words(comparison) + case_differences_in_words(comparison):
        console.print(line)


def _print_unscored(comparison: Comparison, console: Terminal) -> None:
    """Name the classes that the scores of some seeds say nothing about."""
    seeds: dict[tuple[str, ...], list[int]] = {}
    for run in comparison.runs:
        if run.unscored_classes and run.seed not in seeds.setdefault(run.unscored_classes, []):
            seeds[run.unscored_classes].append(run.seed)
    for names, of_seeds in seeds.items():
        shown = ", ".join(map(str, sorted(of_seeds)))
        console.print(f"Scores without {', '.join(names)}, of which no case was scored: seeds {shown}", style="yellow")


def _print_dominance(run: ComparedRun, console: Terminal) -> None:
    """Say of a run whose weights were nearly one site's in a round."""
    known = [(sites, record.round) for record in run.rounds if (sites := record.effective_sites) is not None]
    few = [(sites, number) for sites, number in known if sites < FEW_EFFECTIVE_SITES]
    if few and run.num_sites > 1:
        sites, worst = min(few)
        console.print_named(
            run.arm,
            f", seed {run.seed}: in {len(few)} rounds one site nearly decided alone; {sites:z.2f} effective sites of "
            f"{run.num_sites} in round {worst}",
            style="yellow",
        )


def describe_run(
    arm: str, seed: int, run: Path, summary: Summary, federation: Path, *, scores_centres: bool = False
) -> ComparedRun:
    """Return what a comparison keeps of one run.

    Args:
        arm: the arm's name.
        seed: the run's seed.
        run: the run's output folder.
        summary: the run's summary.
        federation: folder of the run's data, for the noise that was drawn and the lesions that were left out.
        scores_centres: score the final models on generic data and on the sites' own cases.
    """
    quality, result = summary.added(QualityFindings), summary.added(CompletenessFindings)
    estimate = None if quality is None else quality.estimate
    groups: dict[str, str | None] = {}
    if estimate is not None:
        groups = {site: predicted.group for site, predicted in estimate.sites.items()}
    # None for a method that estimates no completeness.
    completeness = {site: one.estimate for site, one in ((result and result.completeness) or {}).items()}
    # None for a segmentation.
    is_classification = isinstance(summary, ClassificationSummary)
    return ComparedRun.model_validate(
        {
            "arm": arm,
            "task": summary.task,
            "method": summary.method,
            "seed": seed,
            "last_rounds": summary.last_rounds,
            "last_round": summary.last_round,
            **_final_scores(summary),
            **({} if summary.scored_rounds is None else {"scored_rounds": summary.scored_rounds}),
            "num_sites": len(summary.sites),
            "rounds": _rounds(summary),
            "groups": _groups_in_words(estimate),
            "p_value": None if estimate is None else estimate.p_value,
            "groups_as_drawn": groups_as_drawn(groups, federation),
            "completeness": completeness_errors(completeness, federation) if completeness else None,
            "corrections": correction_scores(run, federation, list(completeness)) if completeness else None,
            "selection": selection_scores(run, list(summary.sites)) if is_classification else None,
            "rare_recall": _rare_recall(summary, federation),
            "centres": centre_scores(run, summary, federation) if scores_centres else None,
            "seconds": summary.seconds,
            "peak_memory_mb": summary.peak_memory_mb,
            **({"unscored_classes": summary.unscored_classes} if summary.unscored_classes else {}),
        }
    )


def _final_scores(summary: Summary) -> dict[str, dict[str, object]]:
    """What a comparison keeps of the final model's scores, where it is another than the last one."""
    if summary.final_scores is None:
        return {}
    names = type(summary.last_round).model_fields
    return {"final_scores": {name: getattr(summary.final_scores, name) for name in names}}


def _rounds(summary: Summary) -> list[ComparedRound]:
    kind = COMPARED_ROUNDS[summary.task]
    return [
        kind.model_validate({name: value for name, value in record.plain().items() if name in kind.model_fields})
        for record in summary.rounds
    ]


def _groups_in_words(estimate: EstimateRecord | None) -> str:
    if estimate is None:
        return "-"
    groups = [predicted.group for predicted in estimate.sites.values()]
    return "none" if estimate.reason else f"{groups.count('larger')} larger, {groups.count('smaller')} smaller"


def _rare_recall(summary: Summary, federation: Path) -> float | None:
    if not isinstance(summary, ClassificationSummary):
        return None
    counted = {record.round for record in summary.counted_rounds}
    rounds = [record for record in summary.rounds if record.round in counted]
    return rare_class_recall(rounds, rare_classes(federation))


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


def _completeness_error(run: ComparedRun) -> str:
    return "-" if run.completeness is None else number(run.completeness.mean_absolute_error, 2)


def _correction(run: ComparedRun) -> str:
    return _right(pooled_correction(run.corrections)) if run.corrections else "-"


def _selection(run: ComparedRun) -> str:
    return _right(pooled_selection(run.selection)) if run.selection else "-"


def _right(found: PrecisionAndRecall) -> str:
    return "-" if found.precision is None else f"{percent(found.precision)}, {percent(found.recall)}"


def _generic(run: ComparedRun) -> str:
    return "-" if run.centres is None else percent(run.centres.generic)


def _own(run: ComparedRun) -> str:
    return percent(statistics.fmean(run.centres.own.values())) if run.centres is not None and run.centres.own else "-"


# What a method found out about annotations.
_FINDINGS: dict[str, Callable[[ComparedRun], str]] = {
    "groups": lambda run: run.groups,
    "as drawn": lambda run: {True: "yes", False: "no", None: "-"}[run.groups_as_drawn],
    "compl.\nerror": _completeness_error,
    "added: prec.,\nrecall %": _correction,
    "wrong labels:\nprec., recall %": _selection,
    "generic,\nlast round": _generic,
    "own cases,\nlast round": _own,
}
