"""Settings of FedGP without the graph network."""

from typing import Annotated, Literal

from pydantic import Field

from ...settings import Positive
from ..fedavg.settings import ClassificationSettings, EndingWarmup


class FedGPSettings(ClassificationSettings, EndingWarmup):
    """Settings of FedGP without the graph network.

    Args:
        warmup_rounds: rounds in which all labels count as they are given, fewer than all.
        core_share: fraction of each class's samples whose labels count because their losses are smallest; 1 is without
            any cleaning.
        pseudo_label_confidence: probability above which a label counts that both heads say, too.
        propagation: α, how much a sample takes of its neighbours' labels in label propagation.
        neighbours: how many neighbours a sample has in the graph of features.
        negative_weight: how much the loss counts that makes unlikely classes of doubtful samples improbable; 0 leaves
            these samples out.
        norm_weight: how much the mean length of features counts in the loss.
        weighting: of models and centroids: ``equal`` for all sites, or by ``quantity`` of samples.
    """

    method: str = "fedgp"
    warmup_rounds: Positive = 20
    core_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    pseudo_label_confidence: Annotated[float, Field(ge=0, le=1)] = 0.3
    propagation: Annotated[float, Field(gt=0, lt=1)] = 0.5
    neighbours: Positive = 20
    negative_weight: Annotated[float, Field(ge=0)] = 0.1
    norm_weight: Annotated[float, Field(ge=0)] = 0.05
    weighting: Literal["equal", "quantity"] = "equal"

    @property
    def needs_server(self) -> tuple[str, ...]:
        """The method itself: a server makes the last layer of the sites' centroids."""
        return ("method", *super().needs_server)
