"""FedHAC at a site: training with prototypes, the count of lesions, and corrections of the given annotations."""

import shlex
from dataclasses import replace

from torch import nn

from ...corrections.store import StoredCorrections
from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...task_names import CORRECT_ANNOTATIONS
from ...training.losses import DiceRecord
from ...training.objectives import Objective, ProximalPenalty, Sum
from ..auto.protected_cases import protected_cases
from ..fedia.annotation_correction import correct_annotations
from ..fedia.completeness_report import count_report
from ..fedia.site import CorrectingSite, in_words
from .class_means import ClassMeans
from .outbound import COUNTS
from .prototypes import PrototypeObjective
from .server import HAS_PROTOTYPES, RECEIVED_PROTOTYPES
from .settings import FedHACSettings


class FedHACSite(CorrectingSite):
    """Corrects its given annotations whenever it is asked to: what an earlier correction added counts no more."""

    settings: FedHACSettings

    def __init__(self, settings: FedHACSettings) -> None:
        super().__init__(settings)
        self._means: ClassMeans | None = None

    @property
    def corrects(self) -> bool:
        """Whether the settings say so."""
        return self.settings.correction

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train; where prototypes are means, those of the site's features go with the model."""
        self._means = ClassMeans() if self._sends_means(site) else None
        trained = super().train(network, site)
        if self._means is None:
            return trained
        fields = self._means.report(site.load(TRAINING).units)
        if not fields:
            site.info(f"Round {site.round_number}: too few patients for a prototype to leave the site.")
        return replace(trained, fields={**trained.fields, **fields})

    def _sends_means(self, site: SiteView) -> bool:
        return self.settings.prototypes == "means" and bool(site.message.get(HAS_PROTOTYPES, True))

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of the round; with both weights 0 that of federated averaging."""
        result = super().objective(network, site, dice, targets)
        settings = self.settings
        if settings.prototype_weight and site.message.get(HAS_PROTOTYPES, True):
            result = PrototypeObjective(
                result,
                network,
                weight=settings.prototype_weight,
                num_outputs=settings.network.num_classes + 1,
                seed=site.seed,
                received=site.message.get(RECEIVED_PROTOTYPES),
                means=self._means,
            )
        if settings.proximity_weight:
            # FedProx has half of its weight before the norm.
            result = Sum(result, ProximalPenalty(2 * settings.proximity_weight, network))
        return result

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_completeness`` or ``correct_annotations``."""
        if task == CORRECT_ANNOTATIONS:
            self._correct(network, site)
            return Answer({"has_corrected": True})
        return count_report(network, site.load(TRAINING), self.settings, COUNTS)

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        """Correct the given annotations; a second call in a round finds the work done."""
        before = site.corrections.latest()
        if before is not None and before.corrections.round_number == site.round_number:
            return
        folder, data = site.corrections.folder_of(site.round_number), site.load_given()
        corrections = correct_annotations(
            network,
            data,
            folder,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            threshold=self.settings.correction_threshold,
            inference=Inference.of(self.settings),
            reverted=protected_cases(site, data) | _partly_reverted(before),
        )
        count, added = in_words(corrections, site.round_number)
        command = f"fedannot corrections show {shlex.quote(str(folder.absolute()))}"
        site.info(f"{count} corrected, {added} added. To look at them or to revert: {command}")


def _partly_reverted(before: StoredCorrections | None) -> frozenset[str]:
    """The names of the cases of which the data manager has reverted a lesion: their given annotations go on counting.

    An added lesion of an earlier correction is none of a later one, so that one that is reverted stands for its case.
    """
    if before is None:
        return frozenset()
    masks = ((case.name, case.mask) for case in before.corrections.cases if case.mask is not None)
    return frozenset(name for name, mask in masks if any(lesion.is_reverted for lesion in mask.lesions))
