"""Learning difficulty of a site's annotations: cross entropy of the warm-up model in bands along their contours."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ....transforms.array_types import Booleans, Floats, Labels
from ....transforms.contour_bands import contour_bands
from ....transforms.ignored_label import IGNORED_LABEL
from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference, SampleBatch, evaluating

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

    def to(self, device: torch.device) -> "AnnotationBands":
        """Return the bands on a device."""
        return AnnotationBands(self.inner.to(device), self.outer.to(device), self.annotated.to(device))


@dataclass(frozen=True)
class LearningDifficulty:
    """A site's learning difficulty per foreground class: means over its usable samples, which weigh equally.

    This is all of the estimate that leaves the site; values of single samples do not.

    Attributes:
        inner: ``(C,)`` mean cross entropy in the inner band (q_1), NaN for a class without a usable sample.
        outer: ``(C,)`` mean cross entropy in the outer band (q_2), NaN as above.
        num_samples: ``(C,)`` samples used: pictures, volumes or slices.
        num_units: ``(C,)`` patients or volumes that these samples are of.
        annotated_units: patients or volumes with any annotated foreground.
        predicted_share: fraction of the samples with annotated foreground in which the model predicts any foreground,
            NaN without such a sample. Near 0 the warm-up model is of no use yet (normalisation statistics that are too
            young, for instance) and the estimate is noise.
    """

    inner: Floats
    outer: Floats
    num_samples: Labels
    num_units: Labels
    annotated_units: int
    predicted_share: float


@dataclass(frozen=True)
class SampleDifficulties:
    """Learning difficulty of each of a site's N annotated samples; stays at the site.

    Attributes:
        inner: ``(N, C)`` mean cross entropy in the inner band, NaN where the class is absent or fills the sample.
        outer: the same in the outer band.
        units: ``(N,)`` patient or volume that each sample is of.
        found: ``(N,)`` whether the model predicts any foreground.
    """

    inner: Floats
    outer: Floats
    units: NDArray[np.str_]
    found: Booleans

    @property
    def usable(self) -> Booleans:
        """``(N, C)``, whether a sample counts for a class."""
        return ~np.isnan(self.inner) & ~np.isnan(self.outer)

    def mean(self) -> LearningDifficulty:
        """Return the means over the usable samples."""
        usable = self.usable
        return LearningDifficulty(
            inner=_usable_mean(self.inner, usable),
            outer=_usable_mean(self.outer, usable),
            num_samples=usable.sum(axis=0, dtype=np.int64),
            num_units=np.array([len(set(self.units[of_class])) for of_class in usable.T], dtype=np.int64),
            annotated_units=len(set(self.units)),
            predicted_share=float(np.mean(self.found)) if len(self.found) else float("nan"),
        )


def bands_of(
    labels: torch.Tensor, num_classes: int, spacings: Sequence[Sequence[float] | None] | None = None
) -> AnnotationBands:
    """Compute the bands along the contours of every class.

    Args:
        labels: ``(N, H, W[, D])`` integers, 0 for background and 1..C for the foreground classes, 255 for ignored
            pixels: distances take them for background, but they are of no band.
        num_classes: number of foreground classes C.
        spacings: for each sample the distance between pixels per axis in millimetres, None in pixels; in pixels for all
            if None.

    Raises:
        ValueError: if a label is outside 0..C and not ignored.
    """
    ignored = labels == IGNORED_LABEL
    labels = labels.masked_fill(ignored, 0)
    array = labels.detach().cpu().numpy()
    if array.size and (array.min() < 0 or array.max() > num_classes):
        raise ValueError(
            f"Expected labels from 0 to {num_classes}, but found {array.min()} to {array.max()}; "
            "check the number of classes against the annotations."
        )
    bands = np.zeros((2, len(array), num_classes, *array.shape[1:]), dtype=np.bool_)
    for sample, label in enumerate(array):
        spacing = None if spacings is None else spacings[sample]
        for index in range(num_classes):
            bands[:, sample, index] = contour_bands(label == index + 1, spacing)
    inner, outer = torch.from_numpy(bands).to(labels.device)
    outer &= ~ignored.unsqueeze(1)
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


def site_difficulty(
    network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference
) -> LearningDifficulty:
    """Estimate a site's learning difficulty (Eq. 3 and 4 of FedA³I): the mean of :func:`sample_difficulties`."""
    return sample_difficulties(network, cases, num_classes, inference).mean()


def sample_difficulties(
    network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference
) -> SampleDifficulties:
    """Return the learning difficulty of each annotated sample of a site, computed batch by batch.

    Bands are measured in millimetres where the cases have a spacing, in the plane for slices, else in pixels. The
    network runs in evaluation mode without gradients; afterwards every module is in the mode it was in.

    Args:
        network: warm-up model that gives logits ``(B, C + 1, H, W[, D])``.
        cases: the site's cases.
        num_classes: number of foreground classes C.
        inference: how the model is run.

    Raises:
        ValueError: if there is no case, or as in :func:`bands_of` and :func:`band_difficulty`.
    """
    if not cases:
        raise ValueError("Expected at least one case, but the site has none.")
    inner: list[Floats] = []
    outer: list[Floats] = []
    units: list[str] = []
    result: list[bool] = []
    with evaluating(network), torch.inference_mode():
        for batch in inference.batches(cases):
            bands = bands_of(batch.labels, num_classes, [case.spacing for case in batch.cases])
            # Samples without annotation have no bands; in a volume that is cut into slices many are.
            if not bands.annotated.any():
                continue
            logits = inference.logits(network, batch.images)
            any_foreground = (logits.argmax(dim=1) > 0).flatten(start_dim=1).any(dim=1).cpu()
            if inference.window is not None:
                logits, bands = _around_bands(logits, bands)
            for values, part in zip((inner, outer), band_difficulty(logits, bands.to(logits.device)), strict=True):
                values.extend(part[bands.annotated].cpu().numpy())
            units += _units(batch, bands.annotated)
            result += any_foreground[bands.annotated].tolist()
    return SampleDifficulties(
        np.reshape(inner, (-1, num_classes)),
        np.reshape(outer, (-1, num_classes)),
        np.array(units, dtype=str),
        np.array(result, dtype=np.bool_),
    )


def _units(batch: SampleBatch, chosen: torch.Tensor) -> list[str]:
    return [case.unit for case, is_chosen in zip(batch.cases, chosen.tolist(), strict=True) if is_chosen]


def _around_bands(logits: torch.Tensor, bands: AnnotationBands) -> tuple[torch.Tensor, AnnotationBands]:
    """Crop logits and bands to the box that holds all bands: objects are much smaller than the volumes they are in."""
    anywhere = (bands.inner | bands.outer).flatten(end_dim=1).any(dim=0)
    if not anywhere.any():
        return logits, bands
    box = [slice(None), slice(None)]
    for axis in range(anywhere.ndim):
        others = [other for other in range(anywhere.ndim) if other != axis]
        places = anywhere.amax(dim=others).nonzero().flatten()
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    place = tuple(box)
    return logits[place], AnnotationBands(bands.inner[place], bands.outer[place], bands.annotated)


def _band_mean(cross_entropy: torch.Tensor, band: torch.Tensor) -> torch.Tensor:
    """Mean over the band's pixels per sample ``(B,)``; 0 / 0 = NaN for an empty band."""
    bounded = cross_entropy.clamp(min=0.0, max=-float(np.log(MIN_PROBABILITY)))
    return (bounded * band).flatten(start_dim=1).sum(dim=1) / band.flatten(start_dim=1).sum(dim=1)


def _usable_mean(values: Floats, usable: Booleans) -> Floats:
    counts = usable.sum(axis=0)
    sums = np.where(usable, values, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
