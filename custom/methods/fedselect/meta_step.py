"""How V would have to change so that a step on weighted cases makes the loss of the proxy cases smaller (FedSelect)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from .scorer import selection_weights

# Images and labels on the network's device.
Samples = tuple[torch.Tensor, torch.Tensor]


def scorer_gradient(
    network: nn.Module,
    scorer: torch.Tensor,
    training: Samples,
    proxy: Sequence[Samples],
    *,
    patients: Sequence[int],
    smallest_group: int,
    step: float,
    losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Return ∇_V L(θ') at θ' = θ − η ∇_θ mean V(ℓ) ℓ, with the mean loss L of the proxy samples, ``(301,)``.

    Each ℓ is the mean loss of a group of patients with losses near each other. Of single ones the gradient would name
    the loss: it has a kink there in what V's hidden units are set to. The losses that V sees are no part of the
    gradient. The network stays as it is, and computes in evaluation mode:
    normalisation is that of the received model.

    Args:
        network: with θ.
        scorer: V.
        training: a batch of samples to step on.
        proxy: batches of samples on which the step is tested.
        patients: whose each of the samples to step on is, ``(B,)``.
        smallest_group: how many patients a group has at least; 1 is the authors' form, for each sample of its own.
        step: η.
        losses: gives the loss of each sample ``(B,)`` for logits and labels.
    """
    network.eval()
    parameters: dict[str, torch.Tensor] = {
        name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad
    }
    images, labels = training
    own = losses(functional_call(network, parameters, (images,)), labels)
    own = _group_means(own, patients, smallest_group)
    variable = scorer.to(own.device, torch.float32).detach().requires_grad_()
    weighted = (selection_weights(variable, own) * own).mean()
    # Heads of deep supervision have no part in evaluation mode.
    gradients = torch.autograd.grad(weighted, list(parameters.values()), create_graph=True, allow_unused=True)
    stepped = {
        name: parameter if gradient is None else parameter - step * gradient
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True)
    }
    count = sum(len(part) for part, _ in proxy)
    result = torch.zeros_like(variable)
    for images, labels in proxy:
        loss = losses(functional_call(network, stepped, (images,)), labels).sum() / count
        # The graph of the step is that of all batches.
        result = result + torch.autograd.grad(loss, variable, retain_graph=True)[0]
    return result.detach().cpu()


def _group_means(losses: torch.Tensor, patients: Sequence[int], smallest: int) -> torch.Tensor:
    """Means over groups of at least so many patients, in the order of their losses; of fewer patients one mean."""
    numbers = torch.from_numpy(np.unique(patients, return_inverse=True)[1]).to(losses.device)
    by_patient = torch.stack([losses[numbers == number].mean() for number in range(int(numbers.max()) + 1)])
    order = torch.sort(by_patient.detach(), stable=True).indices
    groups = torch.tensor_split(order, max(len(order) // smallest, 1))
    return torch.stack([by_patient[group].mean() for group in groups])
