"""Settings of decoupled predictions."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ...settings import NetworkSettings, Positive
from ..fedavg.settings import EndingWarmup
from ..personal.settings import PersonalSettings

# Entries of a latent code, and channels of the encoders.
LATENT = 8
TestCode = Literal["mean", "sampled"]
ENCODER_FEATURES = (32, 64, 128, 192)


class DecoupledNetworkSettings(NetworkSettings):
    """The shared networks of decoupled predictions; see
    :func:`fedannot.custom.methods.decoupled.network.build_decoupled_network`.

    Args:
        latent: entries of a code.
        encoder_features: widths of the encoders.
        test_code: the code that images are predicted with: ``mean`` of the prior, or ``sampled`` from it as in the
            paper. A sample's draw follows from its pixels alone, so that a test gives the same bits again.
    """

    builder: ClassVar[str] = "fedannot.custom.methods.decoupled.network:build_decoupled_network"
    refuses_components: ClassVar[str] = (
        "decoupled predictions join a code to the features before the last layer, which only the network of the "
        "settings gives; leave '_target_' out, or take another method"
    )
    latent: Positive = LATENT
    encoder_features: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=5)] = ENCODER_FEATURES
    test_code: TestCode = "mean"


class DecoupledSettings(PersonalSettings, EndingWarmup):
    """Settings of decoupled predictions: a shared network, and at each site one that adapts it to its annotations.

    Args:
        warmup_rounds: rounds in which the segmentation network alone is fitted (Eq. 7), fewer than all.
        adaptation: what W is made of; see :class:`fedannot.custom.methods.decoupled.adaptation.AdaptationNetwork`.
        trace_weight: α of Eq. 8; see docs/benchmarks/decoupled.md for how large it may be.
        divergence_weight: β of Eq. 7 and 8.
        noise_exponent: q of Eq. 6.
    """

    without_recipe: ClassVar[frozenset[str]] = frozenset({"training.loss"})

    method: str = "decoupled"
    network: DecoupledNetworkSettings = DecoupledNetworkSettings()
    warmup_rounds: Positive = 10
    adaptation: Literal["latent", "published", "feature", "image", "fixed"] = "latent"
    trace_weight: Annotated[float, Field(ge=0)] = 0.01
    divergence_weight: Annotated[float, Field(ge=0)] = 0.01
    noise_exponent: Annotated[float, Field(gt=0, le=1)] = 0.7

    @model_validator(mode="after")
    def _loss_is_its_own(self) -> "DecoupledSettings":
        training = self.training
        if training.loss != "ce" or training.proximal_weight or training.class_weights:
            raise ValueError(
                "keys 'training.loss', 'training.class_weights' and 'training.proximal_weight' cannot be chosen: "
                "decoupled predictions have a loss of their own; leave them out"
            )
        return self
