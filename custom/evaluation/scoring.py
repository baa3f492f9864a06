"""How the global model is scored, by task: on the server's test set, or by the sites on their own cases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..data.site_data import SiteData
from ..settings import RunSettings
from ..task_names import VALIDATE, VALIDATE_CLASSES
from .class_scores import ClassCounts, confusion_matrix, pool_site_counts
from .inference import Inference
from .score_records import ClassificationRoundScores, RoundScores, SegmentationRoundScores
from .segmentation_scores import evaluate, known, pool_site_scores

_Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Scoring:
    """The scores of a task.

    Attributes:
        label: how the first of the scores is written.
        names: the scores that are averaged over the last rounds; the first says how good a model is. A distance comes
            with the number of the cases that have none.
        site_task: what sites are asked for where the server has no test set.
        unscored: what a round without scores has in their place.
        score: the scores of a network on the server's test set.
        pool: the scores of all sites' cases together, from their answers; None where no site has any.
    """

    label: str
    names: tuple[str, ...]
    site_task: str
    unscored: RoundScores
    score: Callable[[nn.Module, SiteData, RunSettings], RoundScores]
    pool: Callable[[_Answers], RoundScores | None]

    @classmethod
    def of(cls, task: str) -> "Scoring":
        """Return the scoring of a task, ``segmentation`` or ``classification``."""
        return _SCORING[task]

    def of_sites(self, answers: _Answers) -> dict[str, float]:
        """Return the first score of each site that has one, from the answers that :attr:`pool` takes."""
        pooled = {site: self.pool({site: answer}) for site, answer in answers.items()}
        return {
            site: scores.main_score
            for site, scores in sorted(pooled.items())
            if scores is not None and scores.main_score is not None
        }


def _score_segmentation(network: nn.Module, data: SiteData, settings: RunSettings) -> SegmentationRoundScores:
    scores = evaluate(network, data.cases, settings.network.num_classes, Inference.of(settings), data.annotated_labels)
    return SegmentationRoundScores(
        evaluated_on="test",
        dice=scores.mean_dice,
        dice_per_class=tuple(known(scores.dice)),
        left_empty=scores.mean_left_empty,
        left_empty_per_class=tuple(known(scores.left_empty)),
        hd95=scores.mean_hd95,
        hd95_undefined=sum(scores.hd95_undefined),
        hd95_unit="px" if data.cases[0].spacing is None else "mm",
        num_cases=scores.num_cases,
        num_annotated_per_class=scores.num_annotated,
        **_unscored(known(scores.dice), data.classes),
    )


def _pool_segmentation(answers: _Answers) -> SegmentationRoundScores | None:
    pooled = pool_site_scores(answers)
    if pooled is None:
        return None
    # Only sites know the names.
    names = [f"class {label}" for label in range(1, len(pooled["dice_per_class"]) + 1)]
    return SegmentationRoundScores.model_validate({**pooled, **_unscored(pooled["dice_per_class"], names)})


def _score_classification(network: nn.Module, data: SiteData, settings: RunSettings) -> ClassificationRoundScores:
    confusion = confusion_matrix(network, data.cases, settings.network.num_classes, Inference.of(settings))
    scores = ClassCounts.of_confusion(confusion).scores()
    return ClassificationRoundScores.model_validate(
        {
            "evaluated_on": "test",
            **scores,
            **_unscored(scores["f1_per_class"], data.classes),
            "confusion": confusion.tolist(),
        }
    )


def _pool_classification(answers: _Answers) -> ClassificationRoundScores | None:
    pooled = pool_site_counts(answers)
    if pooled is None:
        return None
    names = [f"class {label}" for label in range(len(pooled["f1_per_class"]))]
    return ClassificationRoundScores.model_validate({**pooled, **_unscored(pooled["f1_per_class"], names)})


def _unscored(per_class: Sequence[float | None], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The field that names the classes without a score, nothing where all have one."""
    unscored = tuple(name for name, value in zip(names, per_class, strict=True) if value is None)
    return {"unscored_classes": unscored} if unscored else {}


_SCORING = {
    "segmentation": Scoring(
        label="Dice",
        names=("dice", "left_empty", "hd95", "hd95_undefined"),
        site_task=VALIDATE,
        unscored=SegmentationRoundScores(evaluated_on=None, dice=None, left_empty=None, hd95=None),
        score=_score_segmentation,
        pool=_pool_segmentation,
    ),
    "classification": Scoring(
        label="macro F1",
        names=("f1", "recall", "precision"),
        site_task=VALIDATE_CLASSES,
        unscored=ClassificationRoundScores(evaluated_on=None, f1=None, recall=None, precision=None),
        score=_score_classification,
        pool=_pool_classification,
    ),
}
