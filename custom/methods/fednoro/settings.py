"""Settings of FedNoRo, for segmentation and for classification."""

from typing import Annotated, Literal

from pydantic import Field

from ...settings import Positive, RunSettings
from ..fedavg.settings import ClassificationSettings, EndingWarmup, WarmupSettings


class NoisySitesSettings(RunSettings):
    """What both tasks share; the defaults are those of the authors' program.

    Args:
        logit_adjustment: whether the logarithms of the site's class frequencies are added to logits in training.
        distillation_weight: w at the end of its rise, how much a noisy site learns from the received model.
        distillation_rounds: rounds over which w rises, from the first one after the warm-up.
        distillation_temperature: what the received model's logits are divided by.
        model_distance: how far models lie apart: ``per_tensor`` sums the distances of all tensors, normalisation
            statistics among them, as the program does; ``whole`` is one distance, the paper's; ``none`` weighs by the
            numbers of samples alone, the ablation.
    """

    method: str = "fednoro"
    logit_adjustment: bool = True
    distillation_weight: Annotated[float, Field(ge=0, le=1)] = 0.8
    distillation_rounds: Positive = 39
    distillation_temperature: Annotated[float, Field(gt=0)] = 0.8
    model_distance: Literal["per_tensor", "whole", "none"] = "per_tensor"


class FedNoRoSettings(WarmupSettings, NoisySitesSettings):
    """Settings of FedNoRo for segmentation.

    Args:
        min_predicted_fraction: the warm-up goes on while the model finds anything in fewer of the annotated images.
    """

    method: str = "fednoro"
    logit_adjustment: bool = False
    min_predicted_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def training_predictions(self) -> int | None:
        """Return 1, of the estimate after the warm-up."""
        return 1


class FedNoRoClassificationSettings(ClassificationSettings, NoisySitesSettings, EndingWarmup):
    """Settings of FedNoRo for classification.

    Args:
        warmup_rounds: rounds before the noisy sites are looked for, fewer than all.
    """

    method: str = "fednoro"
    warmup_rounds: Positive = 10

    @property
    def training_predictions(self) -> int | None:
        """Return 1, of the estimate after the warm-up."""
        return 1
