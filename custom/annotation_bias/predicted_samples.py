"""A site's samples, compared with what the received model says of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from torch import nn

from ...transforms.array_types import AnyFloats, Array
from ...transforms.surfaces import bounding_box
from ..data.site_data import LoadedCase
from ..evaluation.inference import Inference, evaluating
from .cases import PredictedCase
from .thresholds import THRESHOLDS

# Contours are looked for this far around what is annotated or predicted; the rest of an image says nothing of them.
_MARGIN = 12


# Yields the samples of cases in their order, predicted by a model that is fit for each.
Predictor = Callable[[Sequence[LoadedCase]], Iterator[PredictedCase]]


def predicted_samples(network: nn.Module, cases: Sequence[LoadedCase], inference: Inference) -> Iterator[PredictedCase]:
    """Yield the samples of cases in their order, whole, with the model's probabilities; nothing leaves the site.

    Args:
        network: the received model; it is run in evaluation mode.
        cases: of the site.
        inference: how the model is run.
    """
    for batch in inference.batches(cases):
        with evaluating(network):
            probabilities = inference.logits(network, batch.images).float().softmax(dim=1).cpu().numpy()
        images, labels = batch.images.numpy(), batch.labels.numpy()
        for case, image, label, of_sample in zip(batch.cases, images, labels, probabilities, strict=True):
            yield PredictedCase(case.unit, label, of_sample, case.spacing, image)


def cut_to_objects(case: PredictedCase) -> PredictedCase | None:
    """Return the part of a sample in which anything is annotated or probable, with some pixels around it.

    It takes a fraction of the memory of a volume with small objects. None where there is neither.
    """
    box = object_box(case.annotation, case.probabilities)
    if box is None:
        return None
    inside = (slice(None), *box)
    return replace(
        case,
        annotation=case.annotation[box].copy(),
        probabilities=case.probabilities[inside].copy(),
        image=None if case.image is None else case.image[inside].copy(),
    )


def predicted_by(network: nn.Module, inference: Inference) -> Predictor:
    """Return what predicts all cases by one model; see :func:`predicted_samples`."""
    return lambda cases: predicted_samples(network, cases, inference)


def object_box(annotation: Array, probabilities: AnyFloats) -> tuple[slice, ...] | None:
    """Return the box in which anything is annotated or probable, with some pixels around it; None where nothing is.

    Args:
        annotation: given classes ``(H, W[, D])``.
        probabilities: of every class, ``(C + 1, H, W[, D])``, the background first.
    """
    objects = np.asarray((annotation != 0) | (probabilities[0] < 1 - THRESHOLDS.max_background_doubt))
    return bounding_box(objects, _MARGIN) if objects.any() else None


def by_network(
    cases: Sequence[LoadedCase], network_of: Callable[[LoadedCase], nn.Module]
) -> list[tuple[nn.Module, list[int]]]:
    """Return the networks that predict cases, each with the indices of its cases, which run together are faster."""
    result: dict[int, tuple[nn.Module, list[int]]] = {}
    for index, case in enumerate(cases):
        network = network_of(case)
        result.setdefault(id(network), (network, []))[1].append(index)
    return list(result.values())
