"""Settings of FedGSCA."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..fedavg.settings import ClassificationSettings, EndingWarmup


class FedGSCASettings(ClassificationSettings, EndingWarmup):
    """Settings of FedGSCA: samples selected by their losses, pseudo-labels, and losses that leave labels open.

    Args:
        warmup_rounds: rounds of federated averaging before samples are selected; 0 is the paper's form, which starts
            from a network that has been trained on something else. A network that knows nothing selects what it
            predicts, and from then on learns nothing but that.
        selector: ``global`` is Eq. 4; ``own`` is the ablation in which each site has its own alone.
        selector_losses: whose losses the selector is fitted to. ``trained``, those of the site's trained model, is the
            paper's form (Eq. 1); ``received``, those of the model that it predicts by, needs no second pass.
        sample_loss: ``ce`` is the paper's cross entropy; ``mae``, one minus the probability of the label, is bounded.
        confident_doubts: whether a label is doubted only where the received model is as confident in another class as
            it is of that class's samples; in the paper's form the loss alone decides.
        pseudo_labels: ``adaptive`` is Eq. 10; ``fixed``, the paper's ablation, has one threshold for all classes.
        initial_threshold: ζ_0 of the adaptive thresholds.
        fixed_threshold: the one threshold, 0.7 in the paper's ablation.
        smallest_noise_level: δ from which labels of noisy samples are dropped (Eq. 13).
        loss: ``rcl`` is robust credal labelling; ``ucl`` its rival with uniform credal labels, ``ce`` cross entropy.
        relaxation: α of Eq. 14.
        beta_start: β_0, the probability from which a class is plausible in the first round.
        beta_end: β_1, in the last round.
        beta_schedule: how β falls from the one to the other.
    """

    method: str = "fedgsca"
    warmup_rounds: Annotated[int, Field(ge=0)] = 0
    selector: Literal["global", "own"] = "global"
    selector_losses: Literal["trained", "received"] = "trained"
    sample_loss: Literal["ce", "mae"] = "ce"
    confident_doubts: bool = False
    pseudo_labels: Literal["adaptive", "fixed"] = "adaptive"
    initial_threshold: Annotated[float, Field(gt=0, le=1)] = 0.8
    fixed_threshold: Annotated[float, Field(gt=0, le=1)] = 0.7
    smallest_noise_level: Annotated[float, Field(ge=0, le=1)] = 0.1
    loss: Literal["rcl", "ucl", "ce"] = "rcl"
    relaxation: Annotated[float, Field(gt=0, lt=1)] = 0.05
    beta_start: Annotated[float, Field(gt=0, le=1)] = 0.75
    beta_end: Annotated[float, Field(gt=0, le=1)] = 0.55
    beta_schedule: Literal["cosine", "linear", "constant"] = "cosine"

    @model_validator(mode="after")
    def _loss_is_read(self) -> "FedGSCASettings":
        if self.loss != "ce" and (self.training.loss != "ce" or self.training.class_weights):
            raise ValueError(
                f"keys 'training.loss' and 'training.class_weights' are not read after the warm-up with the loss "
                f"{self.loss!r}; leave them out, or set 'loss' to 'ce'"
            )
        return self
