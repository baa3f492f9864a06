"""Thresholds of the audit's scores of class labels, in one place, with the data on which they were chosen."""

from pydantic import Field

from ...strict_model import SettingsModel


class LabelAuditThresholds(SettingsModel):
    """Thresholds of the audit's scores of class labels; each description says on which data it was chosen."""

    wrong_fractions: tuple[float, float] = Field(
        default=(0.01, 0.9),
        description="The fraction of wrong labels is never taken for smaller or larger. Chosen on seeds 100 "
        "and 101 of the generated cells.",
    )
    max_mixture: float = Field(
        default=0.8,
        description="Where given labels are nearly as often wrong as those that are put in, they tell nothing "
        "of each other. Chosen on seeds 100 and 101 of the generated cells.",
    )
    slope_firmness: float = Field(
        default=2.0,
        description="How firmly the slope stays near one: as firmly as so many labels would hold it. Chosen "
        "on seeds 100 and 101 of the generated cells.",
    )
    doubted_score: float = Field(
        default=0.5,
        description="Score from where on another class is more probable than the given one. It is what the score says.",
    )
    neighbours: int = Field(
        default=20,
        description="Look-alikes of a sample. Chosen on seeds 100 and 101 of the generated cells.",
    )
    prior_neighbours: float = Field(
        default=2.0,
        description="What is known of a sample without neighbours: as much as so many of them say. Chosen on "
        "seeds 100 and 101 of the generated cells.",
    )


THRESHOLDS = LabelAuditThresholds()
