"""Forward correction of the cross entropy for labels that are given wrongly at a known rate."""

import torch
from torch import nn

from ...transforms.ignored_label import IGNORED_LABEL
from .component_loss import ComponentLoss

# log T of what is never given, in place of -inf: a label that cannot be has a finite loss and no gradient.
LOG_ZERO = -1e4
_TOLERANCE = 1e-4


class ForwardCorrected(nn.Module):
    """Cross entropy of the given labels under the probabilities with which a network's classes lead to them.

    −log (Tᵀ p)_y, the forward correction of Patrini et al., *Making Deep Neural Networks Robust to Label Noise: a Loss
    Correction Approach*, CVPR 2017 (Theorem 2). T_ij is the probability that class i is given as class j. With the
    identity it is the cross entropy. A class that is never given has a column of zeros; where it is given all the same,
    the loss is large but has no gradient.

    Args:
        transition: T, ``(C, C)``: a row for each true class, a column for each given one; with the background in
            segmentation. Rows sum to one.
        loss: of the logarithm of Tᵀ p and the given labels, in place of the cross entropy.

    Raises:
        ValueError: if it is no such matrix, or has more classes than there are labels besides the ignored one.

    Example:
        >>> loss = ForwardCorrected(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
        >>> round(loss(torch.zeros(1, 2), torch.tensor([0])).item(), 4)  # -log(1 / 2 + 1 / 2 · 1 / 2)
        0.2877
    """

    def __init__(self, transition: torch.Tensor, loss: nn.Module | None = None) -> None:
        super().__init__()
        self._loss = loss
        _check_transition(transition)
        # Rows are given classes, so that a label finds its own.
        given_from_true = transition.detach().double().T.log().clamp(min=LOG_ZERO).float().contiguous()
        self.register_buffer("_log_given_from_true", given_from_true)
        self._log_given_from_true: torch.Tensor

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean over the samples or pixels that are not ignored, 0 where all are.

        Args:
            logits: ``(B, C)``, or ``(B, C, H, W[, D])`` with the background first.
            labels: given classes ``(B,)``, or ``(B, 1, H, W[, D])``; 255 where they are ignored.
        """
        if isinstance(self._loss, ComponentLoss):
            self._loss.check_takes_log_probabilities(logits.shape[1], logits.ndim - 2)
        if self._loss is not None:
            return torch.as_tensor(self._loss(self._log_given(logits), labels))
        given = (labels if logits.ndim == 2 else labels.squeeze(1)).long()
        counts = given != IGNORED_LABEL
        log_from_true = self._log_given_from_true[given.masked_fill(~counts, 0)].movedim(-1, 1)
        log_given = (logits.float().log_softmax(dim=1) + log_from_true).logsumexp(dim=1)
        return -(log_given * counts).sum() / counts.sum().clamp(min=1)

    def _log_given(self, logits: torch.Tensor) -> torch.Tensor:
        """log Tᵀ p, of the form of the logits."""
        matrix = self._log_given_from_true.view(*self._log_given_from_true.shape, *[1] * (logits.ndim - 2))
        return (logits.float().log_softmax(dim=1).unsqueeze(1) + matrix).logsumexp(dim=2)


def _check_transition(transition: torch.Tensor) -> None:
    """Raises ValueError unless it is a matrix of probabilities whose rows sum to one."""
    if transition.ndim != 2 or len(set(transition.shape)) != 1 or not 2 <= len(transition) <= IGNORED_LABEL:
        raise ValueError(
            f"Expected a transition matrix (C, C) of 2 to {IGNORED_LABEL} classes, but got the shape "
            f"{tuple(transition.shape)}."
        )
    # Of NaN it is not true that it is within.
    if not ((transition >= 0) & (transition <= 1 + _TOLERANCE)).all():
        raise ValueError(f"Expected probabilities in the transition matrix, but got {transition.tolist()}.")
    sums = transition.sum(dim=1)
    if (sums - 1).abs().max() > _TOLERANCE:
        raise ValueError(
            f"Expected rows of the transition matrix, which are true classes, to sum to one, but got {sums.tolist()}."
        )


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
