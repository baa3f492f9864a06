"""What a bundle is made of: a run's model, its settings, its data's description and its summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ...custom.data.description import AnyDescription
from ...custom.data.json_record import read_record
from ...custom.data.personal_files import LOCAL_MODEL_FILE, LOCAL_SCORES_FILE, PERSONAL_FOLDER
from ...custom.evaluation.local_scores import LocalScores
from ...custom.methods.lookup import read_job_settings
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.described import described_network
from ...custom.networks.start_weights import REMEMBERED_PARTS
from ...custom.records.round_records import RoundRecord
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.summary_record import Summary
from ...custom.settings import RunSettings
from ...transforms.errors import DataError
from ..reports.local_models import read_local_model
from ..reports.output import MODEL_FILE, PERSISTED_MODEL, OutputError, find_run_folder, read_metrics, read_summary
from ..reports.site_files import SiteFiles, find_site_files
from .data import find_description


@dataclass(frozen=True)
class BundleSource:
    """What a bundle is made of.

    Attributes:
        settings: the job's settings.
        network: the model.
        description: the data that it was trained on.
        federation: the federation's name, None where it is not known.
        site: the site whose own model it is, None for the global model.
        summary: of the run; empty where the server's files are not here, as at a site.
        record: of the round whose model it is, or of the last one where it is a mean; as above.
        local_scores: what the site's model scores on the site's own cases, None where it was not measured.
    """

    settings: RunSettings
    network: nn.Module
    description: AnyDescription
    federation: str | None = None
    site: str | None = None
    summary: Summary | None = None
    record: RoundRecord | None = None
    local_scores: LocalScores | None = None


def read_source(run: Path, data: Path | None = None, site: str | None = None) -> BundleSource:
    """Find a run's model with everything that a bundle says of it.

    Args:
        run: a run's output folder, an NVFlare workspace, of a site alone too, or a downloaded result.
        data: the federation's folder or one with a ``data.yaml``; by default where the run had its data.
        site: take this site's own model in place of the global one.

    Raises:
        DataError: if there is no such model, nothing says what its data were, or a record cannot be used.
        OutputError: if the folder is not that of a run.
    """
    if not run.is_dir():
        raise DataError(f"{run}: found no such folder; expected a run's output folder or an NVFlare workspace.")
    folder = _server_folder(run)
    summary = None if folder is None else read_summary(folder)
    stored = _site_files(run, site)
    if site is not None or summary is None:
        if not stored:
            _refuse(run, site)
        files = stored[0]
        settings = files.settings() if summary is None else read_job_settings(summary.settings, of_finished_run=True)
        network = _stored_network(files, settings, own=site is not None)
    else:
        assert folder is not None
        settings = read_job_settings(summary.settings, of_finished_run=True)
        network = _global_network(folder, settings)
    for part in REMEMBERED_PARTS:
        # What training remembers; no part of a prediction.
        if hasattr(network, part):
            delattr(network, part)
    description, federation = find_description(run, data, site, summary, settings)
    scores = read_record(stored[0].folder / PERSONAL_FOLDER / LOCAL_SCORES_FILE, LocalScores) if site else None
    records = [] if folder is None else read_metrics(folder)
    record = _record_of_model(records, summary)
    return BundleSource(settings, network, description, federation, site, summary, record, scores)


def _record_of_model(records: Sequence[RoundRecord], summary: Summary | None) -> RoundRecord | None:
    """The record of the last round that the model is of, None where the records are not here."""
    final = None if summary is None else summary.final_model
    of_model = [record for record in records if final is None or record.round in final.rounds]
    return of_model[-1] if of_model else None


def _server_folder(run: Path) -> Path | None:
    """The folder with the summary: the output folder itself or the server's run folder; None where there is none."""
    if (run / SUMMARY_FILE).is_file() and (run / MODEL_FILE).is_file():
        return run
    if not any(run.glob(f"**/{SUMMARY_FILE}")):
        return None
    return find_run_folder(run)


def _site_files(run: Path, site: str | None) -> list[SiteFiles]:
    """What sites stored in a run below a folder, in the order of their names; of one site that of one run."""
    result = find_site_files(run, site)
    if site is not None and len(result) > 1:
        folders = ", ".join(str(files.folder) for files in result)
        raise DataError(f"{run}: found {len(result)} runs with a model of {site!r}; give one of the folders {folders}.")
    return result


def _refuse(run: Path, site: str | None) -> None:
    known = ", ".join(sorted({files.site for files in _site_files(run, None)})) or "no site"
    if site is None:
        raise OutputError(
            f"{run}: found neither {SUMMARY_FILE} nor a site's {LOCAL_MODEL_FILE} below it; expected the output of a "
            "finished run."
        )
    raise DataError(
        f"{run}: found no model of {site!r} alone, {PERSONAL_FOLDER}/{LOCAL_MODEL_FILE} in its run folder; expected "
        f"one of a method with personal parts and a site that stored it. Here are those of: {known}."
    )


def _stored_network(files: SiteFiles, settings: RunSettings, *, own: bool) -> nn.Module:
    if not isinstance(settings, PersonalSettings):
        raise DataError(f"{files.folder}: its settings are those of {settings.method!r}, which has no personal parts.")
    if own:
        return read_local_model(files.model, settings)
    _check_is_model(files.folder, settings)
    network = described_network(settings.network)
    network.load_state_dict(torch.load(files.model, map_location="cpu", weights_only=True)["shared"])
    return network


def _global_network(folder: Path, settings: RunSettings) -> nn.Module:
    _check_is_model(folder, settings)
    file = folder / MODEL_FILE if (folder / MODEL_FILE).is_file() else folder / PERSISTED_MODEL
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected the global model of the run.")
    network = described_network(settings.network)
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True)["model"])
    return network


def _check_is_model(folder: Path, settings: RunSettings) -> None:
    if isinstance(settings, PersonalSettings) and not settings.has_global_model:
        raise DataError(
            f"{folder}: what the sites of {settings.method!r} share is no model by itself; choose a site's own with "
            "--site SITE."
        )
