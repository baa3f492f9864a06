"""Settings of RMD."""

from typing import Annotated, ClassVar

from pydantic import Field

from ...settings import NetworkSettings, Positive
from ..fedavg.settings import FedAvgSettings


class TwoNetworksSettings(NetworkSettings):
    """A network that carries another one; see :mod:`fedannot.custom.networks.second_network`."""

    has_second: ClassVar[bool] = True


class RmdSettings(FedAvgSettings):
    """Settings of RMD; the defaults are those of the federated comparisons.

    Args:
        dropped_fraction: τ, of a batch's pixels, those with the largest loss of the other network, which a network is
            not trained on. The authors have 0.005 for lungs and 0.004 for hearts.
        certain_fraction: μ, of a batch's pixels, those of which the other network is most certain, by which it teaches.
            The authors have 1 and 0.8.
        distillation_weight: λ, how much a network's teaching counts; 0 leaves the second pass out.
        ramp_epochs: epochs of the whole run in which τ, μ and λ rise; then images are changed more, too.
    """

    method: str = "rmd"
    network: TwoNetworksSettings = TwoNetworksSettings()
    dropped_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.004
    certain_fraction: Annotated[float, Field(ge=0, le=1)] = 0.8
    distillation_weight: Annotated[float, Field(ge=0)] = 0.0009
    ramp_epochs: Positive = 10

    @property
    def training_predictions(self) -> int | None:
        """Return None: a step has passes of two networks, and of changed images."""
        return None

    @property
    def step_factor(self) -> float:
        """Two networks, each with a second pass of changed images where they teach each other."""
        return 4.0 if self.distillation_weight else 2.0

    @property
    def kept_factor(self) -> float:
        """As above: nothing is given back before the backward pass of all."""
        return self.step_factor
