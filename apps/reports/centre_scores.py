"""What a run's models score on generic data and on every site's own, from the files of a run on this machine."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from ...custom.data.datalist import TESTING, VALIDATION
from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import TEST_FOLDER
from ...custom.data.json_record import read_record
from ...custom.data.personal_files import LOCAL_SCORES_FILE
from ...custom.data.site_data import SiteData, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.evaluation.inference import Inference
from ...custom.evaluation.local_scores import LocalScores
from ...custom.evaluation.segmentation_scores import evaluate
from ...custom.methods.fedavg.settings import FedAvgSettings
from ...custom.methods.lookup import read_job_settings
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.described import described_network
from ...custom.records.round_records import Record
from ...custom.run.summary_record import Summary
from ...transforms.natural_order import natural_order
from .local_models import local_model, personal_file
from .output import MODEL_FILE


class CentreScores(Record):
    """Dice of a run's final models.

    Attributes:
        generic: on the federation's test set, None without one.
        own: on the sites' own cases, by site.
    """

    generic: float | None
    own: dict[str, float]


def centre_scores(run: Path, summary: Summary, federation: Path) -> CentreScores | None:
    """Return the Dice of a run's final models on generic data and on the sites' own; None if sites keep no cases.

    Generic data are the federation's test set. What counts there is the global model; for a method that has none, the
    mean over the sites' models. On a site's own cases its own model counts, for a method without such the global one.

    Args:
        run: the run's output folder, which holds the sites' workspaces.
        summary: its summary.
        federation: folder of the run's data.

    Returns:
        The scores, without sites that stored no model of their own or whose cases have nothing annotated.
    """
    settings = read_job_settings(summary.settings, of_finished_run=True)
    sites = [site for site in sorted(summary.sites, key=natural_order) if count_cases(federation / site, VALIDATION)]
    if not isinstance(settings, FedAvgSettings) or not sites:
        return None
    if isinstance(settings, PersonalSettings):
        known = {site: _known_scores(run, site) for site in sites}
        own = {site: None if scores is None else scores.models["local"].dice for site, scores in known.items()}
        has_global = settings.has_global_model
    else:
        own, has_global = _global_on_own_cases(run, sites, federation, settings), True
    generic = None
    if (federation / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        generic = (
            (summary.final_scores or summary.last_round).main_score
            if has_global
            else _mean_of_local(run, sites, federation, settings)
        )
    return CentreScores(generic=generic, own={site: dice for site, dice in own.items() if dice is not None})


def _global_on_own_cases(
    run: Path, sites: Sequence[str], federation: Path, settings: FedAvgSettings
) -> dict[str, float | None]:
    model = described_network(settings.network)
    model.load_state_dict(torch.load(run / MODEL_FILE, map_location="cpu", weights_only=True)["model"])
    store = participant_store()
    return {
        site: _dice(
            model,
            load_site_data(
                federation / site, store, section=VALIDATION, site=site, consensus=settings.training.consensus
            ),
            settings,
        )
        for site in sites
    }


def _mean_of_local(run: Path, sites: Sequence[str], federation: Path, settings: FedAvgSettings) -> float | None:
    models = [model for site in sites if (model := local_model(run, site, settings)) is not None]
    cases = load_site_data(
        federation / TEST_FOLDER,
        participant_store(),
        section=TESTING,
        site=TEST_FOLDER,
        consensus=settings.training.consensus,
    )
    scores = [dice for model in models if (dice := _dice(model, cases, settings)) is not None]
    return sum(scores) / len(scores) if scores else None


def _dice(model: nn.Module, data: SiteData, settings: FedAvgSettings) -> float | None:
    inference, annotated = Inference.of(settings), data.annotated_labels
    return evaluate(model, data.cases, settings.network.num_classes, inference, annotated).mean_dice


def _known_scores(run: Path, site: str) -> LocalScores | None:
    file = personal_file(run, site, LOCAL_SCORES_FILE)
    return None if file is None else read_record(file, LocalScores)
