"""What is printed of a run: its scores, what was concluded of each site, and how it compares with another run."""

import io
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from ...custom.evaluation.score_records import ClassificationMeans, SegmentationMeans
from ...custom.methods.auto.records import BiasFindings, RollbackFindings
from ...custom.methods.auto_classification.records import ConfusionFindings
from ...custom.methods.feda3i.records import QualityFindings
from ...custom.records.round_records import SiteReport
from ...custom.run.summary_record import BoundedInRound, SegmentationRoundSummary, Summary
from ...transforms.natural_order import natural_order
from ..terminal import Terminal
from ..wording.convergence import not_converged_in_words
from ..wording.final_model import compared_in_words, scored_in_words, stopped_early_in_words
from ..wording.groups import no_groups_in_words
from ..wording.refusals import refusal_in_words
from .bias_text import print_channels, print_rollback
from .compared_runs import ComparedRun
from .noise_level_text import print_noise_levels
from .output import number, number_range, percent, score_columns, score_text, scoring_of
from .site_columns import WORDS, site_columns, site_legend, weight_beside_noise

# Characters of a line that is not broken.
_ONE_LINE = 100_000
# Fields of a site's privacy account, the δ that each is stated for, and whom it protects.
_PRIVATE = (
    ("privacy_epsilon", "privacy_delta", "of the site's taking part, by its updates"),
    ("statistics_epsilon", "statistics_delta", "of a patient, by quality statistics alone"),
    ("patient_epsilon", "privacy_delta", "of a patient, by updates and quality statistics together"),
)


def print_difference(summary: Summary, other: Summary, console: Terminal) -> None:
    """Print the scores of two runs on the same data next to each other."""
    table = Table(title=f"On the same data, {compared_in_words((other, summary))}")
    columns = {"method": [run.method for run in (other, summary)]} | score_columns((other, summary))
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)
    one, reference = summary.main_score, other.main_score
    if one is not None and reference is not None:
        gain = 100 * (one - reference)
        points = f"{gain:+z.1f} {scoring_of(summary).label} points"
        console.print(f"{summary.method} - {other.method}: {points}{without(summary)}")


def headline(summary: Summary) -> str:
    """Return a run in a sentence: method, seed, rounds, time, scores."""
    return (
        f"{summary.method}, seed {summary.seed}, {summary.rounds_finished} rounds, {summary.seconds:z.0f} s: "
        f"{_score_text(summary)} ({scored_in_words(summary, summary.final_model)}{without(summary)})"
    )


def print_summary(summary: Summary, console: Terminal) -> None:
    """Print a run's scores and, for a quality-aware method, what was concluded of each site."""
    console.print_named(summary.method, headline(summary).removeprefix(summary.method))
    _print_averaging_alone(summary.added(QualityFindings), console)
    console.print(_site_table(summary))
    for sentence in site_legend(summary):
        console.print(sentence)
    _print_conclusions(summary, console)


def conclusions(summary: Summary) -> list[str]:
    """Return what is to be said of a run besides its scores and its table of sites, a sentence or two each."""
    lines = Terminal(file=io.StringIO(), width=_ONE_LINE, soft_wrap=True)
    _print_averaging_alone(summary.added(QualityFindings), lines)
    _print_conclusions(summary, lines)
    text = lines.file
    assert isinstance(text, io.StringIO)
    return [line for line in text.getvalue().splitlines() if line.strip()]


def _print_conclusions(summary: Summary, console: Terminal) -> None:
    if said := not_converged_in_words(summary.score_trend, scoring_of(summary).label):
        console.print(said, style="yellow")
    rounds = summary.settings.get("rounds")
    if isinstance(rounds, int) and (
        said := stopped_early_in_words(summary.final_model, summary.rounds_finished, rounds)
    ):
        console.print(said)
    print_effective_sites(summary, console)
    if explanation := weight_beside_noise(summary):
        console.print(explanation)
    print_channels(summary.added(BiasFindings), summary.rounds_finished, console)
    print_noise_levels(summary.added(ConfusionFindings), console)
    print_rollback(summary.added(RollbackFindings), console)
    if summary.absent:
        console.print(f"Not there when the job started: {', '.join(summary.absent)}", style="yellow")
    _print_privacy(summary.sites, console)
    _print_bounds(summary.bounded, console)
    print_refusals(summary, console)


def _print_averaging_alone(quality: QualityFindings | None, console: Terminal) -> None:
    """Say of a run of FedA³I without groups of sites that it was federated averaging, and what to try."""
    if quality is None:
        return
    estimate = quality.estimate
    if estimate is not None and not estimate.reason:
        return
    if estimate is None:
        why, hint = "The warm-up was not over.", "Try more rounds (--set rounds=...)."
    else:
        why = f"No groups of sites: {no_groups_in_words(estimate)}"
        hint = "Try jobs/auto, which measures each site by itself."
        # Else too few sites have an estimate, or all have the same.
        if estimate.p_value is not None:
            hint = (
                "Try a longer warm-up (--set warmup_rounds=...), weights by the evidence for groups "
                "(--set group_decision=shrink), or jobs/auto, which measures each site by itself."
            )
    console.print(f"All rounds were federated averaging. {why} {hint}", style="yellow")


def print_effective_sites(summary: Summary, console: Terminal) -> None:
    """Print for every stage how many sites its rounds' weights are of in effect; warn where one nearly decides alone.

    Of the layer blocks the one counts in which they are fewest.
    """
    known = [(record, sites) for record in summary.rounds if (sites := record.effective_sites) is not None]
    parts = []
    for stage in dict.fromkeys(record.stage for record, _ in known):
        of_stage = [(record.round, sites) for record, sites in known if record.stage == stage]
        fewest, most = (f(sites for _, sites in of_stage) for f in (min, max))
        rounds = _rounds([number for number, _ in of_stage])
        parts.append(f"{number_range(fewest, most, 1)} ({stage}, {rounds})")
    if parts:
        console.print(f"effective sites of {len(summary.sites)}: {'; '.join(parts)}")
    if summary.dominant:
        most_of = max(summary.dominant, key=lambda entry: entry.weight)
        console.print(
            f"In {len(summary.dominant)} of {summary.rounds_finished} rounds one site nearly decided alone: in round "
            f"{most_of.round} {most_of.site} had {most_of.weight:z.2f} of the weight.",
            style="yellow",
        )


def print_refusals(summary: Summary, console: Terminal) -> None:
    """Print whose results did not count, and why."""
    for refusal in summary.refusals:
        console.print(
            f"Round {refusal.round}: {refusal.site} refused: {refusal_in_words(refusal.reason)}", style="yellow"
        )


def _rounds(numbers: Sequence[int]) -> str:
    """Write rounds, of which some between the first and the last may not be known."""
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"round {first}"
    known = "" if len(numbers) == last - first + 1 else f"{len(numbers)} of "
    return f"{known}rounds {first} to {last}"


def without(run: Summary | ComparedRun) -> str:
    """Name the classes that a run's scores say nothing about, as the end of a phrase; nothing if there are none."""
    names = run.unscored_classes or ()
    return f"; without {', '.join(names)}, of which no case was scored" if names else ""


def _score_text(summary: Summary) -> str:
    """The scores in words; HD95 with its unit, millimetres or pixels, and how many cases were missed, if known."""
    last = summary.result_scores
    if isinstance(last, SegmentationMeans):
        units = {record.hd95_unit for record in summary.rounds if isinstance(record, SegmentationRoundSummary)}
        distance = " ".join([number(last.hd95), *sorted(unit for unit in units if unit is not None)])
        share = last.left_empty
        left_empty = "" if share is None else f"{percent(share)} % of the empty cases left empty, "
        missed = "" if last.hd95_undefined is None else f", {score_text('hd95_undefined', last.hd95_undefined)} missed"
        return f"Dice {percent(last.dice)} %, {left_empty}HD95 {distance}{missed}"
    assert isinstance(last, ClassificationMeans)
    return f"macro F1 {percent(last.f1)} %, recall {percent(last.recall)} %, precision {percent(last.precision)} %"


def _site_table(summary: Summary) -> Table:
    """One row per site."""
    columns = site_columns(summary)
    table = Table(title="Sites", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in columns:
        table.add_column(heading, justify="left" if heading in WORDS else "right", no_wrap=True)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _print_bounds(bounded: Sequence[BoundedInRound], console: Terminal) -> None:
    """Say whose influence was bounded, in how many rounds, and how far at most."""
    for site in sorted({entry.site for entry in bounded}, key=natural_order):
        of_site = [entry for entry in bounded if entry.site == site]
        factors = [(entry.update_factor, entry.update_group) for entry in of_site if entry.update_factor is not None]
        shares = sum(entry.share is not None for entry in of_site)
        said = []
        if factors:
            factor, group = min(factors, key=lambda pair: pair[0])
            where = "" if group is None else f" in {group}"
            said = [f"updates scaled down in {len(factors)} rounds, to {factor:.3g} at least{where}"]
        said += [f"weight bounded in {shares} rounds"] if shares else []
        console.print(f"{site}: {'; '.join(said)}")


def _print_privacy(sites: Mapping[str, SiteReport], console: Terminal) -> None:
    """Say what sites that give noise to what they send have spent; None stands for a bound that is none."""
    for site, report in sites.items():
        for epsilon_field, delta_field, what in _PRIVATE:
            if report.has(epsilon_field) and (delta := report.named(delta_field)) is not None:
                epsilon = report.named(epsilon_field)
                spent = "no bound" if epsilon is None else f"ε = {epsilon:.3g}"
                said = f"{site}: differential privacy {what}: spent {spent} at δ = {delta:g}"
                console.print(said)
