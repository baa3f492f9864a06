"""Settings of FedDM."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ...settings import Positive
from ..fedavg.settings import FedAvgSettings


class FedDMSettings(FedAvgSettings):
    """Settings of FedDM.

    Args:
        models_to_sites: whether all sites allow that each of them receives models of two other sites; a job without it
            is refused. A participant's limits have to say so, too.
        dropped_share: fraction of the foreground whose losses are too large at last; 0 keeps all pixels.
        dropping_rounds: rounds in which it rises to that.
        pixel_loss: of the pixels that are kept: ``focal`` is the paper's, ``ce`` is cross entropy.
        random_images: by how many random images the server compares models.
        random_extent: their extent in pixels along each axis; volumes have that of the patch.
        history_momentum: how much of the earlier direction of a layer stays, along which updates are paired.
    """

    # The loss of the first round; the others have that of the chosen pixels.
    without_recipe: ClassVar[frozenset[str]] = frozenset({"training.loss"})

    method: str = "feddm"
    models_to_sites: bool = False
    dropped_share: Annotated[float, Field(ge=0, lt=1)] = 0.6
    dropping_rounds: Positive = 50
    pixel_loss: Literal["focal", "ce"] = "focal"
    random_images: Positive = 100
    random_extent: Annotated[int, Field(ge=32)] = 64
    history_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.99

    @property
    def random_extents(self) -> tuple[int, ...]:
        """The extents of a random image, along each axis."""
        return self.training.patch or (self.random_extent,) * self.network.spatial_dims

    @property
    def needs_server(self) -> tuple[str, ...]:
        """The method itself: peers and projections are the server's."""
        return ("method", *super().needs_server)

    @property
    def step_factor(self) -> float:
        """From the second round on with a forward pass of each of two peers."""
        return 1 + 2 / 3 * (self.rounds - 1) / self.rounds

    @model_validator(mode="after")
    def _loss_is_read(self) -> "FedDMSettings":
        if self.training.loss != "ce" or self.training.class_weights:
            raise ValueError(
                "keys 'training.loss' and 'training.class_weights' are not read after the first round, in which pixels "
                "are chosen; expected training.loss = ce without class_weights, and pixel_loss"
            )
        return self

    @model_validator(mode="after")
    def _models_count_as_they_came(self) -> "FedDMSettings":
        if self.aggregation.is_robust:
            raise ValueError(
                f"key 'aggregation.rule' is {self.aggregation.rule!r}, but 'feddm' has an aggregation of its own; "
                "expected aggregation.rule = mean"
            )
        return self
