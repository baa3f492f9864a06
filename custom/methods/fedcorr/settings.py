"""Settings of FedCorr, for segmentation and for classification."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ...settings import Positive, RunSettings
from ..fedavg.settings import ClassificationSettings, FedAvgSettings
from .outbound import DIMENSIONALITY, MEAN_LOSS

_Share = Annotated[float, Field(ge=0, le=1)]


class NoiseCorrectionSettings(RunSettings):
    """What both tasks share; rounds are those of the federated comparisons, the rest is the authors' program.

    Args:
        preprocessing_rounds: T1, rounds after each of which sites are divided, and noisy ones relabel.
        finetuning_rounds: T2, rounds in which sites with few noisy labels train alone; then noisy ones relabel all of
            which the model is confident. With 0 the stage is left out.
        correction: whether labels are replaced; off is the ablation without.
        relabelled_share: of the noisy labels of a site, how many may be replaced at a time, those with the largest
            losses.
        confidence: the probability of the received model above which a label is replaced.
        clean_share: the largest share of noisy labels of a site that trains in the second stage.
        proximity_weight: β, how much a site stays near the received model, times its share of noisy labels.
        mixup: α of Beta(α, α), from which the share of an image in a mixed one is drawn; 0 mixes none.
    """

    method: str = "fedcorr"
    preprocessing_rounds: Positive = 2
    finetuning_rounds: Annotated[int, Field(ge=0)] = 8
    correction: bool = True
    relabelled_share: _Share = 0.5
    confidence: Annotated[float, Field(ge=0, lt=1)] = 0.5
    clean_share: _Share = 0.1
    proximity_weight: Annotated[float, Field(ge=0)] = 5.0
    mixup: Annotated[float, Field(ge=0)] = 1.0

    @property
    def statistic_field(self) -> str:
        """What sites send of their labels."""
        return MEAN_LOSS

    @property
    def first_usual_round(self) -> int:
        """The first round of the last stage."""
        return self.preprocessing_rounds + self.finetuning_rounds + 1

    @model_validator(mode="after")
    def _stages_end(self) -> Self:
        first, second, rounds = self.preprocessing_rounds, self.finetuning_rounds, self.rounds
        if self.first_usual_round > rounds:
            raise ValueError(
                f"preprocessing_rounds + finetuning_rounds must be below rounds, but got preprocessing_rounds={first}, "
                f"finetuning_rounds={second}, {rounds=}"
            )
        return self

    @property
    def training_predictions(self) -> int | None:
        """Return 5 for each round of the first stage, of two models, and 1 after the second."""
        return 5 * self.preprocessing_rounds + 1


class FedCorrSettings(FedAvgSettings, NoiseCorrectionSettings):
    """Settings of FedCorr for segmentation; what is relabelled are pixels.

    Args:
        direction: ``both`` replaces any class, ``add`` only background by foreground.
    """

    method: str = "fedcorr"
    direction: Literal["add", "both"] = "both"

    @property
    def reports_dice_loss(self) -> bool:
        """As in federated averaging; not of mixed images, which no site has."""
        return super().reports_dice_loss and not self.mixup


class FedCorrClassificationSettings(ClassificationSettings, NoiseCorrectionSettings):
    """Settings of FedCorr for classification.

    Args:
        statistic: by what sites are divided: ``dimensionality`` is the mean of their cases' local intrinsic
            dimensionality, the paper's; ``loss`` is the mean loss.
    """

    method: str = "fedcorr"
    statistic: Literal["dimensionality", "loss"] = "dimensionality"

    @property
    def statistic_field(self) -> str:
        """As above."""
        return DIMENSIONALITY if self.statistic == "dimensionality" else super().statistic_field
