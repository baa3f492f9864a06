"""Macro F1, recall and precision against scikit-learn, pooled over sites as over their cases together."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix as their_confusion
from sklearn.metrics import precision_recall_fscore_support
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.class_scores import ClassCounts, confusion_matrix, pool_site_counts
from fedannot.custom.evaluation.inference import Inference


class Brightness(nn.Module):
    """The class is the brightness, rounded."""

    def __init__(self, num_classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.num_classes = num_classes

    def forward(self, images):
        return -self.scale * (images.mean(dim=(1, 2, 3))[:, None] - torch.arange(self.num_classes)) ** 2


def make_cases(labels, brightness):
    return [
        LoadedCase(str(i), str(i), torch.full((1, 1, 4, 4), float(b)), torch.tensor([y], dtype=torch.uint8), None, None)
        for i, (y, b) in enumerate(zip(labels, brightness, strict=True))
    ]


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 60))
def test_scores_are_those_of_scikit_learn(seed, num_classes, count):
    generator = np.random.default_rng(seed)
    true = generator.integers(0, num_classes, count)
    result = np.where(generator.random(count) < 0.5, true, generator.integers(0, num_classes, count))
    scores = ClassCounts.of_confusion(their_confusion(true, result, labels=range(num_classes))).scores()
    present = sorted(set(true.tolist()))
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, result, labels=present, average="macro", zero_division=0
    )
    assert (scores["f1"], scores["recall"], scores["precision"]) == pytest.approx((f1, recall, precision))
    each = precision_recall_fscore_support(true, result, labels=range(num_classes), zero_division=0)
    for name, values in zip(("precision", "recall", "f1"), each, strict=False):
        expected = [value if label in present else None for label, value in enumerate(values.tolist())]
        assert scores[f"{name}_per_class"] == pytest.approx(expected)
    assert scores["num_cases"] == count


def test_the_confusion_matrix_has_true_classes_in_rows():
    cases = make_cases([0, 0, 1, 2, 2], [0.1, 2.2, 0.9, 1.6, 0.4])
    confusion = confusion_matrix(Brightness(3), cases, 3, Inference(2))
    assert confusion.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_pooled_scores_are_those_of_all_cases_together():
    generator = np.random.default_rng(0)
    matrices = [generator.integers(0, 9, (3, 3)) for _ in range(2)]
    answers = {"site-3": {"num_samples": 1}}
    for number, matrix in enumerate(matrices):
        counts = ClassCounts.of_confusion(matrix)
        answers[f"site-{number + 1}"] = {
            "num_samples": int(matrix.sum()),
            "num_correct": counts.correct.tolist(),
            "num_labelled": counts.labelled.tolist(),
            "num_predicted": counts.predicted.tolist(),
        }
    pooled = pool_site_counts(answers)
    together = ClassCounts.of_confusion(matrices[0] + matrices[1]).scores()
    assert pooled == {"evaluated_on": "sites"} | together
    assert pool_site_counts({"site-3": {"num_samples": 1}}) is None


def test_without_any_case_there_is_no_score():
    scores = ClassCounts.of_confusion(np.zeros((2, 2), dtype=np.int64)).scores()
    assert (scores["f1"], scores["recall"], scores["precision"], scores["num_cases"]) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("correct", "labelled", "predicted"),
    [
        # Of more cases than the site has; more right than there are, and than are predicted so.
        ([10**30, 0], [10**30, 0], [10**30, 0]),
        ([2, 0], [1, 1], [2, 0]),
        ([2, 0], [2, 0], [1, 1]),
    ],
)
def test_counts_that_cannot_be_do_not_count(correct, labelled, predicted):
    honest = {"num_samples": 4, "num_correct": [2, 1], "num_labelled": [2, 2], "num_predicted": [3, 1]}
    lie = {"num_samples": 4, "num_correct": correct, "num_labelled": labelled, "num_predicted": predicted}
    assert pool_site_counts({"site-1": honest, "site-2": lie}) == pool_site_counts({"site-1": honest})
