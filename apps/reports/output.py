"""The output of a run in one folder: model, summary, metrics, and what a person sees of it."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from ...custom.data.whole_files import replaced, write_text
from ...custom.evaluation.scoring import Scoring
from ...custom.run.state import METRICS_FILE, SUMMARY_FILE
from ...transforms.natural_order import natural_order
from ...transforms.strict_files import read_json
from ..terminal import Terminal

# Fields of a site's privacy account, the δ that each is stated for, and whom it protects.
_PRIVATE = (
    ("privacy_epsilon", "privacy_delta", "of the site's taking part, by its updates"),
    ("statistics_epsilon", "statistics_delta", "of a patient, by quality statistics alone"),
    ("patient_epsilon", "privacy_delta", "of a patient, by updates and quality statistics together"),
)

# How scores are called in tables.
_SCORE_HEADINGS = {
    **{"dice": "Dice %", "left_empty": "left\nempty\n%", "hd95": "HD95"},
    **{"f1": "F1 %", "recall": "recall %", "precision": "precision %"},
}

MODEL_FILE = "model.pt"
# In the server's run folder.
PERSISTED_MODEL = Path("app_server") / "FL_global_model.pt"


class OutputError(ValueError):
    """A folder is not the output of a run."""


def find_run_folder(workspace: Path) -> Path:
    """Return the server's run folder in a simulator's workspace or in an output folder.

    Raises:
        OutputError: if there is none, or several.
    """
    found = [
        file.parent for file in sorted(workspace.glob(f"**/{SUMMARY_FILE}")) if (file.parent / "app_server").is_dir()
    ]
    if len(found) != 1:
        raise OutputError(f"Expected one run with a {SUMMARY_FILE} below {workspace}, but found {len(found)}.")
    return found[0]


def has_server_summary(workspace: Path) -> bool:
    """Return whether a server wrote a summary somewhere below a folder; in a swarm, and at a site, none does."""
    return any((file.parent / "app_server").is_dir() for file in workspace.glob(f"**/{SUMMARY_FILE}"))


def collect_output(run_folder: Path, out: Path, added: Callable[[], Mapping[str, Any]] = lambda: {}) -> dict[str, Any]:
    """Copy model, metrics and, last, the summary of a run to the output folder and return the summary.

    Args:
        run_folder: the server's run folder.
        out: the output folder.
        added: gives what the summary gets beside what the run wrote.
    """
    out.mkdir(parents=True, exist_ok=True)
    for source, name in ((run_folder / PERSISTED_MODEL, MODEL_FILE), (run_folder / METRICS_FILE, METRICS_FILE)):
        with replaced(out / name) as temporary:
            shutil.copyfile(source, temporary)
    summary, text = read_summary(run_folder), (run_folder / SUMMARY_FILE).read_text(encoding="utf-8")
    if more := added():
        summary |= more
        text = json.dumps(summary, indent=2) + "\n"
    write_text(out / SUMMARY_FILE, text)
    return summary


def read_summary(out: Path) -> dict[str, Any]:
    """Read the summary in an output folder.

    Raises:
        OutputError: if there is none.
    """
    file = out / SUMMARY_FILE
    if not file.is_file():
        raise OutputError(f"Expected the output of a run in {out}, but there is no {SUMMARY_FILE}.")
    summary: dict[str, Any] = read_json(file, "a run's summary")
    return summary


def print_difference(summary: Mapping[str, Any], other: Mapping[str, Any], console: Terminal) -> None:
    """Print the scores of two runs on the same data beside each other."""
    table = Table(title="On the same data, mean of the last five rounds")
    columns = {"method": [run["method"] for run in (other, summary)]} | score_columns((other, summary))
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)
    one, reference = main_score(summary), main_score(other)
    if one is not None and reference is not None:
        gain = 100 * (one - reference)
        console.print(f"{summary['method']} - {other['method']}: {gain:+.1f} {scoring_of(summary).label} points")


def scoring_of(run: Mapping[str, Any]) -> Scoring:
    """Return the scoring of a run, of its summary or of what a comparison keeps of it."""
    return Scoring.of(run["task"])


def main_score(run: Mapping[str, Any]) -> float | None:
    """Return the score that says how good the run's model is, over its last rounds: Dice or macro F1."""
    value: float | None = run["last_rounds"][scoring_of(run).names[0]]
    return value


def score_columns(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the scores of runs' last rounds as columns of a table, a cell per run, by heading.

    What is left empty has a column where a test set has cases in which nothing is annotated. Runs of earlier versions
    do not say it.
    """
    columns = {}
    for name in scoring_of(runs[0]).names:
        values = [run["last_rounds"].get(name) for run in runs]
        if name != "left_empty" or any(value is not None for value in values):
            columns[_SCORE_HEADINGS[name]] = [number(value) if name == "hd95" else percent(value) for value in values]
    return columns


def print_summary(summary: Mapping[str, Any], console: Terminal) -> None:
    """Print a run's scores and, for a quality-aware method, what was concluded of each site."""
    console.print_named(
        summary["method"],
        f", seed {summary['seed']}, {summary['rounds_finished']} rounds, "
        f"{summary['seconds']:.0f} s: {_score_text(summary)} (mean of the last five rounds)",
    )
    _print_averaging_alone(summary, console)
    console.print(_site_table(summary))
    _print_effective_sites(summary, console)
    if summary.get("weights"):
        console.print("noise: strength s_i; first w, last w: aggregation weight in the first and the last layer block")
    if any(report.get("noise_level") is not None for report in summary["sites"].values()):
        console.print("noisy: labels that do not look right; a site lists its own with: fedannot suspects")
    if summary.get("completeness"):
        console.print(
            "complete: lesions that the site annotates, as estimated; corrected: the round before whose training it "
            "added what it lacked"
        )
    if absent := summary.get("absent"):
        console.print(f"Not there when the job started: {', '.join(absent)}", style="yellow")
    _print_privacy(summary["sites"], console)
    _print_bounds(summary.get("bounded", []), console)
    for refusal in summary["refusals"]:
        text = f"Round {refusal['round']}: {refusal['site']} refused: {refusal['reason']}"
        console.print(text, style="yellow")


def _print_averaging_alone(summary: Mapping[str, Any], console: Terminal) -> None:
    """Say of a run of FedA³I without groups of sites that it was federated averaging, and what to try."""
    if "estimate" not in summary:
        return
    estimate = summary["estimate"]
    if estimate is not None and not estimate["reason"]:
        return
    if estimate is None:
        why, hint = "The warm-up was not over.", " Try more rounds (--set rounds=...)."
    else:
        why, hint = f"No groups of sites: {estimate['reason']}", ""
        # Else too few sites have an estimate, or all have the same.
        if estimate.get("p_value") is not None:
            hint = (
                " Try a longer warm-up (--set warmup_rounds=...), or weights by the evidence for groups "
                "(--set group_decision=shrink)."
            )
    console.print(f"All rounds were federated averaging. {why}{hint}", style="yellow")


def _print_effective_sites(summary: Mapping[str, Any], console: Terminal) -> None:
    """Print for every stage how many sites its rounds' weights are of in effect; warn where one nearly decides alone.

    Of the layer blocks the one counts in which they are fewest.
    """
    known = [record for record in summary["rounds"] if record.get("effective_sites") is not None]
    stages: list[str] = list(dict.fromkeys(str(record["stage"]) for record in known))
    told = []
    for stage in stages:
        of_stage = [record for record in known if str(record["stage"]) == stage]
        fewest, most = (f(record["effective_sites"] for record in of_stage) for f in (min, max))
        first, last = of_stage[0]["round"], of_stage[-1]["round"]
        rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
        told.append(f"{_range(fewest, most, 1)} ({stage}, {rounds})")
    if told:
        console.print(f"effective sites of {len(summary['sites'])}: {'; '.join(told)}")
    if dominant := summary.get("dominant"):
        most_of = max(dominant, key=lambda entry: entry["weight"])
        console.print(
            f"In {len(dominant)} of {summary['rounds_finished']} rounds one site nearly decided alone: in round "
            f"{most_of['round']} {most_of['site']} had {most_of['weight']:.2f} of the weight.",
            style="yellow",
        )


def _range(first: float, last: float, decimals: int) -> str:
    """Write a range, or one number where both are the same as written."""
    texts = [f"{value:.{decimals}f}" for value in (first, last)]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def _score_text(summary: Mapping[str, Any]) -> str:
    """The scores in words; HD95 with its unit, where one is known: millimetres for volumes, pixels for pictures."""
    last = summary["last_rounds"]
    if "dice" not in last:
        return f"macro F1 {percent(last['f1'])} %, recall {percent(last['recall'])} %, precision " + (
            f"{percent(last['precision'])} %"
        )
    units = {record.get("hd95_unit") for record in summary["rounds"]} - {None}
    distance = " ".join([number(last["hd95"]), *sorted(units)])
    share = last.get("left_empty")
    left_empty = "" if share is None else f"{percent(share)} % of the empty cases left empty, "
    return f"Dice {percent(last['dice'])} %, {left_empty}HD95 {distance}"


def _site_table(summary: Mapping[str, Any]) -> Table:
    """One row per site; columns that would be empty for all sites are left out."""
    estimate = summary.get("estimate") or {"sites": {}}
    weights = summary.get("weights")
    completeness = summary.get("completeness") or {}
    has_own_threads = len({report.get("num_threads") for report in summary["sites"].values()}) > 1
    columns: dict[str, list[str]] = {}
    for site in sorted(summary["sites"], key=natural_order):
        report = summary["sites"][site]
        judged = estimate["sites"].get(site, {})
        row = weights["values"][weights["sites"].index(site)] if weights and site in weights["sites"] else [None]
        entries = {
            "site": site,
            "cases": str(report["num_samples"]),
            "left out": str(report["num_excluded"] or "-"),
            "threads": str(report.get("num_threads", "-")) if has_own_threads else "-",
            "loss": number(report["train_loss"], 3),
            "noisy, %": "-" if report.get("noise_level") is None else f"{100 * report['noise_level']:.0f}",
            "q_in": number(_total(judged.get("inner")), 3),
            "q_out": number(_total(judged.get("outer")), 3),
            "draws": judged.get("group") or "-",
            "noise": number(judged.get("strength"), 3),
            "first w": number(row[0], 3),
            "last w": number(row[-1], 3),
            "complete, %": _completeness(completeness.get(site)),
            "corrected": _correction(completeness.get(site)),
        }
        for heading, entry in entries.items():
            columns.setdefault(heading, []).append(entry)
    filled = {heading: entries for heading, entries in columns.items() if set(entries) != {"-"}}
    table = Table(title="Sites", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in filled:
        table.add_column(heading, justify="left" if heading in ("site", "draws") else "right", no_wrap=True)
    for cells in zip(*filled.values(), strict=True):
        table.add_row(*cells)
    return table


def _completeness(site: Mapping[str, Any] | None) -> str:
    if site is None:
        return "-"
    return f"{100 * site['estimate']:.0f}" if site["is_estimable"] else "not estimable"


def _correction(site: Mapping[str, Any] | None) -> str:
    return "-" if site is None or site["corrected_before_round"] is None else f"round {site['corrected_before_round']}"


def _total(values: list[float] | None) -> float | None:
    return None if not values else sum(values)


def percent(value: float | None) -> str:
    """Write a share as percent with one decimal, or a dash."""
    return "-" if value is None else f"{100 * value:.1f}"


def number(value: float | None, decimals: int = 1) -> str:
    """Write a number, or a dash."""
    return "-" if value is None else f"{value:.{decimals}f}"


def _print_bounds(bounded: Sequence[Mapping[str, Any]], console: Terminal) -> None:
    """Say whose influence was bounded, in how many rounds, and how far at most."""
    for site in sorted({entry["site"] for entry in bounded}, key=natural_order):
        of_site = [entry for entry in bounded if entry["site"] == site]
        factors = [entry["update_factor"] for entry in of_site if "update_factor" in entry]
        shares = sum("share" in entry for entry in of_site)
        said = [f"updates scaled down in {len(factors)} rounds, to {min(factors):.3g} at least"] if factors else []
        said += [f"share bounded in {shares} rounds"] if shares else []
        console.print(f"{site}: {'; '.join(said)}")


def _print_privacy(sites: Mapping[str, Mapping[str, Any]], console: Terminal) -> None:
    """Say what sites that give noise to what they send have spent; None stands for a bound that is none."""
    for site, report in sites.items():
        for epsilon_field, delta_field, what in _PRIVATE:
            if epsilon_field in report and (delta := report.get(delta_field)) is not None:
                epsilon = report[epsilon_field]
                spent = "no bound" if epsilon is None else f"ε = {epsilon:.3g}"
                said = f"{site}: differential privacy {what}: spent {spent} at δ = {delta:g}"
                console.print(said)
