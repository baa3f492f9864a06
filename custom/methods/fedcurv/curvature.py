"""How sharply the sites' losses bend around their parameters, by which FedCurv keeps what they have learnt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ...training.batch import Batch, Batches
from ...training.loop import TrainingStopped
from ...training.losses import CrossEntropy
from ...training.objectives import Step


class Curvature(nn.Module):
    """Diagonals of Fisher information matrices and the parameters weighted by them, as buffers.

    As a part of a network they travel with its state dict and are averaged as its parameters are; a site's own ones lie
    in the site's files.

    Args:
        network: what the buffers are like.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        for index, parameter in enumerate(network.parameters()):
            self.register_buffer(f"information_{index}", torch.zeros_like(parameter, requires_grad=False))
            self.register_buffer(f"weighted_{index}", torch.zeros_like(parameter, requires_grad=False))

    def pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield I and I ⊙ θ for every parameter, in the network's order."""
        buffers = dict(self.named_buffers())
        for index in range(len(buffers) // 2):
            yield buffers[f"information_{index}"], buffers[f"weighted_{index}"]

    def store(self, information: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> None:
        """Take the diagonal of every parameter."""
        for (kept, weighted), new, parameter in zip(self.pairs(), information, parameters, strict=True):
            kept.copy_(new)
            weighted.copy_(new * parameter.detach())


def with_curvature(network: nn.Module) -> nn.Module:
    """Give a network its :class:`Curvature` as a part, and return it."""
    network.add_module("curvature", Curvature(network))
    return network


def fisher_diagonal(
    network: nn.Module,
    batches: Batches,
    generator: torch.Generator,
    should_stop: Callable[[], bool] | None = None,
) -> list[torch.Tensor]:
    """Return the diagonal of the empirical Fisher information: the mean over samples of the squared gradient.

    The gradient is that of a sample's cross entropy, the mean over its pixels that are not ignored, with the network in
    evaluation mode. It leaves the site as a part of the state dict, for a mean over all samples.

    Args:
        network: the trained network, put into evaluation mode.
        batches: the site's samples, gone through once.
        generator: gives what `batches` draws.
        should_stop: asked before each batch; when it says yes it is given up.

    Returns:
        A tensor for each parameter; of zeros for one that is not trained.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    parameters = list(network.parameters())
    sums = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
    trained = [(parameter, total) for parameter, total in zip(parameters, sums, strict=True) if parameter.requires_grad]
    of_pixels, count = CrossEntropy(), 0
    network.eval()
    for batch in batches.epoch(generator):
        if should_stop is not None and should_stop():
            raise TrainingStopped
        for image, label in zip(batch.images, batch.labels, strict=True):
            loss = of_pixels(network(image[None]), label[None])
            # Outputs of deep supervision are of training alone.
            gradients = torch.autograd.grad(
                loss, [parameter for parameter, _ in trained], allow_unused=True, materialize_grads=True
            )
            for (_, total), gradient in zip(trained, gradients, strict=True):
                total.add_(gradient.square())
            count += 1
    return [total / count for total in sums]


@dataclass(frozen=True)
class OthersCurvature:
    """What the other sites' parameters and curvatures ask of this site's parameters.

    Shoham et al., *Overcoming Forgetting in Federated Learning on Non-IID Data*, 2019: the sum over all sites j but
    this one of (θ − θ_j)ᵀ diag(I_j) (θ − θ_j), here less what it is for the received parameters.

    Attributes:
        pairs: Σ_j I_j and Σ_j I_j ⊙ θ_j for every parameter.
        start: what they make of the received parameters.
    """

    pairs: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    start: torch.Tensor

    @classmethod
    def of(
        cls,
        mean: Curvature,
        own: Curvature | None,
        parameters: Sequence[torch.Tensor],
        *,
        share: float,
        num_sites: int,
    ) -> "OthersCurvature":
        """Take a site's own part out of the mean over all.

        The received mean weighs sites by their numbers of samples. It is multiplied by the number of sites, so that
        with sites of one size the sum is the paper's.

        Args:
            mean: as received.
            own: what this site sent for it; None if the mean holds nothing of this site's.
            parameters: as received.
            share: of this site's samples in all.
            num_sites: number of sites in the mean.
        """
        received = list(mean.pairs())
        if own is not None:
            received = [_taken_out(theirs, ours, share) for theirs, ours in zip(received, own.pairs(), strict=True)]
        pairs = tuple((num_sites * information, num_sites * weighted) for information, weighted in received)
        return cls(pairs, _asked(pairs, [parameter.detach() for parameter in parameters]))

    def penalty(self, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the sum, a scalar; below zero where the parameters are better for the others than the received."""
        return _asked(self.pairs, parameters) - self.start


@dataclass(frozen=True)
class CurvaturePenalty:
    """The local objective that is added to a site's own: weight times what the other sites ask.

    Attributes:
        weight: λ.
        others: what they ask.
    """

    weight: float
    others: OthersCurvature

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the penalty."""
        del batch, step
        return self.weight * self.others.penalty(list(network.parameters()))


def _asked(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of θᵀ diag(I_j) θ − 2 θᵀ diag(I_j) θ_j: what does not depend on θ is not known here."""
    terms = [
        (information * parameter.square() - 2 * weighted * parameter).sum()
        for (information, weighted), parameter in zip(pairs, parameters, strict=True)
    ]
    return torch.stack(terms).sum()


def _taken_out(
    mean: tuple[torch.Tensor, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor], share: float
) -> tuple[torch.Tensor, torch.Tensor]:
    information, weighted = (all_of_it - share * part for all_of_it, part in zip(mean, own, strict=True))
    # Where nobody else has any information, rounding may leave less than nothing.
    return information.clamp_min(0), torch.where(information > 0, weighted, 0.0)
