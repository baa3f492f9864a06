"""FedCorr at a site: how noisy its labels look to its own model, and their correction by the received one."""

import copy
import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...corrections.kinds import CasesRelabelled, PixelsRelabelled
from ...corrections.model import Corrections, Provenance
from ...corrections.store import CorrectionStore, StoredCorrections
from ...corrections.targets import AS_GIVEN, Targets, case_files
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...data.tensor_files import UNREADABLE, save_tensors_of_round
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...networks.hashing import model_hash
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import SampleValues
from ...seeding import derive_seed
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_SITE_NOISE
from ...training.losses import DiceRecord
from ...training.objectives import Objective, Sum
from ..auto.protected_cases import reviewed_names
from ..fedavg.site import FedAvgSite
from ..fedselect.case_losses import case_losses
from .corrected_cases import Pixels, class_corrections, pixel_corrections, with_corrections
from .dimensionality import local_dimensionality
from .local_objectives import DistancePenalty, MixupObjective
from .loss_groups import higher_losses, least_loss
from .outbound import HAS_CORRECTED, MEAN_LOSS, NOISE_SHARE
from .relabelling import Relabelling, relabelled_classes, relabelled_masks, sampled_losses
from .server import SHARE_OF_NOISE, TRAINED_ROUND
from .settings import FedCorrSettings, NoiseCorrectionSettings

_FOLDER = "local_models"


class FedCorrSite(FedAvgSite):
    """Trains on its labels, some of which it has replaced when it was asked to; given files never change.

    Its own model of each round of the first stage stays in the run's folder, and so do its corrections. Both are
    personal. A case that a review has decided is never relabelled.
    """

    settings: NoiseCorrectionSettings

    def targets(self, site: SiteView) -> Targets:
        """Return that labels count as they are loaded: corrections are in them already."""
        del site
        return AS_GIVEN

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on corrected labels, and keep the own model in the first stage."""
        data = self._corrected(site, site.corrections.latest())
        trained = super().train(network, replace(site, load=lambda section: _section(site, section, data)))
        if site.round_number <= self.settings.preprocessing_rounds:
            counted = site.message.get(TRAINED_ROUND)
            save_tensors_of_round(
                site.run_folder / _FOLDER,
                site.round_number,
                {name: tensor.cpu() for name, tensor in network.state_dict().items()},
                keep=self.settings.keep_rounds if counted is None else {*self.settings.keep_rounds, counted},
            )
        return trained

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the site trains on corrected labels."""
        return {HAS_CORRECTED: site.corrections.latest() is not None} if self.settings.correction else {}

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of the round; without mixup and a share of noise that of federated averaging."""
        result = super().objective(network, site, dice, targets)
        if self.settings.mixup:
            seed = derive_seed(site.seed, site.name, site.round_number, "mixup")
            result = MixupObjective(result, self.settings.mixup, seed)
        share = float(site.message.get(SHARE_OF_NOISE, 0.0))
        weight = self.settings.proximity_weight * (share if 0.0 <= share <= 1.0 else 0.0)
        return Sum(result, DistancePenalty(weight, network)) if weight else result

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_site_noise``, ``estimate_noise_share`` or ``correct_annotations``."""
        # A task that comes again after a restart finds what there was before its round.
        before = CorrectionStore(site.run_folder, site.round_number - 1).latest()
        data = self._corrected(site, before)
        if task == CORRECT_ANNOTATIONS:
            if not self.settings.correction:
                return Answer({HAS_CORRECTED: False})
            self._relabel(self._rule(-math.inf), None, network, data, site, None)
            return Answer({HAS_CORRECTED: True})
        local, patients = self._own_model(network, site), len(set(data.units))
        if task == ESTIMATE_SITE_NOISE:
            return self._statistic(local, data, patients)
        if local is None or patients < MINIMUM_CASES:
            return Answer({NOISE_SHARE: math.nan, "num_share_patients": 0})
        seed = derive_seed(site.seed, site.name, site.round_number, "noise share")
        losses = sampled_losses(local, data, Inference.of(self.settings), seed)
        if not len(losses):
            site.warning("All of its pixels are ignored: what share of them is noisy cannot be estimated.")
            return Answer({NOISE_SHARE: math.nan, "num_share_patients": 0})
        share = float(higher_losses(losses).mean())
        if self.settings.correction:
            least = least_loss(losses, share * self.settings.relabelled_share)
            self._relabel(self._rule(least), local, network, data, site, share)
        return Answer({NOISE_SHARE: share, "num_share_patients": patients})

    # --- what leaves

    def _statistic(self, local: nn.Module | None, data: SiteData, patients: int) -> Answer:
        """The mean over the site's cases by which sites are divided.

        It is NaN of few patients or cases, and without the site's own model.
        """
        settings, units = self.settings, [case.unit for case in data.cases]
        name = settings.statistic_field
        unknown = Answer({name: math.nan, "num_statistic_patients": 0})
        if local is None or patients < MINIMUM_CASES:
            return unknown
        if name == MEAN_LOSS:
            values = case_losses(local, data, settings).numpy()
            samples = {name: SampleValues.of(values, units, is_mean=True)}
        else:
            values = local_dimensionality(Inference.of(settings).class_probabilities(local, data.cases).numpy())
            samples = {}
        mean = float(np.mean(values))
        return Answer({name: mean, "num_statistic_patients": patients}, samples) if math.isfinite(mean) else unknown

    # --- corrections

    def _rule(self, least: float) -> Relabelling:
        settings = self.settings
        only_added = isinstance(settings, FedCorrSettings) and settings.direction == "add"
        return Relabelling(least, settings.confidence, only_added)

    def _relabel(
        self,
        rule: Relabelling,
        local: nn.Module | None,
        network: nn.Module,
        data: SiteData,
        site: SiteView,
        share: float | None,
    ) -> None:
        """Replace labels by the received model's, and keep that as the record of this round."""
        provenance = Provenance.now(self.settings.method, site.round_number, model_hash(network.state_dict()))
        made, pixels = self._corrections(rule, local, network, data, site, provenance, share)
        stored = site.corrections.write(made, pixels)
        changed = (
            len(pixels) if isinstance(self.settings, FedCorrSettings) else sum(case.is_active for case in made.cases)
        )
        site.info(
            f"Before round {site.round_number}: {changed} of {len(data.cases)} labels are replaced in all or in part. "
            f"To look at them or to revert: fedannot corrections show {shlex.quote(str(stored.folder))}"
        )

    def _corrections(
        self,
        rule: Relabelling,
        local: nn.Module | None,
        network: nn.Module,
        data: SiteData,
        site: SiteView,
        provenance: Provenance,
        share: float | None,
    ) -> tuple[Corrections, Pixels]:
        given, folder, reverted = site.load(TRAINING), site.locate().folder, site.corrections.reverted
        inference, names = Inference.of(self.settings), reviewed_names(site, given)
        is_reviewed = [case_files(case, folder)[0] in names for case in given.cases]
        if isinstance(self.settings, FedCorrSettings):
            kind = PixelsRelabelled(noise_share=share, threshold=rule.confidence, only_added=rule.only_added)
            masks = relabelled_masks(rule, local, network, data, inference, is_reviewed)
            return pixel_corrections(given, masks, folder, provenance, kind, reverted)
        probabilities = inference.class_probabilities(network, data.cases)
        labels = relabelled_classes(rule, local, probabilities, data, inference, is_reviewed)
        if share is None:
            share = float((labels != given.labels.long()).double().mean())
        classes = CasesRelabelled(noise_level=share)
        return class_corrections(given, labels, probabilities, folder, provenance, classes, reverted), {}

    def _corrected(self, site: SiteView, stored: StoredCorrections | None) -> SiteData:
        given, folder = site.load(TRAINING), site.locate().folder
        reviewed = frozenset() if stored is None else reviewed_names(site, given)
        return with_corrections(given, stored, folder, reviewed)

    def _own_model(self, network: nn.Module, site: SiteView) -> nn.Module | None:
        """The site's own model after the round that counted last; None where it is lost or damaged."""
        counted = site.message.get(TRAINED_ROUND)
        problem, own = f"is not in {_FOLDER}", copy.deepcopy(network)
        try:
            kept = None if counted is None else site.kept_tensors(_FOLDER, int(counted))
            if kept is not None and kept[0] == counted:
                own.load_state_dict(kept[1])
                return own
        except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
            problem = f"in {_FOLDER} cannot be used ({type(error).__name__}: {error})"
        site.warning(f"This site's model of round {counted} {problem}; its noise cannot be estimated.")
        return None


def _section(site: SiteView, section: str, training: SiteData) -> SiteData:
    return training if section == TRAINING else site.load(section)
