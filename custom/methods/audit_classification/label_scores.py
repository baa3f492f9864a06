"""How suspect every label of a site is, from what a model says of the images that has not learnt their labels."""

from dataclasses import dataclass

import numpy as np

from ...channel.confusion import Floats, Labels


@dataclass(frozen=True)
class LabelScores:
    """Scores of labels; they stay at the site.

    Attributes:
        scores: how suspect each label is, from 0 to 1, above a half where another class is more probable, ``(N,)``.
        others: the class that each sample looks like if not like its label, ``(N,)``.
    """

    scores: Floats
    others: Labels


def score_labels(balanced: Floats, labels: Labels) -> LabelScores:
    """Score labels: q_other / (q_other + q_given), q_other being the largest of the other classes.

    Args:
        balanced: q, probabilities in which rare classes have their due, ``(N, C)``; see
            :func:`fedannot.custom.methods.auto_classification.judgement.balanced`.
        labels: given, or others that are tried in their place, ``(N,)``.
    """
    rows = np.arange(len(labels))
    rest = balanced.copy()
    rest[rows, labels] = -1.0
    others = rest.argmax(axis=1).astype(np.int64)
    of_other, of_given = balanced[rows, others], balanced[rows, labels]
    total = of_other + of_given
    return LabelScores(np.divide(of_other, total, out=np.full(len(labels), 0.5), where=total > 0), others)
