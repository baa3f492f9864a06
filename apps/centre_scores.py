"""What a run's models score on generic data and on every site's own, from the files of a run on this machine."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from ..custom.data.datalist import TESTING, VALIDATION
from ..custom.data.federation import TEST_FOLDER
from ..custom.data.json_record import read_record
from ..custom.data.personal_layers import LOCAL_SCORES_FILE
from ..custom.data.site_data import SiteData, count_cases, load_site_data
from ..custom.evaluation import evaluate
from ..custom.inference import Inference
from ..custom.local_scores import LocalScores
from ..custom.method_settings import FedAvgSettings, PersonalSettings, read_job_settings
from .local_models import local_model, personal_file
from .output import MODEL_FILE


def centre_scores(run: Path, summary: Mapping[str, Any], federation: Path) -> dict[str, Any] | None:
    """Return the Dice of a run's final models on generic data and on the sites' own; None if sites keep no cases.

    Generic data are the federation's test set. What counts there is the global model; for a method that has none, the
    mean over the sites' models. On a site's own cases its own model counts, for a method without such the global one.

    Args:
        run: the run's output folder, which holds the sites' workspaces.
        summary: its summary.
        federation: folder of the run's data.

    Returns:
        ``generic``, None without a test set, and ``own`` by site.
    """
    settings = read_job_settings(summary["settings"])
    sites = [site for site in sorted(summary["sites"]) if count_cases(federation / site, VALIDATION)]
    if not isinstance(settings, FedAvgSettings) or not sites:
        return None
    local_models = {site: local_model(run, site, settings) for site in sites}
    has_global = not isinstance(settings, PersonalSettings) or settings.has_global_model
    own = {}
    with TemporaryDirectory() as cache:
        for site in sites:
            if (known := _known_scores(run, site)) is not None:
                own[site] = known.models["local"].dice
            else:
                cases = load_site_data(federation / site, Path(cache), section=VALIDATION, site=site)
                own[site] = _dice(_global_model(run, settings), cases, settings)
        if has_global:
            generic = summary["last_round"]["dice"]
        elif count_cases(federation / TEST_FOLDER, TESTING):
            cases = load_site_data(federation / TEST_FOLDER, Path(cache), section=TESTING, site=TEST_FOLDER)
            scores = [_dice(model, cases, settings) for model in local_models.values() if model is not None]
            generic = sum(scores) / len(scores) if scores else None
        else:
            generic = None
    return {"generic": generic, "own": own}


def _dice(model: nn.Module, data: SiteData, settings: FedAvgSettings) -> float:
    return evaluate(model, data.cases, settings.network.num_classes, Inference.of(settings)).mean_dice


def _global_model(run: Path, settings: FedAvgSettings) -> nn.Module:
    model = settings.network.build()
    model.load_state_dict(torch.load(run / MODEL_FILE, map_location="cpu", weights_only=True)["model"])
    return model


def _known_scores(run: Path, site: str) -> LocalScores | None:
    file = personal_file(run, site, LOCAL_SCORES_FILE)
    return None if file is None else read_record(file, LocalScores)
