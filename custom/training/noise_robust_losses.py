"""Losses that wrong labels disturb less, for comparison; jobs name them by ``training.loss._target_``.

All take logits ``(B, C, …)`` and labels ``(B, 1, …)`` with the numbers of classes: those of pixels, or of images
``(B, C)`` and ``(B, 1)``. Each is the mean over all pixels of a batch, background included. Nothing leaves the site.
"""

import math

import torch
from torch import nn

from ...transforms.ignored_label import IGNORED_LABEL


class GeneralizedCrossEntropy(nn.Module):
    """Generalised cross entropy, (1 − p_y^q) / q: between cross entropy (q → 0) and 1 − p_y (q = 1).

    See Zhang and Sabuncu, *Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels*, NeurIPS
    2018. With a truncation k, labels of which the model thinks p_y ≤ k have the constant (1 − k^q) / q and no gradient.
    Which these are is decided in each step; the paper decides it every ten epochs, from the fortieth on. So training
    begins with a model that was trained without (``start_model``): at a random start p_y is about 1/C of all labels,
    and with k from there on none has a gradient.

    Args:
        q: above 0, at most 1.
        truncation: k, at least 0 and below 1; 0 for none.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
        >>> loss = GeneralizedCrossEntropy(q=0.7)
        >>> round(float(loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0]]))), 6)
        0.354614
    """

    def __init__(self, q: float = 0.7, truncation: float = 0.0) -> None:
        super().__init__()
        if not 0 < q <= 1:
            raise ValueError(f"Expected 0 < q ≤ 1, but got {q=}.")
        if not 0 <= truncation < 1:
            raise ValueError(f"Expected 0 ≤ truncation < 1, but got {truncation=}.")
        self._q, self._truncation = q, truncation

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        # By the logarithm, as the derivative of p^q is infinite at p = 0.
        exponent = self._q * _log_probabilities(logits, labels)
        losses = -torch.expm1(exponent) / self._q
        if self._truncation:
            least = self._q * math.log(self._truncation)
            losses = torch.where(exponent <= least, -math.expm1(least) / self._q, losses)
        return losses.mean()


class SymmetricCrossEntropy(nn.Module):
    """Symmetric cross entropy, α CE + β A (1 − p_y) with A = −ln 1e-4.

    The second term is the reverse cross entropy −Σ_c p_c ln y_c with ln 0 taken as ln 1e-4. See Wang et al., *Symmetric
    Cross Entropy for Robust Learning with Noisy Labels*, ICCV 2019.

    Args:
        alpha: α, at least 0.
        beta: β, at least 0.

    Raises:
        ValueError: if a weight is negative.

    Example:
        >>> loss = SymmetricCrossEntropy(alpha=0.5, beta=1.0)
        >>> round(float(loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2]]))), 6)
        9.584931
    """

    def __init__(self, alpha: float = 0.5, beta: float = 1.0) -> None:
        super().__init__()
        if min(alpha, beta) < 0:
            raise ValueError(f"Expected weights of at least 0, but got {alpha=} and {beta=}.")
        self._alpha, self._beta = alpha, beta

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        chosen = _log_probabilities(logits, labels)
        reverse = -torch.expm1(chosen) * -math.log(_LEAST_LABEL)
        return (-self._alpha * chosen + self._beta * reverse).mean()


class NoiseRobustDice(nn.Module):
    """Noise-robust Dice loss, Σ |p − g|^γ / (Σ p² + Σ g² + 1e-5), mean over the foreground classes.

    See Wang et al., *A Noise-Robust Framework for Automatic Segmentation of COVID-19 Pneumonia Lesions From CT Images*,
    IEEE Transactions on Medical Imaging 2020. The authors' later program divides by Σ p + Σ g. The sums are over all
    pixels of a batch that are not ignored: for a single sample without annotation the quotient would fall as the
    probabilities of everything rise. So it does for a class that no pixel of the batch has, with squares and γ < 2:
    where classes are rare take large batches, or ``linear``. With γ = 2 and squares it is V-Net's Dice loss, with γ = 1
    and ``linear`` the soft Dice loss.

    Args:
        exponent: γ, between 1 and 2.
        denominator: ``squares`` or ``linear``.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(self, exponent: float = 1.5, denominator: str = "squares") -> None:
        super().__init__()
        if not 1 <= exponent <= 2:
            raise ValueError(f"Expected 1 ≤ exponent ≤ 2, but got {exponent=}.")
        if denominator not in ("squares", "linear"):
            raise ValueError(f"Expected the denominator 'squares' or 'linear', but got {denominator=}.")
        self._exponent, self._has_squares = exponent, denominator == "squares"

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        probabilities = (logits.float().softmax(dim=1) * (labels != IGNORED_LABEL))[:, 1:]
        classes = torch.arange(1, logits.shape[1], device=labels.device).view(1, -1, *[1] * (labels.ndim - 2))
        annotated = (labels == classes).to(probabilities.dtype)
        pixels = [0, *range(2, labels.ndim)]
        distance = (probabilities - annotated).abs().pow(self._exponent).sum(pixels)
        # The annotation is 0 or 1, its own square.
        extent = ((probabilities.square() if self._has_squares else probabilities) + annotated).sum(pixels)
        return (distance / (extent + _SMOOTHING)).mean()


# What stands for the probability 0 of a label, and what keeps a quotient finite.
_LEAST_LABEL = 1e-4
_SMOOTHING = 1e-5


def _log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """ln p_y of every pixel or image, ``(B, 1, …)``."""
    return logits.log_softmax(dim=1).gather(1, labels.long())
