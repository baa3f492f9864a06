"""Learning difficulty of a site's annotations: cross entropy of the warm-up model in bands along their contours."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...transforms.contour_bands import contour_bands

MIN_PROBABILITY = 1e-7  # bounds the cross entropy of a pixel by 16.1


@dataclass(frozen=True)
class AnnotationBands:
    """Inner and outer bands along the contours of N annotations; they depend on the annotations alone.

    Attributes:
        inner: ``(N, C, H, W[, D])`` booleans, band inside the contour of each foreground class.
        outer: the same outside the contour; both are empty where the class is absent or fills the sample.
        annotated: ``(N,)`` booleans, whether the annotation has any foreground.
    """

    inner: torch.Tensor
    outer: torch.Tensor
    annotated: torch.Tensor

    def batch(self, start: int, stop: int) -> "AnnotationBands":
        """Return the bands of the samples from start to stop (exclusive)."""
        return AnnotationBands(self.inner[start:stop], self.outer[start:stop], self.annotated[start:stop])


@dataclass(frozen=True)
class LearningDifficulty:
    """A site's learning difficulty per foreground class: means over its usable samples, which weigh equally.

    This is all of the estimate that leaves the site; values of single samples do not.

    Attributes:
        inner: ``(C,)`` mean cross entropy in the inner band (q_1), NaN for a class without a usable sample.
        outer: ``(C,)`` mean cross entropy in the outer band (q_2), NaN likewise.
        num_samples: ``(C,)`` samples used.
        predicted_share: share of the samples with annotated foreground in which the model predicts any foreground,
            NaN without such a sample. Near 0 the warm-up model is of no use yet (normalisation statistics that are too
            young, for instance) and the estimate is noise.
    """

    inner: NDArray[np.float64]
    outer: NDArray[np.float64]
    num_samples: NDArray[np.int64]
    predicted_share: float


def bands_of(labels: torch.Tensor, num_classes: int, spacing: Sequence[float] | None = None) -> AnnotationBands:
    """Compute the bands along the contours of every class, once for a site's annotations.

    Args:
        labels: ``(N, H, W[, D])`` integers, 0 for background and 1..C for the foreground classes.
        num_classes: number of foreground classes C.
        spacing: distance between pixels per axis, in millimetres; in pixels if None.

    Raises:
        ValueError: if a label is outside 0..C.
    """
    array = labels.detach().cpu().numpy()
    if array.size and (array.min() < 0 or array.max() > num_classes):
        raise ValueError(
            f"Expected labels from 0 to {num_classes}, but found {array.min()} to {array.max()}; "
            "check the number of classes against the annotations."
        )
    bands = np.zeros((2, len(array), num_classes, *array.shape[1:]), dtype=np.bool_)
    for sample, label in enumerate(array):
        for index in range(num_classes):
            bands[:, sample, index] = contour_bands(label == index + 1, spacing)
    inner, outer = torch.from_numpy(bands).to(labels.device)
    return AnnotationBands(inner, outer, (labels > 0).flatten(start_dim=1).any(dim=1))


def band_difficulty(logits: torch.Tensor, bands: AnnotationBands) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean pixel-wise cross entropy over the bands, per sample and class (FedA³I, the summands of Eq. 3, 4).

    Class c against the rest: −log p_c in the inner, −log(1 − p_c) in the outer band; for one foreground class this is
    the cross entropy of the labels. Probabilities count as at least 1e-7.

    Args:
        logits: ``(B, C + 1, H, W[, D])`` network output before the softmax, background first.
        bands: bands of the same samples.

    Returns:
        Two float64 tensors ``(B, C)``; NaN where the class is absent or fills the sample.

    Raises:
        ValueError: if the logits do not fit the bands or are not finite.
    """
    batch, num_classes, *spatial = bands.inner.shape
    if logits.shape != (batch, num_classes + 1, *spatial):
        raise ValueError(
            f"Expected logits of shape {(batch, num_classes + 1, *spatial)} (background and {num_classes} foreground "
            f"classes), but the network gives {tuple(logits.shape)}; check its number of output channels."
        )
    if not torch.isfinite(logits).all():
        raise ValueError("Expected finite network outputs, but found NaN or infinite values; training has diverged.")
    logits = logits.to(torch.float64)
    normaliser = torch.logsumexp(logits, dim=1)
    inner, outer = [], []
    for index in range(num_classes):
        others = [channel for channel in range(num_classes + 1) if channel != index + 1]
        log_rest = torch.logsumexp(logits[:, others], dim=1) - normaliser
        inner.append(_band_mean(normaliser - logits[:, index + 1], bands.inner[:, index]))
        outer.append(_band_mean(-log_rest, bands.outer[:, index]))
    return torch.stack(inner, dim=1), torch.stack(outer, dim=1)


def difficulty_over(network: nn.Module, batches: Iterable[tuple[torch.Tensor, AnnotationBands]]) -> LearningDifficulty:
    """Estimate a site's learning difficulty (Eq. 3 and 4 of FedA³I), batch by batch; batches may differ in shape.

    The network runs in evaluation mode without gradients; afterwards every module is in the mode it was in.

    Args:
        network: warm-up model that gives logits ``(B, C + 1, H, W[, D])``, on the device of the images.
        batches: images ``(B, channels, H, W[, D])`` with the bands of their annotations.

    Raises:
        ValueError: if there is no batch, or the network's output does not fit or is not finite.
    """
    values, predicted = [], []
    with _evaluating(network), torch.inference_mode():
        for images, bands in batches:
            logits = network(images)
            values.append(torch.stack(band_difficulty(logits, bands)).cpu())
            any_foreground = (logits.argmax(dim=1) > 0).flatten(start_dim=1).any(dim=1)
            predicted.append(any_foreground[bands.annotated].cpu())
    if not values:
        raise ValueError("Expected at least one batch of images, but the site has none.")
    inner, outer = torch.cat(values, dim=1).numpy()
    usable = ~np.isnan(inner) & ~np.isnan(outer)
    shares = torch.cat(predicted).double()
    return LearningDifficulty(
        inner=_usable_mean(inner, usable),
        outer=_usable_mean(outer, usable),
        num_samples=usable.sum(axis=0, dtype=np.int64),
        predicted_share=float(shares.mean()) if len(shares) else float("nan"),
    )


def site_difficulty(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    num_classes: int,
    *,
    batch_size: int = 8,
    spacing: Sequence[float] | None = None,
) -> LearningDifficulty:
    """Estimate the learning difficulty of a site whose samples have one shape; see :func:`difficulty_over`.

    Args:
        network: warm-up model that gives logits ``(B, C + 1, H, W[, D])``, on the device of the images.
        images: ``(N, channels, H, W[, D])``.
        labels: ``(N, H, W[, D])`` integers from 0 to C, on the same device.
        num_classes: number of foreground classes C.
        batch_size: samples that run through the network together.
        spacing: distance between pixels per axis, in millimetres; in pixels if None.

    Raises:
        ValueError: if images and labels differ in number, or as in :func:`bands_of` and :func:`difficulty_over`.
    """
    if len(images) != len(labels):
        raise ValueError(f"Expected one annotation per image, but found {len(images)} images and {len(labels)} labels.")
    bands = bands_of(labels, num_classes, spacing)
    starts = range(0, len(images), batch_size)
    return difficulty_over(
        network, ((images[start : start + batch_size], bands.batch(start, start + batch_size)) for start in starts)
    )


def _band_mean(cross_entropy: torch.Tensor, band: torch.Tensor) -> torch.Tensor:
    """Mean over the band's pixels per sample ``(B,)``; 0 / 0 = NaN for an empty band."""
    bounded = cross_entropy.clamp(min=0.0, max=-float(np.log(MIN_PROBABILITY)))
    return (bounded * band).flatten(start_dim=1).sum(dim=1) / band.flatten(start_dim=1).sum(dim=1)


def _usable_mean(values: NDArray[np.float64], usable: NDArray[np.bool_]) -> NDArray[np.float64]:
    counts = usable.sum(axis=0)
    sums = np.where(usable, values, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
