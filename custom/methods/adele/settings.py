"""Settings of ADELE."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..fedavg.settings import FedAvgSettings

Fraction = Annotated[float, Field(ge=0, le=1)]
Threshold = Annotated[float, Field(ge=0.5, le=1)]


class AdeleSettings(FedAvgSettings):
    """Settings of ADELE; the defaults are those of the paper, and of the federated comparisons.

    Args:
        scales: what images are resized to in training, 1 among them.
        consistency_weight: λ, how much the predictions of all scales have to agree.
        consistency_threshold: ρ: an image counts in it whose mean prediction is as probable anywhere.
        correction: whether annotations are corrected; off is the ablation without.
        direction: ``both``: background becomes a class and a class background; ``add``: background alone changes.
        slope_change: r, by how much the slope of a class's IoU has to change before it is corrected.
        correction_threshold: τ, the probability of a class above which a pixel gets it; 1 for no pixel.
        background_threshold: the same of the background.
    """

    method: str = "adele"
    scales: Annotated[tuple[Annotated[float, Field(ge=0.25, le=4)], ...], Field(min_length=1, max_length=8)] = (
        0.7,
        1.0,
        1.5,
    )
    consistency_weight: Annotated[float, Field(ge=0)] = 1.0
    consistency_threshold: Fraction = 0.8
    correction: bool = True
    direction: Literal["both", "add"] = "both"
    slope_change: Annotated[float, Field(gt=0, lt=1)] = 0.9
    correction_threshold: Threshold = 0.8
    background_threshold: Threshold = 0.8

    @field_validator("scales")
    @classmethod
    def _has_the_scale_of_predictions(cls, scales: tuple[float, ...]) -> tuple[float, ...]:
        if 1.0 not in scales or len(set(scales)) != len(scales):
            raise ValueError("expected different numbers, 1 among them")
        return scales

    @property
    def is_multi_scale(self) -> bool:
        """Whether the loss is another than that of federated averaging."""
        return len(self.scales) > 1 or self.consistency_weight > 0

    @property
    def training_predictions(self) -> int | None:
        """Return one for each round whose IoU is measured, and one for the correction of each class."""
        return self.rounds + self.network.num_classes if self.correction else 0

    @property
    def step_factor(self) -> float:
        """The images of all scales together, in those of one."""
        return float(sum(scale**self.network.spatial_dims for scale in self.scales))

    @property
    def kept_factor(self) -> float:
        """As above: nothing is given back before the backward pass of all."""
        return self.step_factor
