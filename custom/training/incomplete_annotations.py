"""Training on annotations that leave objects out at a known rate."""

import torch

from .corrected_loss import LOG_ZERO


def annotated_log_probabilities(logits: torch.Tensor, completeness: torch.Tensor) -> torch.Tensor:
    """Return the log probabilities with which pixels are annotated as each class, ``(B, C + 1, H, W[, D])``.

    An object of class c is annotated with probability a_c, whatever it looks like, and is background else: of a pixel
    that shows c with probability p_c the annotation says c with a_c p_c, and background with p_0 + Σ (1 − a_c) p_c. It
    is the forward correction of Patrini et al. (CVPR 2017) for objects that are missing at random.

    Args:
        logits: ``(B, C + 1, H, W[, D])``, the background first.
        completeness: a, of every image and foreground class, from 0 to 1, ``(B, C)``.

    Example:
        >>> half = annotated_log_probabilities(torch.zeros(1, 2, 1, 1), torch.tensor([[0.5]]))
        >>> [round(value, 2) for value in half.exp().flatten().tolist()]
        [0.75, 0.25]
    """
    log_probabilities = logits.float().log_softmax(dim=1)
    shares = completeness.to(log_probabilities).view(*completeness.shape, *[1] * (logits.ndim - 2))
    background, foreground = log_probabilities[:, :1], log_probabilities[:, 1:]
    annotated, missing = (foreground + share.log().clamp(min=LOG_ZERO) for share in (shares, 1 - shares))
    return torch.cat([torch.logaddexp(background, missing.logsumexp(dim=1, keepdim=True)), annotated], dim=1)
