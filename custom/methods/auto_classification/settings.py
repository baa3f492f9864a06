"""Settings of `auto` for classification."""

from typing import Annotated, Literal

from pydantic import Field

from ...settings import Positive
from ..fedavg.settings import ClassificationSettings, EndingWarmup

Treatment = Literal["relabel", "forward", "both", "fedgsca", "none"]


class AutoClassificationSettings(ClassificationSettings, EndingWarmup):
    """Settings of `auto` for classification: federated averaging, an estimate of the noise level, and its correction.

    Args:
        warmup_rounds: rounds of federated averaging before the first estimate.
        second_estimate: the fraction of the rounds after the warm-up after which the estimate is made again; None for
            no second one.
        confident_fraction: fraction of the samples that seem to be of a class by which its labels are assessed, the
            most confident ones.
        neutral: what is taken as the noise level of right labels: ``zero``; or ``least_noisy``, the least that any site
            has, so that only differences between sites are confirmed.
        floor: smaller deviations from neutral are not acted on.
        treatment: what an confirmed site does: ``relabel`` gives its surely wrong labels the class that they look
            like, ``forward`` corrects its loss, ``both`` does the one and corrects for the rest; ``none`` estimates
            alone. With ``fedgsca``, to compare with, all sites are treated by that method as soon as one is
            confirmed.
        margin: by how much more probable than its label another class is where a label is surely wrong, as a fraction
            of how probable that class typically is where it is the most probable one.
        rollback_rounds: number of rounds in which sites compare the model with that of before labels were corrected, on
            reviewed and held-out patients. Where that is better beyond doubt everything is rolled back. 0 for no check.
        held_out: fraction of its training patients that a site without validation cases keeps out of training for that.
    """

    method: str = "auto_classification"
    warmup_rounds: Positive = 9
    second_estimate: Annotated[float, Field(gt=0, lt=1)] | None = 0.5
    confident_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    neutral: Literal["zero", "least_noisy"] = "zero"
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.05
    treatment: Treatment = "both"
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.5
    rollback_rounds: Annotated[int, Field(ge=0)] = 3
    held_out: Annotated[float, Field(ge=0, le=0.5)] = 0.0

    @property
    def estimate_rounds(self) -> tuple[int, ...]:
        """The rounds before whose training there is an estimate."""
        first, left = self.warmup_rounds + 1, self.rounds - self.warmup_rounds
        if self.second_estimate is None:
            return (first,)
        second = first + max(1, round(self.second_estimate * left))
        return (first, second) if second <= self.rounds else (first,)
