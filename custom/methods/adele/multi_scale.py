"""What a site makes small in ADELE: the settings' loss at several scales, and how far their predictions disagree."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from ..fednoro.prior import AdjustedNetwork
from .scaled_network import ScaledNetwork

# Mean probabilities count as at least this, and as at most one minus it.
_SMALLEST = 1e-3


class MultiScaleObjective:
    """mean_s L(z_s) + λ Σ_s KL(p_s ‖ q), with the settings' loss L and the mean prediction q of all scales.

    All logits z_s have the extents of the image. Outputs of deep supervision have a loss at scale 1 alone.

    Args:
        own: L at scale 1, with all that the settings add to it.
        scaled: L at other scales; it records nothing.
        scales: the scales.
        weight: λ.
        threshold: ρ, see :func:`consistency_term`.
        accepts: which extents the network takes.
    """

    def __init__(
        self,
        own: Objective,
        scaled: Objective,
        *,
        scales: Sequence[float],
        weight: float,
        threshold: float,
        accepts: Callable[[tuple[int, ...]], bool],
    ) -> None:
        self._own, self._scaled = own, scaled
        self._scales, self._weight, self._threshold, self._accepts = scales, weight, threshold, accepts

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        losses, logits = [], []
        for scale in self._scales:
            seen = network if scale == 1 else ScaledNetwork(network, scale, self._accepts)
            # Without a prior the logits are the network's own; it remembers them.
            observed = AdjustedNetwork(seen)
            losses.append((self._own if scale == 1 else self._scaled)(observed, batch, step))
            logits.append(observed.logits)
        loss = torch.stack(losses).mean()
        if not self._weight:
            return loss
        counted = batch.labels.squeeze(1) != IGNORED_LABEL
        return loss + self._weight * consistency_term(logits, counted, self._threshold)


def consistency_term(logits: Sequence[torch.Tensor], counted: torch.Tensor, threshold: float) -> torch.Tensor:
    """Return the mean of Σ_s KL(p_s ‖ q) over the pixels that count; 0 where none does.

    q is the mean of the p_s, clamped to [10⁻³, 1 − 10⁻³]. An image whose largest q is below the threshold adds 0.

    Args:
        logits: of each scale, ``(B, C + 1, H, W[, D])``.
        counted: pixels that are not ignored, ``(B, H, W[, D])`` booleans.
        threshold: ρ.
    """
    # Of a probability of 0 the logarithm is finite here, and so is the gradient.
    logarithms = [of_scale.float().log_softmax(dim=1) for of_scale in logits]
    mean = torch.stack([of_scale.exp() for of_scale in logarithms]).mean(dim=0).clamp(_SMALLEST, 1 - _SMALLEST)
    counts = counted.to(mean)
    largest = (mean.detach().amax(dim=1) * counts).flatten(1).amax(dim=1)
    used = counts * (largest >= threshold).to(mean).view(-1, *[1] * (counts.ndim - 1))
    divergences = [(of_scale.exp() * (of_scale - mean.log())).sum(dim=1) for of_scale in logarithms]
    divergence = torch.stack(divergences).sum(dim=0)
    return (divergence * used).sum() / counts.sum().clamp(min=1)
