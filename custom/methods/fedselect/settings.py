"""Settings of FedSelect, for segmentation and for classification."""

from typing import Annotated, Literal

from pydantic import Field

from ...settings import Positive
from ..fedavg.settings import ClassificationSettings, EndingWarmup, FedAvgSettings

_Share = Annotated[float, Field(gt=0, le=1)]


class SelectionSettings(EndingWarmup):
    """What both tasks share; the defaults are those of the authors' program, but for the proxy's share.

    Args:
        warmup_rounds: rounds in which sites and cases are drawn at equal chances; fewer than all.
        site_fraction: of the sites that train in a round; at least two.
        case_fraction: of a site's cases that are drawn in a round, with replacement.
        smoothing: β, how much the margins of earlier trainings count.
        smoothing_memory: what β weighs: ``smoothed`` is the smoothed margin before, the paper's; ``latest`` is the
            margin before, the program's.
        proxy_fraction: of a site's cases on which V is tested, those with the largest margins. The program takes 100
            cases, which is all of a small site.
        scorer_learning_rate: of Adam on V.
        scorer_weight_decay: of Adam on V.
    """

    method: str = "fedselect"
    warmup_rounds: Positive = 5
    site_fraction: _Share = 0.4
    case_fraction: _Share = 0.6
    smoothing: Annotated[float, Field(ge=0, le=1)] = 0.5
    smoothing_memory: Literal["smoothed", "latest"] = "smoothed"
    proxy_fraction: _Share = 0.1
    scorer_learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    scorer_weight_decay: Annotated[float, Field(ge=0)] = 1e-4

    @property
    def training_predictions(self) -> int | None:
        """Return 2 for each round: the losses before and after the training."""
        return 2 * self.rounds


class FedSelectSettings(FedAvgSettings, SelectionSettings):
    """Settings of FedSelect for segmentation."""

    method: str = "fedselect"


class FedSelectClassificationSettings(ClassificationSettings, SelectionSettings):
    """Settings of FedSelect for classification."""

    method: str = "fedselect"
