"""Scores as records hold them: those of a segmentation and those of a classification, None where one is undefined."""

from typing import Literal

from ..strict_model import StrictModel

# One value per class.
PerClass = tuple[float | None, ...]


class MeanScores(StrictModel):
    """The scores that say how good a model is, of whichever task."""

    @property
    def main_score(self) -> float | None:
        """The first of them: Dice or macro F1."""
        raise NotImplementedError


class SegmentationMeans(MeanScores):
    """How good a segmentation is.

    Attributes:
        dice: mean over the classes of the mean over the cases in which each is annotated.
        left_empty: fraction of the other cases in which a class is found nowhere, as above.
        hd95: 95th percentile Hausdorff distance over the cases in which a class is found, as above; see
            :attr:`SegmentationDetails.hd95_unit`.
        hd95_undefined: cases and classes that are annotated and found nowhere, which have no distance; a mean where the
            others are. None in records of earlier versions.
    """

    dice: float | None
    left_empty: float | None = None
    hd95: float | None
    hd95_undefined: int | float | None = None

    @property
    def main_score(self) -> float | None:
        """Dice."""
        return self.dice


class SegmentationDetails(SegmentationMeans):
    """How good a segmentation is, class by class.

    Attributes:
        dice_per_class: of each foreground class.
        left_empty_per_class: as above.
        num_annotated_per_class: cases in which each class is annotated.
        hd95_unit: of the distance.
        unscored_classes: names of those without a score, which the means leave out; None if there are none.
    """

    dice_per_class: PerClass | None = None
    left_empty_per_class: PerClass | None = None
    num_annotated_per_class: tuple[int, ...] | None = None
    hd95_unit: Literal["px", "mm"] | None = None
    unscored_classes: tuple[str, ...] | None = None


class ClassificationMeans(MeanScores):
    """How good a classification is: means over the classes that have cases."""

    f1: float | None
    recall: float | None
    precision: float | None

    @property
    def main_score(self) -> float | None:
        """Macro F1."""
        return self.f1


class ClassificationDetails(ClassificationMeans):
    """How good a classification is, class by class.

    Attributes:
        f1_per_class: of each class.
        recall_per_class: as above.
        precision_per_class: as above.
        unscored_classes: see :class:`SegmentationDetails`.
    """

    f1_per_class: PerClass | None = None
    recall_per_class: PerClass | None = None
    precision_per_class: PerClass | None = None
    unscored_classes: tuple[str, ...] | None = None


class Evaluated(StrictModel):
    """What a model was scored on.

    Attributes:
        evaluated_on: the server's test set, or the sites' own validation cases; None for a round without scores.
        num_cases: how many cases.
    """

    evaluated_on: Literal["test", "sites"] | None
    num_cases: int | None = None


class SegmentationRoundScores(SegmentationDetails, Evaluated):
    """What a round's model scores in a segmentation."""


class ClassificationRoundScores(ClassificationDetails, Evaluated):
    """What a round's model scores in a classification.

    Attributes:
        confusion: numbers of cases, rows for the true and columns for the predicted class; known of a test set alone.
    """

    confusion: tuple[tuple[int, ...], ...] | None = None


class LastClassificationScores(ClassificationMeans):
    """What the last model scores in a classification; see :class:`ClassificationRoundScores`."""

    confusion: tuple[tuple[int, ...], ...] | None = None


RoundScores = SegmentationRoundScores | ClassificationRoundScores
