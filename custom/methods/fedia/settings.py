"""Settings of FedIA."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ...settings import Positive
from ..fedavg.settings import WarmupSettings

Share = Annotated[float, Field(ge=0, le=1)]


class FedIASettings(WarmupSettings):
    """Settings of FedIA: federated averaging for the warm-up, then weights by completeness, and corrections.

    The defaults are the paper's form; the job has a form of its own in its ``settings.conf``.

    Args:
        weighting: ``completeness`` is Eq. 4 and 5; ``established`` weighs by completeness where that is confirmed
            below one, with ``least_effective_share`` of the sites in effect; ``quantity`` is the ablation without.
        estimator: ``counts`` is Eq. 3; ``matched`` counts among the predicted lesions those that are annotated;
            ``sure`` counts only predicted lesions with as much confidence as annotated ones.
        smallest_lesion: voxels of the smallest predicted lesions that ``sure`` counts and ``lesions`` adds.
        completeness_scale: by how much the completeness of two sites differs whose weights differ by the factor e, of
            ``established`` weights; it grows where too few sites would be left in effect.
        least_effective_share: fraction of the sites that stays in effect (1/Σw², beside that of weights by quantity).
        completeness_floor: completeness is confirmed below one where its interval ends so far below.
        estimates: how often the completeness is estimated where it has to be confirmed: after the warm-up, then in
            equal steps.
        correction: whether sites correct their annotations; off is the ablation without.
        corrections: ``use``: a site trains on what it has corrected, until its data manager reverts it; ``ask``: it
            trains on the given annotations until its data manager has restored corrected ones.
        trigger: what makes a site correct: ``loss`` is Eq. 7; ``estimate``, a completeness that is confirmed below
            one, predicted by a model that is fit as a reference.
        least_recall: fraction of the annotated lesions that such a model finds.
        least_precision: fraction of their predicted voxels that are annotated.
        additions: what is added: ``voxels`` that the model predicts with confidence, or ``lesions`` as a whole of which
            nothing is annotated, never more than are missing by the estimate.
        correction_margin: λ of Eq. 7.
        correction_threshold: τ, the probability from which a background voxel becomes foreground.
    """

    method: str = "fedia"
    weighting: Literal["completeness", "established", "quantity"] = "completeness"
    estimator: Literal["counts", "matched", "sure"] = "counts"
    smallest_lesion: Positive = 5
    completeness_scale: Annotated[float, Field(gt=0)] = 0.2
    least_effective_share: Annotated[float, Field(ge=0.5, lt=1)] = 0.5
    completeness_floor: Annotated[float, Field(ge=0, lt=1)] = 0.05
    estimates: Positive = 2
    correction: bool = True
    corrections: Literal["use", "ask"] = "use"
    trigger: Literal["loss", "estimate"] = "loss"
    least_recall: Share = 0.7
    least_precision: Share = 0.7
    additions: Literal["voxels", "lesions"] = "voxels"
    correction_margin: float = 0.03
    correction_threshold: Annotated[float, Field(ge=0.5, lt=1)] = 0.8

    @property
    def reports_dice_loss(self) -> bool:
        """Always: weights and corrections follow from it."""
        return True

    @property
    def establishes_completeness(self) -> bool:
        """Whether sites send the interval of their completeness, and whether the model is fit as a reference for it."""
        return self.weighting == "established" or (self.correction and self.trigger == "estimate")

    @model_validator(mode="after")
    def _can_be_confirmed(self) -> "FedIASettings":
        if self.establishes_completeness and self.estimator != "sure":
            raise ValueError(
                f"key 'estimator' is {self.estimator!r}: weighting = established and trigger = estimate need "
                "estimator = sure, the one whose intervals are known; or take --settings published-method"
            )
        return self

    @model_validator(mode="after")
    def _can_ask(self) -> "FedIASettings":
        if self.corrections == "ask" and (not self.correction or self.trigger != "estimate"):
            raise ValueError(
                "key 'corrections' is 'ask': it needs correction = true and trigger = estimate; with the published "
                "trigger weights end when all sites have corrected, which is unknown of sites that ask first"
            )
        return self

    @property
    def training_predictions(self) -> int | None:
        """Return one for each estimate, and one for the corrections."""
        return self.estimates + 1
