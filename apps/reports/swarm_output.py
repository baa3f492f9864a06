"""The output of a run of which no server has anything: what its sites stored, on the machine of whoever may see it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import FederationDescription, write_federation
from ...custom.data.json_record import read_record
from ...custom.data.personal_files import LOCAL_SCORES_FILE, PERSONAL_FOLDER
from ...custom.data.tensor_files import write_tensors
from ...custom.data.whole_files import private_folder, write_text
from ...custom.evaluation.local_scores import LocalScores
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.records.round_records import RoundRecord
from ...custom.run.reading import METRICS_FILE, read_metrics_file
from ...custom.run.state import SUMMARY_FILE, RunState
from ...custom.run.summary import summarize
from ...custom.run.summary_record import OwnCases, Summary
from ...transforms.natural_order import natural_order
from ...transforms.printable import drawable
from ..terminal import Terminal
from .charts import save_figure
from .colours import GLOBAL_MODEL, OWN_MODEL, UNGROUPED
from .output import MODEL_FILE, OutputError
from .own_cases_columns import MODELS, own_cases_columns
from .site_columns import site_legend, site_weights
from .site_files import SiteFiles, find_site_files
from .summary_text import print_effective_sites, print_refusals

mpl.use("Agg")

OWN_CASES_PICTURE = "own_cases.png"
# In a run's folder at a site that made its data itself.
_EMBEDDED = "embedded"
_STYLES = {"global": (GLOBAL_MODEL, "o"), "local_at_half": (UNGROUPED, "^"), "local": (OWN_MODEL, "s")}


def collect_from_sites(workspace: Path, out: Path) -> Summary:
    """Write the shared model and a summary with the sites' own scores to the output folder; return the summary.

    Of the rounds it has those that a site whose files are there has averaged: all where all sites' files are.

    Args:
        workspace: that of NVFlare's simulator, a site's own, or a run's folder in it.
        out: the output folder.

    Raises:
        OutputError: if there is no run of which sites stored their models, or there are several.
    """
    sites = _sites_of_one_run(workspace)
    settings = sites[0].settings()
    stored = {files.site: torch.load(files.model, map_location="cpu", weights_only=True) for files in sites}
    rounds = {site: int(content["round"]) for site, content in stored.items()}
    latest = max(rounds, key=lambda site: rounds[site])
    state = RunState(
        settings.method, settings.model_dump(mode="json"), rounds[latest], {}, history=_averaged_rounds(sites)
    )
    own_cases = {files.site: _own_cases(files, rounds[files.site]).model_dump(exclude_unset=True) for files in sites}
    summary = summarize(state, {"own_cases": own_cases})
    private_folder(out)
    if not isinstance(settings, PersonalSettings) or settings.has_global_model:
        write_tensors(out / MODEL_FILE, {"model": stored[latest]["shared"]})
    write_text(out / SUMMARY_FILE, json.dumps(summary.plain(), indent=2) + "\n")
    return summary


def print_from_sites(summary: Summary, console: Terminal) -> None:
    """Print what the sites' own and the shared model score at each site."""
    own_cases = summary.own_cases or {}
    rounds = f"{summary.rounds_finished} of {summary.settings['rounds']} rounds"
    console.print_named(
        summary.method,
        f", seed {summary.seed}, {rounds}; no server has a summary, hence from the files of: {', '.join(own_cases)}",
    )
    table = Table(title="Scores on the sites' own validation cases", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = own_cases_columns(own_cases)
    weights = [site_weights(summary, site) for site in own_cases]
    if set(weights) != {"-"}:
        columns["weight"] = weights
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)
    for sentence in site_legend(summary):
        console.print(sentence)
    for site, result in own_cases.items():
        if result.round < summary.rounds_finished:
            console.print(f"{site}: has the model after round {result.round}, not the last one.", style="yellow")
    print_effective_sites(summary, console)
    print_refusals(summary, console)


def draw_own_cases(own_cases: Mapping[str, OwnCases], file: Path) -> Path | None:
    """Draw the Dice of each site's own and of the shared model on its own cases; None where no site has scores.

    A row per site, so that no label lies on another one.
    """
    sites = [site for site, found in own_cases.items() if found.models][::-1]
    names = [name for name in MODELS if any(name in own_cases[site].models for site in sites)]
    if not sites:
        return None
    figure = Figure(figsize=(7, 1.6 + 0.3 * max(len(sites), 3)), layout="constrained")
    axes = figure.subplots()
    for name in names:
        scores = [own_cases[site].models.get(name) for site in sites]
        values = [float("nan") if found is None or found.dice is None else 100 * found.dice for found in scores]
        colour, marker = _STYLES[name]
        label = f"{MODELS[name]} model"
        axes.scatter(values, range(len(sites)), color=colour, marker=marker, s=55, label=label)
    axes.set_yticks(range(len(sites)), [drawable(site) for site in sites])
    axes.set(xlabel="Dice, %", title="On each site's own validation cases")
    axes.margins(x=0.08, y=0.6 / len(sites))
    axes.grid(color="#dddddd")
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=len(names))
    return save_figure(figure, file)


@contextmanager
def embedded_federation(workspace: Path) -> Iterator[Path | None]:
    """Give a folder with the data that sites made themselves, as a federation; None where a site has data of its own.

    Args:
        workspace: as for :func:`collect_from_sites`.
    """
    sites = _sites_of_one_run(workspace)
    folders = {files.site: files.folder / _EMBEDDED / files.site for files in sites}
    if not all((folder / DESCRIPTION_FILE).is_file() for folder in folders.values()):
        yield None
        return
    with TemporaryDirectory() as temporary:
        together = Path(temporary)
        for site, folder in folders.items():
            (together / site).symlink_to(folder.resolve(), target_is_directory=True)
        write_federation(together, FederationDescription(name=_EMBEDDED, sites=tuple(folders)))
        yield together


def _sites_of_one_run(workspace: Path) -> list[SiteFiles]:
    result = find_site_files(workspace)
    if not result:
        raise OutputError(
            f"{workspace}: found neither a server's {SUMMARY_FILE} nor a model that a site stored; expected the "
            "workspace of a run that has finished a round."
        )
    runs = sorted({files.folder.name for files in result})
    if len(runs) > 1:
        folders = ", ".join(str(files.folder) for files in result)
        raise OutputError(f"{workspace}: found {len(runs)} runs; give the folder of one of them: {folders}.")
    return sorted(result, key=lambda files: natural_order(files.site))


def _averaged_rounds(sites: Sequence[SiteFiles]) -> list[RoundRecord]:
    """The records of the rounds that these sites have averaged, in order; of one that was begun twice the last."""
    files = [file for files in sites if (file := files.folder / METRICS_FILE).is_file()]
    result = {record.round: record for file in files for record in read_metrics_file(file)}
    return [result[number] for number in sorted(result)]


def _own_cases(files: SiteFiles, after_round: int) -> OwnCases:
    scores = read_record(files.folder / PERSONAL_FOLDER / LOCAL_SCORES_FILE, LocalScores)
    if scores is None:
        return OwnCases(round=after_round, num_cases=0, models={})
    return OwnCases(round=after_round, num_cases=scores.num_cases, models=scores.models)
