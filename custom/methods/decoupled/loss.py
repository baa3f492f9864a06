"""The losses of decoupled predictions (Gao et al., MICCAI 2022, Eq. 5 to 8)."""

from dataclasses import dataclass

import torch
from torch.nn.functional import nll_loss

from ....transforms.ignored_label import IGNORED_LABEL
from .adaptation import AdaptationNetwork, log_local_probabilities
from .network import DecoupledNetwork


def noise_robust_loss(log_probabilities: torch.Tensor, labels: torch.Tensor, exponent: float) -> torch.Tensor:
    """Return the mean over pixels that are not ignored of (1 − p_y^q)/q (Eq. 6, which writes a sum); 0 without any.

    As q goes to 0 it is the cross entropy; at 1 it is one minus the probability of the label.

    Args:
        log_probabilities: log p ``(B, C + 1, H, W[, D])``.
        labels: ``(B, 1, H, W[, D])``.
        exponent: q, above 0.
    """
    counts = labels != IGNORED_LABEL
    of_label = log_probabilities.gather(1, labels.long().masked_fill(~counts, 0))
    # The mean over all pixels is made that over those that count, by a factor that is 1 where none is ignored.
    among_all = torch.expm1(exponent * of_label).masked_fill(~counts, 0.0).mean()
    return -among_all * (counts.numel() / counts.sum().clamp(min=1)) / exponent


def likelihood_loss(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean of −log p_y over the pixels that are not ignored, 0 without any.

    Args:
        log_probabilities: log p ``(B, C + 1, H, W[, D])``.
        labels: ``(B, 1, H, W[, D])``.
    """
    mean = nll_loss(log_probabilities, labels[:, 0].long(), ignore_index=IGNORED_LABEL)
    return torch.where((labels != IGNORED_LABEL).any(), mean, 0.0)


def mean_trace(adaptation: torch.Tensor) -> torch.Tensor:
    """Return the mean over samples and pixels of the trace of W ``(B, C + 1, C + 1, H, W[, D])`` (Eq. 5)."""
    return adaptation.diagonal(dim1=1, dim2=2).sum(dim=-1).mean()


@dataclass(frozen=True)
class DecoupledLoss:
    """The loss of a batch: in the warm-up of the segmentation network alone, then of both predictions.

    Both raise the lower bound of Eq. 1. With z drawn from the posterior, p the global prediction and W the adaptation:

    - warm-up: CE(p, y) + β KL(posterior ‖ prior) − TR(W), which brings W near the identity (Eq. 7);
    - then: CE(W ⊙ p, y) + NR_q(p, y) + α TR(W) + β KL(posterior ‖ prior), which drives W away from it where that costs
      nothing (Eq. 8).

    Args:
        is_warmup: which of the two.
        trace_weight: α.
        divergence_weight: β.
        exponent: q of the noise-robust loss.
    """

    is_warmup: bool
    trace_weight: float = 0.01
    divergence_weight: float = 0.01
    exponent: float = 0.7

    def __call__(
        self,
        shared: DecoupledNetwork,
        adaptation: AdaptationNetwork,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,
    ) -> torch.Tensor:
        """Run both parts on images ``(B, channels, H, W[, D])`` and labels ``(B, 1, H, W[, D])``."""
        prior, posterior = shared.prior(images), shared.encode_annotated(images, labels)
        code = posterior.sample(generator)
        features = shared.unet(images)
        log_global = shared.segment(features, code).float().log_softmax(dim=1)
        flips = adaptation(images, features, code)
        divergence = self.divergence_weight * posterior.divergence_from(prior).mean()
        if self.is_warmup:
            return likelihood_loss(log_global, labels) + divergence - mean_trace(flips)
        fit = likelihood_loss(log_local_probabilities(log_global, flips), labels)
        robust = noise_robust_loss(log_global, labels, self.exponent)
        return fit + robust + self.trace_weight * mean_trace(flips) + divergence
