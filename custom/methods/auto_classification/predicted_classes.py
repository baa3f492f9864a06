"""What a received model says of a site's samples, as the mean over views of them."""

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Floats, Labels
from ...data.site_data import SiteData
from ...evaluation.inference import Inference, evaluating
from ...settings import ClassifierTrainingSettings

# Of a class that the model has not learnt at all.
_SMALLEST_TYPICAL = 1e-3


def predicted_probabilities(
    network: nn.Module, data: SiteData, inference: Inference, training: ClassifierTrainingSettings
) -> torch.Tensor:
    """Return the probabilities of classes of every sample, ``(N, C)`` float64 in main memory.

    Where images are turned and mirrored in training they are means over all such views: a model that has learnt a
    sample's wrong label has learnt it less in all of them.

    Args:
        network: the model; it is run in evaluation mode.
        data: the site's cases.
        inference: how the model is run.
        training: whether images are turned and mirrored.
    """
    parts = []
    for batch in inference.batches(data.cases):
        with evaluating(network), torch.inference_mode():
            views = views_of(batch.images) if training.augmentation else [batch.images]
            said = [inference.logits(network, view).to("cpu", torch.float64).softmax(dim=1) for view in views]
            parts.append(torch.stack(said).mean(dim=0))
    return torch.cat(parts)


def balanced(probabilities: Floats, labels: Labels) -> Floats:
    """Return probabilities in which rare classes have their due, ``(N, C)``.

    An early model takes samples of a rare class for another one long before it is sure of them, and all their labels
    would look wrong. So each class's probability is divided by the square root of what it is on average for the samples
    given as it, which is low for a class that the model has hardly learnt; Northcutt et al. (*Confident Learning*,
    JAIR 70, 2021) compare with that average itself. A class without a sample is taken as the others are on average.

    Args:
        probabilities: ``(N, C)``.
        labels: given, ``(N,)``.
    """
    num_given = np.bincount(labels, minlength=probabilities.shape[1])
    sums = np.bincount(labels, weights=probabilities[np.arange(len(labels)), labels], minlength=len(num_given))
    typical = np.where(num_given > 0, sums / np.maximum(num_given, 1), sums.sum() / len(labels))
    divided = probabilities / np.sqrt(np.maximum(typical, _SMALLEST_TYPICAL))
    return np.asarray(divided / divided.sum(axis=1, keepdims=True))


def patient_accuracy(network: nn.Module, data: SiteData, inference: Inference) -> dict[str, float]:
    """Return every patient's part in the balanced accuracy: their mean over patients of one sample is the mean recall.

    A sample whose class is predicted right counts N / (C n), where n of N samples are of its class, one of C in the
    data; a patient's score is the mean over its samples. So a rare class has as much weight as any.

    Args:
        network: the model; it is run in evaluation mode.
        data: the cases.
        inference: how the model is run.
    """
    labels = data.labels.numpy().astype(np.int64)
    counts = np.bincount(labels)
    weights = len(labels) / (np.count_nonzero(counts) * counts[labels])
    right = inference.class_probabilities(network, data.cases).argmax(dim=1).numpy() == labels
    result: dict[str, list[float]] = {}
    for unit, score in zip(data.units, weights * right, strict=True):
        result.setdefault(unit, []).append(float(score))
    return {unit: float(np.mean(scores)) for unit, scores in sorted(result.items())}


def views_of(images: torch.Tensor) -> list[torch.Tensor]:
    """Return images ``(B, C, H, W)`` turned by multiples of 90°, of 180° where sides differ, and mirrored."""
    step = 1 if images.shape[-1] == images.shape[-2] else 2
    turned = [torch.rot90(images, turns, (2, 3)) for turns in range(0, 4, step)]
    return turned + [view.flip(3) for view in turned]
