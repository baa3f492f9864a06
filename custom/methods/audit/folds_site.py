"""Training on all parts of the patients but one, whose model is kept and predicts that part."""

from dataclasses import replace

import torch
from torch import nn

from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...data.tensor_files import save_tensors_of_round
from ...interface.views import Answer, SiteView, Trained
from ...networks.devices import params_in_main_memory
from ...task_names import KEEP_REFERENCE_MODEL
from ...training.batches import training_batches
from ..fedavg.site import FedAvgSite
from .folds import fold_of_round, parts
from .reference_models import ReferenceModels
from .settings import FoldsSettings

# In a site's run folder: the model of each fold but the last.
REFERENCE_MODELS_FOLDER = "judges"


class FoldsSite(FedAvgSite):
    """Trains the reference models, and keeps them; what they predict is up to the method."""

    settings: FoldsSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on the patients that the round's model will not predict."""
        data = site.load(TRAINING)
        fold = fold_of_round(site.round_number, self.settings.rounds_of_fold)
        part = self._parts(data, site)
        learnt = replace(data, cases=tuple(case for case in data.cases if part.get(case.unit) != fold))
        batches = training_batches(learnt, self.settings.training, next(network.parameters()).device)
        trained = self.train_on(batches, network, site)
        return replace(trained, trained_on=trained.outcome.units_of(learnt.units))

    def schedule_round(self, site: SiteView) -> tuple[int, int]:
        """Every fold has a schedule of its own, and begins with a new optimizer."""
        rounds = self.settings.rounds_of_fold
        return (site.round_number - 1) % rounds + 1, rounds

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_reference_model``."""
        if task != KEEP_REFERENCE_MODEL:
            return super().answer(task, network, site)
        fold = fold_of_round(site.round_number - 1, self.settings.rounds_of_fold)
        folder = site.run_folder / _folder_of(fold)
        save_tensors_of_round(folder, site.round_number - 1, params_in_main_memory(network))
        return Answer({"has_kept": True})

    def models(self, network: nn.Module, site: SiteView) -> ReferenceModels:
        """Return the reference models, of which the received one is of the last fold."""
        return ReferenceModels(self.settings, network, self._parts(site.load(TRAINING), site), self._kept(site))

    def _parts(self, data: SiteData, site: SiteView) -> dict[str, int]:
        return parts(data.units, self.settings.folds, seed=site.seed, site=site.name)

    def _kept(self, site: SiteView) -> dict[int, dict[str, torch.Tensor]]:
        """The models of earlier folds, as far as the site has them."""
        result = {
            fold: site.kept_tensors(_folder_of(fold), site.round_number) for fold in range(self.settings.folds - 1)
        }
        return {fold: kept[1] for fold, kept in result.items() if kept is not None}


def _folder_of(fold: int) -> str:
    return f"{REFERENCE_MODELS_FOLDER}/part_{fold + 1}"
