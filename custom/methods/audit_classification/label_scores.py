"""How suspect every label of a site is, from what a model says of the images that has hardly learnt their labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....transforms.array_types import Floats, Labels
from ...annotation_bias.predicted_samples import by_network
from ...data.site_data import SiteData
from ..audit.reference_models import ReferenceModels
from ..auto_classification.confident_samples import look_alikes
from ..auto_classification.predicted_classes import balanced, predicted_probabilities
from .settings import AuditClassificationSettings
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class LabelScores:
    """Scores of labels; they stay at the site.

    Attributes:
        scores: how suspect each label is, from 0 to 1, above a half where another class is more probable, ``(N,)``.
        others: the class that each sample looks like if not like its label, ``(N,)``.
    """

    scores: Floats
    others: Labels


def with_look_alikes(probabilities: Floats, labels: Labels, units: Sequence[str]) -> Floats:
    """Return probabilities of classes times the root of what look-alikes say, ``(N, C)``.

    They are the 20 samples of other patients that look most alike to the model. They say of a class how many of them
    are given as it, each beside the root of how frequent the class is, so that rare classes have their due. A sample's
    own label decides nothing.

    Args:
        probabilities: of the reference model, ``(N, C)``.
        labels: given, ``(N,)``.
        units: patient of each sample.
    """
    num_classes = probabilities.shape[1]
    frequency = (np.bincount(labels, minlength=num_classes) + 1) / (len(labels) + num_classes)
    near = look_alikes(probabilities, units, np.arange(len(labels)), THRESHOLDS.neighbours)
    counts = np.stack([np.bincount(labels[others], minlength=num_classes) for others in near])
    said = (counts + THRESHOLDS.prior_neighbours * frequency) / np.sqrt(frequency)
    together = probabilities * np.sqrt(said)
    return np.asarray(together / together.sum(axis=1, keepdims=True))


def score_labels(probabilities: Floats, labels: Labels) -> LabelScores:
    """Score labels: q_other / (q_other + q_given), q_other being the largest of the other classes.

    Args:
        probabilities: q, of the model, or with what look-alikes say, ``(N, C)``.
        labels: given, or others that are tried in their place, ``(N,)``.
    """
    rows = np.arange(len(labels))
    rest = probabilities.copy()
    rest[rows, labels] = -1.0
    others = rest.argmax(axis=1).astype(np.int64)
    of_other, of_given = probabilities[rows, others], probabilities[rows, labels]
    total = of_other + of_given
    return LabelScores(np.divide(of_other, total, out=np.full(len(labels), 0.5), where=total > 0), others)


@dataclass(frozen=True)
class PredictedLabels:
    """Labels with what is said of their samples; they stay at the site.

    Attributes:
        probabilities: of classes, means over views, ``(N, C)``.
        balanced: those in which rare classes have their due, as above, for the noise level.
        with_look_alikes: those times the root of what look-alikes say, as above, for the scores.
        labels: given, ``(N,)``.
        units: patient of each sample.
    """

    probabilities: Floats
    balanced: Floats
    with_look_alikes: Floats
    labels: Labels
    units: tuple[str, ...]


def predicted_labels(models: ReferenceModels, data: SiteData, settings: AuditClassificationSettings) -> PredictedLabels:
    """Predict all samples, those of one model together.

    Args:
        models: the models.
        data: the site's cases.
        settings: the job's.
    """
    said = np.zeros((len(data.cases), settings.network.num_classes))
    for network, indices in by_network(data.cases, models.network_of):
        own = replace(data, cases=tuple(data.cases[index] for index in indices))
        said[indices] = predicted_probabilities(network, own, models.inference, settings.training).numpy()
    labels = data.labels.numpy().astype(np.int64)
    together = with_look_alikes(said, labels, data.units)
    return PredictedLabels(said, balanced(said, labels), together, labels, data.units)
