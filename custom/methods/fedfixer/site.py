"""FedFixer at a site: its own model and the global one choose each other's samples; its own never leaves it."""

import copy
from dataclasses import replace

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import SiteView, Trained
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...training.losses import DiceRecord
from ...training.objectives import Objective, ProximalPenalty, Sum
from ..fedavg.site import FedAvgSite
from ..personal.kept_module import keep_module, restore_module
from .confidence import ConfidentObjective
from .sample_scores import kept_samples, sample_scores
from .settings import FedFixerSettings

OWN_MODEL_FOLDER = "own_models"


class FedFixerSite(FedAvgSite):
    """Trains as in federated averaging in the warm-up, then its own model θ and the global one w in turn.

    The received w chooses the samples that θ is trained on, with λ/2 ‖θ − w‖². Then θ chooses those of w. The first θ
    is the w that was received after the warm-up. It is kept in the run's folder, and a round begins with that of the
    latest round before it that the site was there for.
    """

    settings: FedFixerSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train θ, then w in place; w alone is what leaves."""
        if site.round_number <= self.settings.warmup_rounds:
            return super().train(network, site)
        data, targets = site.load(TRAINING), self.targets(site)
        own = copy.deepcopy(network)
        restore_module(own, site, OWN_MODEL_FOLDER, first_round=self.settings.warmup_rounds + 1)
        for_own = self._chosen(network, data, targets, site)
        near_global = ProximalPenalty(self.settings.personal_proximal_weight, network)
        self.train_part(
            own,
            Sum(self.objective(own, site, None, targets), near_global),
            self.batches(data, own, for_own),
            site,
            seed=derive_seed(site.training_seed, "personal"),
            part="personal",
            is_proximal=False,
        )
        for_global = self._chosen(own, data, targets, site)
        trained = self.train_on(self.batches(data, network, for_global), network, site, for_global)
        keep_module(own, site, OWN_MODEL_FOLDER, self.settings.keep_rounds)
        self._say(for_own, for_global, data, site)
        return replace(trained, trained_on=trained.outcome.units_of(data.units))

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the settings' loss, after the warm-up with the regulariser of confidence.

        Its frequencies are those of the site's labels, whichever samples a model has chosen.
        """
        supervised = super().objective(network, site, dice, targets)
        weight = self.settings.confidence_weight
        if not weight or site.round_number <= self.settings.warmup_rounds:
            return supervised
        labels, used = _labels_in_use(site.load(TRAINING), self.targets(site))
        counts = torch.bincount(labels[used].long(), minlength=self.settings.network.num_classes)
        return ConfidentObjective(supervised, counts / counts.sum(), weight)

    def _chosen(self, model: nn.Module, data: SiteData, targets: Targets, site: SiteView) -> Targets:
        """What a model takes for rightly labelled, of the samples that count; of three patients at least."""
        labels, candidates = _labels_in_use(data, targets)
        probabilities = Inference.of(self.settings).class_probabilities(model, data.cases)
        logarithms = probabilities.double().clamp(min=torch.finfo(torch.float32).tiny).log()
        kept = kept_samples(
            sample_scores(logarithms, labels),
            candidates,
            data.units,
            patients=max(MINIMUM_CASES, site.floor.patients),
            samples=site.floor.samples_per_step,
        )
        return replace(targets, used=None if bool(kept.all()) else kept)

    def _say(self, for_own: Targets, for_global: Targets, data: SiteData, site: SiteView) -> None:
        counts = [
            len(data.units) if chosen.used is None else int(chosen.used.sum()) for chosen in (for_own, for_global)
        ]
        site.info(
            f"Round {site.round_number}: of {len(data.units)} samples the global model chose {counts[0]} for the "
            f"site's own model, which chose {counts[1]} for the global one."
        )


def _labels_in_use(data: SiteData, targets: Targets) -> tuple[torch.Tensor, torch.Tensor]:
    """The labels that count, and which samples may be trained on."""
    labels = data.labels if targets.labels is None else torch.as_tensor(targets.labels)
    return labels, torch.ones(len(labels), dtype=torch.bool) if targets.used is None else targets.used
