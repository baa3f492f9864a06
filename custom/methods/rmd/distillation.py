"""How two networks teach each other: what each says of a changed image is pulled to what the other says."""

from collections.abc import Sequence

import torch

from .pixel_choice import smallest_pixels


def distillation_loss(
    logits: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], counted: torch.Tensor, fraction: float
) -> torch.Tensor:
    """Return Σ_j of the mean of KL(a(f_i(x)) ‖ f_j(a(x))) over the pixels of which the other network i is certain.

    A network is the more certain of a pixel, the smaller Σ_c (f(a(x)) − a(f(x)))² is. Nothing is taught where no pixel
    is chosen, and both are the same where every f(a(x)) is a(f(x)) of both.

    Args:
        logits: of f_j(a(x)) for each of the two networks, ``(B, C + 1, H, W[, D])``.
        targets: a(f_j(x)), probabilities of this shape without a gradient.
        counted: pixels that may be chosen, ``(B, H, W[, D])`` booleans.
        fraction: of these, how many are chosen.
    """
    logarithms = [of_one.float().log_softmax(dim=1) for of_one in logits]
    total = logarithms[0].new_zeros(())
    for own, other in ((0, 1), (1, 0)):
        distances = (logarithms[other].detach().exp() - targets[other]).square().sum(dim=1)
        chosen = smallest_pixels(distances, counted, fraction)
        divergences = (torch.xlogy(targets[other], targets[other]) - targets[other] * logarithms[own]).sum(dim=1)
        total = total + (divergences * chosen).sum() / chosen.sum().clamp(min=1)
    return total
