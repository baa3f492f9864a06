"""ELR at a site: training is pulled towards averages of earlier predictions, which stay at the site."""

from typing import Any

from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...data.tensor_files import UNREADABLE, save_tensors_of_round
from ...interface.views import SiteView
from ...training.batch import Batches
from ...training.batches import training_batches
from ...training.loop import TrainingOutcome
from ...training.losses import DiceRecord
from ...training.objectives import Objective
from ..fedavg.site import FedAvgSite
from .prediction_memory import PredictionMemory, RememberedCase
from .regularisation import EarlyLearningObjective
from .settings import EarlyLearningSettings

PREDICTION_FOLDER = "predictions"


class ElrSite(FedAvgSite):
    """Trains as in federated averaging, with the pull towards earlier predictions added to the settings' loss.

    The averages are kept in the run's folder after each round and never leave it. A round begins with those of the
    latest round before it that the site was there for. Without weight there are none, and the training is that of
    federated averaging.
    """

    settings: EarlyLearningSettings

    def batches(self, data: SiteData, network: nn.Module, targets: Targets = AS_GIVEN) -> Batches:
        """Return what is trained on, with places where averages are of pixels."""
        if not self._remembers or self.settings.task == "classification":
            return super().batches(data, network, targets)
        device = next(network.parameters()).device
        return training_batches(
            data, self.settings.training, device, labels=targets.labels, used=targets.used, with_places=True
        )

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss with the pull, which remembers what is predicted from now on."""
        supervised = super().objective(network, site, dice, targets)
        if not self._remembers:
            return supervised
        return EarlyLearningObjective(supervised, self._memory(site), self.settings.early_learning_weight)

    def train_part(
        self, network: nn.Module, objective: Objective, batches: Batches, site: SiteView, **options: Any
    ) -> TrainingOutcome:
        """Train, and keep the averages; those of a training that is given up are lost with it."""
        outcome = super().train_part(network, objective, batches, site, **options)
        if isinstance(objective, EarlyLearningObjective):
            folder = site.run_folder / PREDICTION_FOLDER
            content = objective.memory.content()
            save_tensors_of_round(folder, site.round_number, content, keep=self.settings.keep_rounds)
        return outcome

    @property
    def _remembers(self) -> bool:
        return self.settings.early_learning_weight > 0

    def _memory(self, site: SiteView) -> PredictionMemory:
        """The averages as they were before the round; new ones at the start, or where the kept ones cannot be used."""
        is_segmentation = self.settings.task == "segmentation"
        folder = site.locate().folder
        cases = [
            RememberedCase(
                case.image_name(folder), len(case.image), tuple(case.image.shape[2:]) if is_segmentation else (1,)
            )
            for case in site.load(TRAINING).cases
        ]
        memory = PredictionMemory(
            cases,
            self.settings.network.num_classes + is_segmentation,
            momentum=self.settings.prediction_momentum,
            folder=site.run_folder,
            exact=not is_segmentation,
        )
        if (problem := self._restored(memory, len(cases), site)) is not None:
            site.warning(f"Round {site.round_number}: {problem}; averages of predictions start at 0 there.")
        return memory

    @staticmethod
    def _restored(memory: PredictionMemory, num_cases: int, site: SiteView) -> str | None:
        """Take over what is kept; return what keeps cases from going on, if anything does."""
        try:
            kept = site.kept_tensors(PREDICTION_FOLDER, site.round_number - 1, mapped=True)
            if kept is None:
                return f"nothing is kept in {PREDICTION_FOLDER}" if site.round_number > 1 else None
            taken = memory.restore(kept[1])
        except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
            return f"what is kept in {PREDICTION_FOLDER} cannot be used ({type(error).__name__}: {error})"
        return f"{num_cases - taken} of {num_cases} cases are new or have another size" if taken < num_cases else None
