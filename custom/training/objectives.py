"""Local objectives: what a site makes small in training, as functions of network, batch and step.

A method with an objective of its own writes a function of this form. What it remembers per sample, it finds by
:attr:`fedannot.custom.training.batch.Batch.samples`; further networks, such as teachers, are the function's own.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...transforms.errors import DataError
from ..consensus_rule import ConsensusKind
from ..networks.outputs import all_outputs, labels_at, supervision_weights
from ..settings import ClassifierTrainingSettings, TrainingSettings
from .batch import Batch
from .component_loss import ComponentLoss
from .corrected_loss import annotated_log_probabilities
from .losses import DiceRecord, build_loss, loss_form
from .marginal_classes import MarginalClasses
from .soft_losses import SoftLoss


@dataclass(frozen=True)
class Step:
    """Where a round's training is.

    Attributes:
        number: of the step, from 0 over the whole round.
        epoch: of the round, from 0.
        epochs: of the round.
    """

    number: int
    epoch: int
    epochs: int


Objective = Callable[[nn.Module, Batch, Step], torch.Tensor]
"""Runs the network in training, and whatever else it needs, on a batch and returns the batch's mean loss."""


class SupervisedObjective:
    """The loss of the network's logits and the given labels, of segmentation and classification alike.

    With deep supervision it is the sum over all outputs, with nnU-Net's weights 1, 1/2, 1/4, … divided by their sum.

    Args:
        loss: the mean loss of logits and labels.
        dice: gets the Dice loss of every batch, besides whatever loss is trained with.
        completeness: fraction of the objects that is annotated in every sample of the site, of each foreground class,
            ``(N, C)``: the loss is then that of the annotations under the probability that what is there is annotated,
            and does not teach that objects which are left out are background. None where nothing is missing.
        marginal: of a site that does not annotate all classes; None where it annotates all of them.
        soft: the loss of fractions of annotators, where they are trained on.

    Raises:
        ValueError: if there is both a completeness and a class that is not annotated.
        DataError: if fractions are trained on where objects or classes are not annotated.
    """

    def __init__(
        self,
        loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        dice: DiceRecord | None = None,
        completeness: torch.Tensor | None = None,
        marginal: MarginalClasses | None = None,
        soft: SoftLoss | None = None,
    ) -> None:
        if soft is not None and (completeness is not None or marginal is not None):
            raise DataError(
                "found 'training.consensus' = soft, and objects or classes that are not annotated; expected majority, "
                "staple, random-per-epoch or one:NAME for such data."
            )
        if completeness is not None and marginal is not None:
            raise ValueError("Expected a completeness of all classes, but some are not annotated.")
        self._loss = loss
        self._dice = dice
        self._completeness = completeness
        self._marginal = marginal
        self._soft = soft

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        del step
        outputs = all_outputs(network, batch.images)
        if not outputs.further:
            return self._loss_of(outputs.main, batch.labels, batch)
        every = (outputs.main, *outputs.further)
        losses = [
            weight * self._loss_of(logits, labels_at(batch.labels, logits), batch, is_main=logits is outputs.main)
            for weight, logits in zip(supervision_weights(len(every)), every, strict=True)
        ]
        return torch.stack(losses).sum()

    @property
    def form(self) -> Hashable | None:
        """As of :func:`objective_form`; None where samples count differently or something is recorded of them."""
        parts = (self._dice, self._completeness, self._marginal, self._soft)
        return loss_form(self._loss) if all(part is None for part in parts) else None

    def _loss_of(
        self, logits: torch.Tensor, labels: torch.Tensor, batch: Batch, *, is_main: bool = True
    ) -> torch.Tensor:
        """The loss of logits and labels on one grid."""
        if self._marginal is not None:
            logits, labels = self._marginal.logits(logits), self._marginal.labels(labels)
        if self._dice is not None and is_main:
            self._dice.add(logits, labels, batch.samples)
        if self._soft is not None and batch.fractions is not None:
            return torch.as_tensor(self._soft(logits, labels_at(batch.fractions, logits)))
        if self._completeness is not None:
            logits = annotated_log_probabilities(logits, self._completeness[batch.samples])
        if isinstance(self._loss, ComponentLoss) and (self._marginal is not None or self._completeness is not None):
            self._loss.check_takes_log_probabilities(logits.shape[1], logits.ndim - 2)
        return self._loss(logits, labels)


class ProximalPenalty:
    """weight · ½ ‖w − w_ref‖², which keeps what is trained near a network as it is now.

    FedProx (Li et al., *Federated Optimization in Heterogeneous Networks*, MLSys 2020) keeps local training near the
    received model, Ditto (Li et al., ICML 2021) a personal model near the global one.

    Args:
        weight: μ of FedProx, λ of Ditto.
        reference: the network with w_ref, whose parameters are copied.
    """

    def __init__(self, weight: float, reference: nn.Module) -> None:
        self.weight = weight
        self.reference = [parameter.detach().clone() for parameter in reference.parameters()]

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the penalty."""
        del batch, step
        return self.weight * proximal_term(network, self.reference)


class Sum:
    """The sum of objectives, such as a loss and penalties.

    Args:
        first: an objective.
        others: are added to it in their order.
    """

    def __init__(self, first: Objective, *others: Objective) -> None:
        self.objectives = (first, *others)

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the sum."""
        first, *others = self.objectives
        total = first(network, batch, step)
        for other in others:
            total = total + other(network, batch, step)
        return total


def objective_form(objective: Objective) -> Hashable | None:
    """Return what two objectives have in common that compute the same, but for what they compare with.

    They compute the same of a network, images and labels and of the :func:`fixed_tensors`. They keep nothing, draw
    nothing, and wait for no GPU.

    Returns:
        None for an objective of which this is not known, such as a method's own.
    """
    # A subclass may compute something else.
    if type(objective) is SupervisedObjective:
        return objective.form
    if type(objective) is ProximalPenalty:
        return ProximalPenalty, objective.weight
    if type(objective) is Sum:
        forms = tuple(objective_form(part) for part in objective.objectives)
        return None if None in forms else (Sum, *forms)
    return None


def fixed_tensors(objective: Objective) -> list[torch.Tensor]:
    """Return what an objective of a known form compares with, such as the received weights."""
    if isinstance(objective, ProximalPenalty):
        return objective.reference
    if isinstance(objective, Sum):
        return [tensor for part in objective.objectives for tensor in fixed_tensors(part)]
    return []


def training_objective(
    training: TrainingSettings | ClassifierTrainingSettings,
    *,
    dice: DiceRecord | None = None,
    completeness: torch.Tensor | None = None,
    marginal: MarginalClasses | None = None,
) -> Objective:
    """Return the loss that a job's settings name; :func:`fedannot.custom.training.loop.train` adds FedProx's penalty.

    Args:
        training: the settings.
        dice: gets the Dice loss of every batch; segmentation only.
        completeness: of the annotations, see :class:`SupervisedObjective`; segmentation only.
        marginal: as above.
    """
    loss = build_loss(training, None if marginal is None else marginal.annotated)
    rule = training.consensus_rule
    soft = SoftLoss.of(training) if rule is not None and rule.kind is ConsensusKind.SOFT else None
    return SupervisedObjective(loss, dice, completeness, marginal, soft)


def with_penalty(
    objective: Objective, training: TrainingSettings | ClassifierTrainingSettings, network: nn.Module
) -> Objective:
    """Return an objective with FedProx's penalty, where the settings give it a weight.

    The penalty is the outermost part: what a method makes of its loss changes neither μ nor the parameters it is of.

    Args:
        objective: without it.
        training: the settings.
        network: with the received parameters, to which the penalty keeps what is trained.
    """
    if training.proximal_weight:
        return Sum(objective, ProximalPenalty(training.proximal_weight, network))
    return objective


def proximal_term(network: nn.Module, reference: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return ½ ‖w − w_ref‖² over a network's parameters, a scalar.

    Args:
        network: with w.
        reference: w_ref, a tensor for each parameter.

    Raises:
        ValueError: if there are more or fewer of them.
    """
    parameters = list(network.parameters())
    if len(parameters) != len(reference):
        raise ValueError(f"There are {len(reference)} tensors to keep {len(parameters)} parameters near.")
    value: torch.Tensor = _HalfSquaredDistance.apply(list(reference), *parameters)  # type: ignore[no-untyped-call]
    return value


class _HalfSquaredDistance(torch.autograd.Function):
    """½ ‖w − w_ref‖² of many tensors, in a few kernels for all of them; the gradient of each is w − w_ref."""

    @staticmethod
    def forward(context: Any, reference: list[torch.Tensor], *parameters: torch.Tensor) -> torch.Tensor:
        differences = torch._foreach_sub(parameters, reference)
        context.reference = reference
        context.save_for_backward(*differences, *parameters)
        return 0.5 * torch.stack(torch._foreach_norm(differences)).square().sum()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        number, saved = len(context.reference), context.saved_tensors
        if not torch.is_grad_enabled():
            return None, *torch._foreach_mul(saved[:number], gradient)
        # Of a gradient that is differentiated again: the differences above are constants there.
        pairs = zip(saved[number:], context.reference, strict=True)
        return None, *((parameter - fixed) * gradient for parameter, fixed in pairs)
