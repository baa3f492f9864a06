"""Thresholds of what is said of a run's course, in one place, with the data on which they were chosen."""

from pydantic import Field

from ..strict_model import SettingsModel


class ConvergenceThresholds(SettingsModel):
    """When a run counts as not converged; each description says on which data it was chosen."""

    last_fraction: float = Field(
        default=0.25,
        description="Fraction of the rounds, the last ones, over which the slope of the score is taken. Chosen by "
        "hand; not measured.",
    )
    largest_fraction: float = Field(
        default=0.5,
        description="With few scores the slope is taken over more rounds, at most over this fraction: earlier ones "
        "rise in every run. Chosen by hand; not measured.",
    )
    min_scored_rounds: int = Field(
        default=4,
        description="Fewer scores give a slope whose standard error says nothing. Chosen by hand; not measured.",
    )
    interval_level: float = Field(
        default=0.9,
        description="Level of the slope's interval, two-sided by Student's t. As that of all estimates; chosen by "
        "hand, not measured.",
    )
    min_slope: float = Field(
        default=0.0025,
        description="A score still rises if the interval of its slope lies above this, a quarter of a point a round. "
        "Chosen by hand; not measured.",
    )


THRESHOLDS = ConvergenceThresholds()
