"""What scores of labels are worth, where densities and noise are known."""

import math

import numpy as np
import pytest
from scipy import stats

from fedannot.custom.methods.audit_classification.label_calibration import calibrate_scores
from fedannot.custom.methods.audit_classification.label_scores import score_labels

# Two classes: the logit of the true one is normal around 1, so the score of a wrong label has the logit 1 + e, that of
# a right one −1 + e. By Bayes' rule the logit of the probability of a wrong one is 2 × that of the score + logit(π).
COUNT = 6000
AUROC = float(stats.norm.cdf(math.sqrt(2)))


def labelled(wrong: float, num_classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, given labels, and which of them are wrong."""
    random = np.random.default_rng(seed)
    true = random.integers(num_classes, size=COUNT)
    of_true = 1 / (1 + np.exp(-random.normal(1.0, 1.0, COUNT)))
    said = np.full((COUNT, num_classes), 0.0)
    said[:] = ((1 - of_true) / (num_classes - 1))[:, None]
    said[np.arange(COUNT), true] = of_true
    is_wrong = random.random(COUNT) < wrong
    steps = random.integers(1, num_classes, size=COUNT)
    return said, np.where(is_wrong, (true + steps) % num_classes, true), is_wrong


UNITS = [str(index) for index in range(COUNT)]


@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.3])
def test_two_classes_follow_bayes_rule(wrong: float) -> None:
    said, labels, is_wrong = labelled(wrong)
    result = calibrate_scores(said, labels, UNITS, float(is_wrong.mean()), seed=1)
    assert result.auroc == pytest.approx(AUROC, abs=0.03)
    assert result.slope == pytest.approx(2.0, rel=0.25)
    for score in (0.3, 0.5, 0.7, 0.9):
        logit = 2 * math.log(score / (1 - score)) + math.log(wrong / (1 - wrong))
        assert result.probability(score) == pytest.approx(1 / (1 + math.exp(-logit)), abs=0.08)


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("wrong", [0.1, 0.3])
def test_labels_of_a_probability_are_wrong_so_often(num_classes: int, wrong: float) -> None:
    said, labels, is_wrong = labelled(wrong, num_classes, seed=2)
    result = calibrate_scores(said, labels, UNITS, float(is_wrong.mean()), seed=1)
    scores = score_labels(said, labels).scores
    assert result.auroc == pytest.approx(
        stats.mannwhitneyu(scores[is_wrong], scores[~is_wrong]).statistic / (is_wrong.sum() * (~is_wrong).sum()),
        abs=0.03,
    )
    said_wrong = np.array([result.probability(float(score)) for score in scores])
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 1.0)):
        chosen = (said_wrong >= low) & (said_wrong < high)
        if chosen.sum() >= 200:
            assert is_wrong[chosen].mean() == pytest.approx(said_wrong[chosen].mean(), abs=0.08)
    assert said_wrong.mean() == pytest.approx(wrong, abs=0.03)


def test_a_model_that_knows_nothing_gives_no_probability() -> None:
    random = np.random.default_rng(0)
    said = random.dirichlet([1.0, 1.0, 1.0], 300)
    result = calibrate_scores(said, random.integers(3, size=300), UNITS[:300], 0.1, seed=1)
    assert result.auroc == pytest.approx(0.5, abs=0.1)
    assert result.probability(0.9) is None


def test_four_patients_give_no_probability() -> None:
    said, labels, _ = labelled(0.1)
    assert calibrate_scores(said, labels, ["a", "b", "c", "d"] * (COUNT // 4), 0.1, seed=1).probability(0.9) is None


def test_where_labels_are_as_often_wrong_as_chance_makes_them_nothing_is_known() -> None:
    said, labels, _ = labelled(0.5)
    result = calibrate_scores(said, labels, UNITS, 0.5, seed=1)
    assert (result.auroc, result.probability(0.9)) == (None, None)
