"""Settings of FedHAC."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ...settings import Positive
from ..fedavg.settings import WarmupSettings


class FedHACSettings(WarmupSettings):
    """Settings of FedHAC; the defaults are those of the authors' program.

    Args:
        warmup_rounds: T, rounds of federated averaging before the completeness is estimated.
        prototype_weight: γ, how much features are drawn to the prototypes; 0 is the ablation without.
        prototypes: ``fixed``: drawn once by the job's seed, as in the program; ``means``: class means of the sites'
            features, which then leave a site.
        proximity_weight: μ of μ ‖w − w_t‖², in all rounds. FedProx has half of its weight before it: this is 2μ there.
        weighting: ``completeness``, after the warm-up, and until all correct once more; ``quantity`` is the ablation.
        correction: whether sites correct their annotations; off is the ablation without.
        followed_loss: what weights, trigger and groups follow from: ``dice``, the Dice loss alone; ``training``, all
            that is made small, with the two terms, as in the program.
        schedule: ``groups``: the first loss that rises has all sites correct twice, the noisy ones first; ``own``: each
            site corrects once, after its own loss has risen, as in FedIA.
        correction_margin: λ, by how much an IoU falls below its line.
        correction_threshold: τ, the probability from which a background voxel becomes foreground.
        clean_delay: rounds from the one with the rising loss to the one before which clean sites correct; noisy ones
            have one round. From then on there are no prototypes.
        redo_delay: rounds to the one before which all correct once more, from the given annotations. From then on the
            numbers of samples are the weights.
    """

    method: str = "fedhac"
    warmup_rounds: Positive = 31
    prototype_weight: Annotated[float, Field(ge=0)] = 0.01
    prototypes: Literal["fixed", "means"] = "fixed"
    proximity_weight: Annotated[float, Field(ge=0)] = 0.01
    weighting: Literal["completeness", "quantity"] = "completeness"
    correction: bool = True
    followed_loss: Literal["dice", "training"] = "dice"
    schedule: Literal["groups", "own"] = "groups"
    correction_margin: float = 0.03
    correction_threshold: Annotated[float, Field(ge=0.5, lt=1)] = 0.8
    clean_delay: Annotated[int, Field(ge=2)] = 11
    redo_delay: Annotated[int, Field(ge=3)] = 21

    @property
    def reports_dice_loss(self) -> bool:
        """Always: weights and corrections follow from it."""
        return True

    @property
    def training_predictions(self) -> int | None:
        """Return one for the estimate, and one for each correction."""
        return 1 + (2 if self.schedule == "groups" else 1) * self.correction

    @model_validator(mode="after")
    def _means_are_used(self) -> "FedHACSettings":
        if self.prototypes == "means" and not self.prototype_weight:
            raise ValueError(
                "key 'prototypes' is 'means', but 'prototype_weight' is 0: means would leave the sites for nothing; "
                "expected 'fixed', or a larger 'prototype_weight'"
            )
        return self

    @model_validator(mode="after")
    def _followed_loss_has_an_iou(self) -> "FedHACSettings":
        if self.followed_loss == "training" and self.training.loss not in ("dice", "batch_dice"):
            raise ValueError(
                f"key 'followed_loss' is 'training', but 'training.loss' is {str(self.training.loss)!r}, of which no "
                "IoU follows; expected 'dice' or 'batch_dice', or 'followed_loss' = 'dice'"
            )
        return self

    @model_validator(mode="after")
    def _redo_comes_last(self) -> "FedHACSettings":
        if self.redo_delay <= self.clean_delay:
            raise ValueError(
                f"key 'redo_delay' is {self.redo_delay}, but 'clean_delay' is {self.clean_delay}: all sites correct "
                "once more after the clean ones have; expected a larger 'redo_delay'"
            )
        return self
