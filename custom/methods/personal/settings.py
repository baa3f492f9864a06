"""What the settings of methods share in which every site has a part of the model for itself."""

from typing import ClassVar

from ...settings import FinalModelKind
from ..fedavg.settings import FedAvgSettings


class PersonalSettings(FedAvgSettings):
    """What methods share in which every site has a part of the model for itself.

    Args:
        own_threshold: whether a site that keeps its model chooses which probability makes a pixel foreground, on its
            training annotations; else the most probable class counts.
    """

    # Each site keeps its own part of the last round, which goes with no other shared part.
    final_models: ClassVar[tuple[FinalModelKind, ...]] = ("last",)

    own_threshold: bool = False

    @property
    def has_global_model(self) -> bool:
        """Whether the shared part by itself is a model, which can be scored at the server."""
        return True

    @property
    def training_predictions(self) -> int | None:
        """Return None: sites train and score models of their own, too."""
        return None
