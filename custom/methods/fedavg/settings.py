"""Settings of federated averaging, for segmentation and for classification, and what other methods share."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ...settings import (
    NSD_TOLERANCE,
    PATCH_OF_UNET,
    ClassifierSettings,
    ClassifierTrainingSettings,
    NetworkSettings,
    Positive,
    RunSettings,
    TrainingSettings,
    fits_unet,
)


class FedAvgSettings(RunSettings):
    """Settings of federated averaging for segmentation, and what every method for it shares.

    Args:
        nsd_tolerance: how far boundaries may lie apart that the normalised surface Dice of results per case counts as
            equal: in millimetres, of pictures in pixels.

    Example:
        >>> FedAvgSettings(rounds=3).rounds
        3
    """

    task: Literal["segmentation"] = "segmentation"
    network: NetworkSettings = NetworkSettings()
    training: TrainingSettings = TrainingSettings()
    nsd_tolerance: Annotated[float, Field(gt=0)] = NSD_TOLERANCE

    @property
    def reports_dice_loss(self) -> bool:
        """Whether sites report the Dice loss of their training."""
        return self.training.loss in ("dice", "batch_dice")

    @model_validator(mode="after")
    def _patch_where_volumes_are_whole(self) -> "FedAvgSettings":
        patch = self.training.patch
        if self.network.spatial_dims == 3 and patch is None:
            raise ValueError(
                "key 'training.patch' is missing; with network.spatial_dims = 3 it gives the extents of the patches "
                "that volumes are trained on, for example training.patch = [96, 96, 64]"
            )
        if self.network.spatial_dims == 2 and patch is not None:
            raise ValueError(
                f"key 'training.patch' is {list(patch)}, but network.spatial_dims is 2: pictures and slices are "
                "trained on whole; leave training.patch out, or set network.spatial_dims = 3"
            )
        if patch is not None and self.network.component is None and not fits_unet(patch):
            raise ValueError(f"key 'training.patch' is {list(patch)}: {PATCH_OF_UNET}")
        return self

    @property
    def training_predictions(self) -> int | None:
        """Return 0, or what a class that both tasks share says, which comes after this one among a method's bases."""
        return super().training_predictions or 0


class EndingWarmup(RunSettings):
    """Settings of a run with a warm-up, which ends before the run does.

    Args:
        warmup_rounds: rounds of the warm-up, fewer than all.
    """

    warmup_rounds: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _warmup_ends(self) -> Self:
        warmup_rounds, rounds = self.warmup_rounds, self.rounds
        if warmup_rounds >= rounds:
            raise ValueError(f"warmup_rounds must be below rounds, but got {warmup_rounds=}, {rounds=}")
        return self


class WarmupSettings(FedAvgSettings, EndingWarmup):
    """What methods share that begin with federated averaging.

    Args:
        warmup_rounds: rounds of federated averaging, fewer than all.
        max_extra_warmup_rounds: how long to wait for a warm-up model that is fit as a reference for annotations.
    """

    warmup_rounds: Positive = 10
    max_extra_warmup_rounds: Annotated[int, Field(ge=0)] = 5


class ClassificationSettings(RunSettings):
    """Settings of federated averaging for classification, and what every method for it shares."""

    task: Literal["classification"] = "classification"
    network: ClassifierSettings = ClassifierSettings()
    training: ClassifierTrainingSettings = ClassifierTrainingSettings()
