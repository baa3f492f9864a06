"""Federated averaging at a site, and what other methods begin with there."""

import torch
from torch import nn

from ...corrections.targets import AS_GIVEN, Targets
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...interface.method import SiteMethod
from ...interface.views import SiteView, Trained
from ...settings import TrainingSettings
from ...training.batch import Batches
from ...training.batches import training_batches
from ...training.corrected_loss import ForwardCorrected
from ...training.kept_optimizer import OPTIMIZER_FOLDER, KeptOptimizer
from ...training.loop import TrainingOutcome, train
from ...training.losses import DiceRecord, build_loss
from ...training.marginal_classes import MarginalClasses
from ...training.objectives import Objective, SupervisedObjective, training_objective
from ...training.schedules import LearningRate


class FedAvgSite(SiteMethod):
    """Trains the received network on the site's data, in segmentation and in classification.

    A method with another local objective overrides :meth:`objective`, one that trains on other samples or labels
    :meth:`targets`.

    Example:
        >>> from fedannot.custom import FedAvgSettings
        >>> class LongerSteps(FedAvgSite):
        ...     def learning_rate(self, site):
        ...         return 2 * super().learning_rate(site)
        >>> LongerSteps(FedAvgSettings()).settings.method
        'fedavg'
    """

    def before_task(self, site: SiteView) -> None:
        """Take over the corrections of the run that is continued."""
        if site.continued_round is not None:
            self.adopt_corrections(site, site.continued_round)

    def adopt_corrections(self, site: SiteView, last_round: int) -> None:
        """Take over the corrections of the run that is continued, as far as they were made by a round."""
        earlier = site.corrections.adopt(site.earlier_folders, last_round, site.locate().folder)
        if earlier is not None:
            site.info(f"The corrections of {earlier} are in use.")

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train the received network in place."""
        targets = self.targets(site)
        return self.train_on(self.batches(site.load(TRAINING), network, targets), network, site, targets)

    def train_on(self, batches: Batches, network: nn.Module, site: SiteView, targets: Targets = AS_GIVEN) -> Trained:
        """Train a network in place on batches, with the settings' optimizer and the round's learning rate."""
        dice = self.dice_record(network)
        objective = self.objective(network, site, dice, targets)
        outcome = self.train_part(network, objective, batches, site, seed=site.training_seed)
        return Trained(outcome.with_dice(dice))

    def train_part(
        self,
        network: nn.Module,
        objective: Objective,
        batches: Batches,
        site: SiteView,
        *,
        seed: int,
        part: str = "shared",
        epochs: int | None = None,
        is_proximal: bool = True,
        adversary: torch.optim.Optimizer | None = None,
    ) -> TrainingOutcome:
        """Train a network in place as the settings say, with the round's learning rate; all training comes here.

        Args:
            network: what is trained.
            objective: what is made small.
            batches: the site's data.
            site: the site in this round.
            seed: seed of everything random.
            part: names what is trained, where a round trains several: each has an optimizer of its own.
            epochs: in place of the settings' epochs or steps.
            is_proximal: whether FedProx's penalty of the settings counts; False for a model of the site's own, of which
                a method says itself what it is kept near.
            adversary: steps against the network's optimizer, see :func:`fedannot.custom.training.loop.run_epochs`.
        """
        training = self.settings.training
        if epochs is not None:
            training = training.model_copy(update={"local_epochs": epochs, "local_steps": None})
        if not is_proximal:
            training = training.model_copy(update={"proximal_weight": 0.0})
        return train(
            network,
            batches,
            objective,
            training,
            learning_rate=self.learning_rate(site),
            seed=seed,
            should_stop=site.is_stopped,
            kept_optimizer=self._kept_optimizer(site, part),
            adversary=adversary,
        )

    def schedule_round(self, site: SiteView) -> tuple[int, int]:
        """Return the round of the learning rate's schedule, from 1, and how many it has; by default the run's.

        In the first round of a schedule the site's optimizer is new.
        """
        return site.round_number, self.settings.rounds

    def learning_rate(self, site: SiteView) -> LearningRate:
        """Return the round's learning rate."""
        return LearningRate(self.settings.training, *self.schedule_round(site))

    def _kept_optimizer(self, site: SiteView, part: str) -> KeptOptimizer | None:
        """What keeps the optimizer's state from round to round, where the settings say so."""
        if not self.settings.training.keep_optimizer:
            return None
        folder, (place, _) = f"{OPTIMIZER_FOLDER}/{part}", self.schedule_round(site)
        return KeptOptimizer(
            site.run_folder / folder,
            site.round_number,
            load=lambda: None if place == 1 else site.kept_tensors(folder, site.round_number - 1),
            keep=self.settings.keep_rounds,
            warn=site.warning,
        )

    def batches(self, data: SiteData, network: nn.Module, targets: Targets = AS_GIVEN) -> Batches:
        """Return what is trained on, where the network is."""
        device = next(network.parameters()).device
        return training_batches(data, self.settings.training, device, labels=targets.labels, used=targets.used)

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return what is made small: a function of network, batch and step, without FedProx's penalty.

        Args:
            network: the network with the received weights.
            site: the site in this round.
            dice: gets the Dice loss of every batch, where the site reports it.
            targets: what counts of the site's labels.
        """
        if targets.transition is not None:
            training = self.settings.training
            is_plain = training.loss == "ce" and not training.class_weights
            corrected = ForwardCorrected(targets.transition, None if is_plain else build_loss(training))
            return SupervisedObjective(corrected.to(next(network.parameters()).device))
        return training_objective(
            self.settings.training,
            dice=dice,
            completeness=targets.completeness,
            marginal=self._marginal_classes(site),
        )

    def _marginal_classes(self, site: SiteView) -> MarginalClasses | None:
        """What the site's annotations say of classes; None where it annotates all of them."""
        annotated = site.load(TRAINING).annotated_labels
        return None if annotated is None else MarginalClasses(annotated, self.settings.network.num_classes)

    def dice_record(self, network: nn.Module) -> DiceRecord | None:
        """Return what records the Dice loss of a round's training, where the site reports it."""
        training = self.settings.training
        if not (self.settings.reports_dice_loss and isinstance(training, TrainingSettings)):
            return None
        return DiceRecord(
            annotated_only=training.dice_loss_over == "annotated", device=next(network.parameters()).device
        )
