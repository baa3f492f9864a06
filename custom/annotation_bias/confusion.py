"""Classes that a site takes for each other: the confident joint of given and probable labels, and fractions of
objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Booleans, Floats, Indices, Labels
from ...transforms.ignored_label import IGNORED_LABEL
from .cases import PredictedCase
from .objects import match_objects
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class Confusion:
    """How given labels relate to true ones, as far as a model can tell.

    Attributes:
        joint: Q, ``(C, C)``, fraction of the samples that are given as the row's class and are truly of the column's.
        counts: the confident joint, numbers of samples, as above.
    """

    joint: Floats
    counts: Labels

    @property
    def noise_level(self) -> float:
        """Fraction of the samples that are given a wrong label."""
        return float(1.0 - np.trace(self.joint))

    @property
    def transition(self) -> Floats:
        """T, ``(C, C)``: probability that a sample truly of the row's class is given as the column's.

        A class that nothing seems to be of keeps its labels.
        """
        truly = self.joint.sum(axis=0)
        return np.where(truly[:, None] > 0, self.joint.T / np.where(truly > 0, truly, 1.0)[:, None], np.eye(len(truly)))


def confident_joint(probabilities: Floats, labels: Labels) -> Confusion:
    """Return the confident joint of given and true labels (Northcutt et al., *Confident Learning*, JAIR 70, 2021).

    A sample is counted as truly of the class that is at least as probable for it as it is on average for the samples
    given as that class; of several such classes the most probable one. Samples without any are not counted. Rows are
    scaled to the number of samples given as their class; a class none of whose samples is counted keeps its labels.

    Args:
        probabilities: predicted, ``(N, C)``.
        labels: given, ``(N,)``.

    Raises:
        ValueError: when there is no sample, or a label is not among the classes.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.05, 0.95]])
        >>> confident_joint(probabilities, np.array([0, 0, 1, 0])).counts.tolist()
        [[2, 1], [0, 1]]
    """
    num_classes = probabilities.shape[1]
    if len(labels) == 0 or len(labels) != len(probabilities) or not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(
            f"Expected labels from 0 to {num_classes - 1}, one for each of {len(probabilities)} samples, at least one; "
            f"found {len(labels)}."
        )
    num_given = np.bincount(labels, minlength=num_classes)
    mean = _mean_probability(probabilities, labels)
    confident = _reach(probabilities, mean)
    counted = confident.any(axis=1)
    truly = np.where(confident, probabilities, -np.inf).argmax(axis=1)
    counts = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(counts, (labels[counted], truly[counted]), 1)
    rows = counts.sum(axis=1, keepdims=True)
    shares = np.where(rows > 0, counts / np.maximum(rows, 1), np.eye(num_classes))
    return Confusion(shares * (num_given / len(labels))[:, None], counts)


def doubt_of_labels(probabilities: Floats, labels: Labels) -> Floats:
    """Return by how much the most probable other class is more probable than the given one, ``(N,)``.

    Args:
        probabilities: ``(N, C)``.
        labels: given, ``(N,)``.
    """
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = -np.inf
    return np.asarray(others.max(axis=1) - probabilities[rows, labels])


def typical_confidence(probabilities: Floats) -> Floats:
    """Return the mean probability of the class that a sample seems to be of, over all samples that do, ``(N,)``.

    Args:
        probabilities: ``(N, C)``.
    """
    seems = probabilities.argmax(axis=1)
    return np.asarray(_mean_probability(probabilities, seems)[seems])


def confused_share(probabilities: Floats, labels: Labels) -> float:
    """Return the fraction of samples that look like another class than their given one.

    It is measured among those that are at least as sure as typical (:func:`typical_confidence`), for each class that
    they look like, weighted by how many do. Given labels have no say in that, as they have in :func:`confident_joint`:
    most samples given as a class may be of another.

    Args:
        probabilities: predicted, ``(N, C)``.
        labels: given, ``(N,)``.

    Raises:
        ValueError: when there is no sample.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
        >>> confused_share(probabilities, np.array([1, 0, 1, 0]))
        0.75
    """
    if len(labels) == 0:
        raise ValueError("Expected at least one sample; found none.")
    seems, confident = probabilities.argmax(axis=1), _are_confident(probabilities)
    like = np.bincount(seems)
    confident_like, confused_like = (
        np.bincount(seems[of], minlength=len(like)) for of in (confident, confident & (seems != labels))
    )
    return float((like * confused_like / np.maximum(confident_like, 1)).sum() / len(labels))


def exchanged_part(probabilities: Floats, labels: Labels) -> float:
    """Return the fraction of samples that are given a class whose code is exchanged; 1 where none is.

    Codes are exchanged in circles: most samples that are given a class look like the next one of the circle. A model
    that takes a class for another one does not take that one for it.

    Args:
        probabilities: predicted, ``(N, C)``.
        labels: given, ``(N,)``.

    Example:
        >>> probabilities = np.eye(4)[[0, 0, 1, 1, 2, 2, 3, 3]]
        >>> exchanged_part(probabilities, np.array([1, 1, 0, 0, 2, 2, 3, 3]))
        0.5
    """
    if len(labels) == 0:
        return 1.0
    num_classes = probabilities.shape[1]
    alike = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(alike, (labels, probabilities.argmax(axis=1)), 1)
    following = alike.argmax(axis=1)
    moves = (2 * alike.max(axis=1) > alike.sum(axis=1)) & (following != np.arange(num_classes))
    in_circles = [start for start in np.flatnonzero(moves) if _returns(int(start), following, moves)]
    return float(np.isin(labels, in_circles).mean()) if in_circles else 1.0


def _returns(start: int, following: Indices, moves: Booleans) -> bool:
    """Whether one comes back to a class by going to the class that most of its samples look like, again and again."""
    at = start
    for _ in following:
        if not moves[at]:
            return False
        at = int(following[at])
        if at == start:
            return True
    return False


def are_of_known_classes(probabilities: Floats, labels: Labels) -> Booleans:
    """Return which samples are given a class that the model knows, ``(N,)``.

    A class that a model has not learnt looks like another one. It counts as known where at least a tenth as many
    samples surely look like it, whatever they are given as, as are given as it: where codes are exchanged they do.

    Args:
        probabilities: ``(N, C)``.
        labels: given, ``(N,)``.
    """
    if len(labels) == 0:
        return np.zeros(0, dtype=np.bool_)
    num_classes = probabilities.shape[1]
    seen = np.bincount(probabilities.argmax(axis=1)[_are_confident(probabilities)], minlength=num_classes)
    known = seen >= np.maximum(THRESHOLDS.min_seen_of_class * np.bincount(labels, minlength=num_classes), 1)
    return np.asarray(known[labels])


def _are_confident(probabilities: Floats) -> Booleans:
    return _reach(probabilities.max(axis=1), typical_confidence(probabilities))


def _reach(probabilities: Floats, mean: Floats) -> Booleans:
    """Whether probabilities are at least as large as typical; an average of equal numbers may be rounded above them."""
    return np.asarray(probabilities >= mean * (1 - 1e-12))


def _mean_probability(probabilities: Floats, classes: Indices) -> Floats:
    """Mean probability of each class over the samples of it ``(C,)``; infinite for a class without any."""
    num_classes = probabilities.shape[1]
    of_class = probabilities[np.arange(len(classes)), classes]
    counts, mean = np.bincount(classes, minlength=num_classes), np.full(num_classes, np.inf)
    np.divide(np.bincount(classes, weights=of_class, minlength=num_classes), counts, out=mean, where=counts > 0)
    return mean


@dataclass(frozen=True)
class ClassObject:
    """An annotated object of which a model sees something; it stays at the site.

    Attributes:
        label: its given foreground class, from 1.
        pixels: where it lies, indices into the flat annotation.
        probabilities: of the foreground classes in it, adding up to one, ``(C,)``.
    """

    label: int
    pixels: Indices
    probabilities: Floats


@dataclass(frozen=True)
class ObjectSamples:
    """Objects of cases as samples of classes; they stay at the site.

    Attributes:
        probabilities: of the foreground classes in each object, adding up to one, ``(N, C)``.
        labels: the given foreground class of each, from 0, ``(N,)``.
        units: patient or volume of each.
    """

    probabilities: Floats
    labels: Labels
    units: tuple[str, ...]


def class_samples(cases: Sequence[PredictedCase]) -> ObjectSamples:
    """Take the annotated objects of cases as samples (:func:`class_objects`).

    Args:
        cases: with at least two foreground classes.
    """
    result = [(item, case.unit) for case in cases for item in class_objects(case)]
    table = np.array([one.probabilities for one, _ in result])
    return ObjectSamples(
        table.reshape(len(result), cases[0].num_classes if cases else 0),
        np.array([one.label - 1 for one, _ in result], dtype=np.int64),
        tuple(unit for _, unit in result),
    )


def class_objects(case: PredictedCase) -> list[ClassObject]:
    """Return the annotated objects of a case whose class a model can predict, by means over their pixels.

    Those count that match a predicted object, of whatever class: those of which the model sees nothing say nothing of
    the class that they are.

    Args:
        case: with at least two foreground classes.
    """
    result = []
    for label in range(1, case.num_classes + 1):
        for pixels in _matched_to_any(case, label):
            mean = case.probabilities.reshape(case.num_classes + 1, -1)[1:, pixels].mean(axis=1, dtype=np.float64)
            result.append(ClassObject(label, pixels, mean / mean.sum()))
    return result


def _matched_to_any(case: PredictedCase, label: int) -> list[Indices]:
    """The annotated objects of a class that match something predicted, whatever its class; the best match first."""
    predicted = np.asarray((case.predicted != 0) & (case.annotation != IGNORED_LABEL))
    matched = match_objects(case.annotated_as(label), predicted & _annotated_alone(case, label))
    # Once over the annotation, however many objects it has.
    numbers = matched.annotated.ravel()
    pixels = np.flatnonzero(numbers)
    pixels = pixels[np.argsort(numbers[pixels], kind="stable")]
    starts = np.searchsorted(numbers[pixels], np.arange(1, matched.num_annotated + 2))
    return [pixels[starts[number - 1] : starts[number]] for number, _ in matched.pairs]


def _annotated_alone(case: PredictedCase, label: int) -> Booleans:
    """Everything but the pixels annotated as other classes: predicted objects of two classes may touch."""
    return np.asarray((case.annotation == label) | (case.annotation == 0))
