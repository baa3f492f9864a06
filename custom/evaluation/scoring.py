"""How the global model is scored, by task: on the server's test set, or by the sites on their own cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..data.site_data import SiteData
from ..outbound.fields import VALIDATE, VALIDATE_CLASSES
from ..settings import RunSettings
from .class_scores import ClassCounts, confusion_matrix, pool_site_counts
from .inference import Inference
from .segmentation_scores import evaluate, known, pool_site_scores

_Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Scoring:
    """The scores of a task.

    Attributes:
        label: how the first of the scores is written.
        names: the scores that are averaged over the last rounds; the first says how good a model is.
        details: what else the summary keeps of each round.
        final: what it keeps of the last round alone.
        site_task: what sites are asked for where the server has no test set.
        score: the scores of a network on the server's test set, as plain values.
        pool: the scores of all sites' cases together, from their answers; empty where no site has any.
    """

    label: str
    names: tuple[str, ...]
    details: tuple[str, ...]
    final: tuple[str, ...]
    site_task: str
    score: Callable[[nn.Module, SiteData, RunSettings], dict[str, Any]]
    pool: Callable[[_Answers], dict[str, Any]]

    @classmethod
    def of(cls, task: str) -> "Scoring":
        """Return the scoring of a task, ``segmentation`` or ``classification``."""
        return _SCORING[task]

    @property
    def unscored(self) -> dict[str, Any]:
        """What a round without scores has in their place."""
        return {"evaluated_on": None} | dict.fromkeys(self.names)


def _score_segmentation(network: nn.Module, data: SiteData, settings: RunSettings) -> dict[str, Any]:
    scores = evaluate(network, data.cases, settings.network.num_classes, Inference.of(settings))
    return {
        "dice": scores.mean_dice,
        "dice_per_class": known(scores.dice),
        "left_empty": scores.mean_left_empty,
        "left_empty_per_class": known(scores.left_empty),
        "hd95": scores.mean_hd95,
        "hd95_undefined": sum(scores.hd95_undefined),
        "hd95_unit": "px" if data.cases[0].spacing is None else "mm",
        "num_cases": scores.num_cases,
        "num_annotated_per_class": list(scores.num_annotated),
    }


def _pool_segmentation(answers: _Answers) -> dict[str, Any]:
    return pool_site_scores(answers)


def _score_classification(network: nn.Module, data: SiteData, settings: RunSettings) -> dict[str, Any]:
    confusion = confusion_matrix(network, data.cases, settings.network.num_classes, Inference.of(settings))
    return ClassCounts.of_confusion(confusion).scores() | {"confusion": confusion.tolist()}


def _pool_classification(answers: _Answers) -> dict[str, Any]:
    return pool_site_counts(answers)


_SCORING = {
    "segmentation": Scoring(
        label="Dice",
        names=("dice", "left_empty", "hd95"),
        details=("dice_per_class", "left_empty_per_class", "num_annotated_per_class", "hd95_undefined", "hd95_unit"),
        final=(),
        site_task=VALIDATE,
        score=_score_segmentation,
        pool=_pool_segmentation,
    ),
    "classification": Scoring(
        label="macro F1",
        names=("f1", "recall", "precision"),
        details=("f1_per_class", "recall_per_class", "precision_per_class"),
        final=("confusion",),
        site_task=VALIDATE_CLASSES,
        score=_score_classification,
        pool=_pool_classification,
    ),
}
