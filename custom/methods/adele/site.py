"""ADELE at a site: training at several scales, how far the model fits the given masks, and their correction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ...corrections.kinds import PixelsReplaced
from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...interface.views import Answer, SiteView, Trained
from ...task_names import CORRECT_ANNOTATIONS
from ...training.losses import DiceRecord
from ...training.objectives import Objective
from ..auto.protected_cases import reviewed_names
from ..fedia.site import CorrectingSite
from .confident_pixels import correct_pixels, with_replaced_pixels
from .multi_scale import MultiScaleObjective
from .overlap import overlap_report
from .scaled_network import accepted_by
from .server import CORRECTED_CLASSES
from .settings import AdeleSettings


class AdeleSite(CorrectingSite):
    """Trains at several scales, on its masks with the pixels replaced that it was asked to correct.

    Decisions on pixels lie in the run's folder, and given masks stay as they are, on disk, too. With one scale, a
    weight of 0 and without correction it is federated averaging.
    """

    settings: AdeleSettings

    @property
    def corrects(self) -> bool:
        """Whether the settings say so."""
        return self.settings.correction

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on the corrected cases, also where a rule draws or counts several annotations of each."""
        return super().train(network, self._corrected(site))

    def targets(self, site: SiteView) -> Targets:
        """Return that labels count as they are: the cases are loaded with what is corrected."""
        del site
        return AS_GIVEN

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss at all scales; with one scale and a weight of 0 that of federated averaging."""
        own = super().objective(network, site, dice, targets)
        if not self.settings.is_multi_scale:
            return own
        return MultiScaleObjective(
            own,
            super().objective(network, site, None, targets),
            scales=self.settings.scales,
            weight=self.settings.consistency_weight,
            threshold=self.settings.consistency_threshold,
            accepts=accepted_by(self.settings),
        )

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``measure_overlap`` or ``correct_annotations``."""
        if task == CORRECT_ANNOTATIONS:
            self._correct(network, site)
            return Answer({"has_corrected": True})
        return overlap_report(network, site.load(TRAINING), self.settings)

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        """Correct the classes that the server names and that are not yet corrected, each once."""
        asked, before = self._asked(site), site.corrections.latest()
        kind = None if before is None else before.corrections.of(PixelsReplaced)
        labels = [label for label in asked if kind is None or label not in kind.rounds]
        if not labels:
            return
        data, folder = site.load(TRAINING), site.locate().folder
        corrections, pixels = correct_pixels(
            network,
            data,
            labels,
            before,
            settings=self.settings,
            data_folder=folder,
            round_number=site.round_number,
            reviewed=reviewed_names(site, data),
        )
        site.corrections.write(corrections, pixels)
        names = ", ".join(data.classes[label - 1] for label in labels)
        site.info(
            f"Before round {site.round_number}: {len(pixels)} of {len(data.cases)} masks are corrected; now of {names}."
        )

    def _asked(self, site: SiteView) -> Sequence[int]:
        """The classes that the server names.

        Raises:
            ValueError: if they are no different classes of the job.
        """
        asked: Any = site.message.get(CORRECTED_CLASSES)
        known = range(1, self.settings.network.num_classes + 1)
        is_list = isinstance(asked, list) and all(type(label) is int and label in known for label in asked)
        if not self.corrects or not is_list or len(set(asked)) != len(asked):
            raise ValueError(
                f"Expected different classes from 1 to {len(known)} to be corrected, but got {asked!r:.80}."
            )
        return list(asked)

    @staticmethod
    def _corrected(site: SiteView) -> SiteView:
        """The site with its training cases as they are corrected."""
        stored = site.corrections.latest()
        if stored is None:
            return site
        folder = site.locate().folder
        training: list[SiteData] = []

        def load(section: str) -> SiteData:
            if section != TRAINING:
                return site.load(section)
            if not training:
                given = site.load(TRAINING)
                training.append(with_replaced_pixels(given, stored, folder, reviewed_names(site, given)))
            return training[0]

        return replace(site, load=load)
