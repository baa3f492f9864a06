"""Thresholds of `auto` for classification that no job sets, in one place, with the data on which they were chosen."""

from pydantic import Field

from ...strict_model import SettingsModel


class LabelThresholds(SettingsModel):
    """Thresholds of `auto` for classification that no job sets; each description says on which data it was chosen."""

    min_auroc: float = Field(
        default=0.6,
        description="An estimate cannot tell where injected errors are distinguished with a smaller AUROC. "
        "Where more than half of the labels look wrong, one more is distinguished with this one. "
        "Chosen on seeds 100 and 101 of the generated cells.",
    )
    slopes: tuple[float, float] = Field(
        default=(0.5, 1.5),
        description="Nor can one that shows so many times the injected error, or less or more: with few "
        "samples the slope of a right one spreads by as much. Chosen on seeds 100 and 101 of the "
        "generated cells.",
    )
    min_support: float = Field(
        default=0.5,
        description="The interval of the fraction of doubted labels in which look-alikes side with the model "
        "has to end above it. Chosen on seeds 100 and 101 of the generated cells.",
    )
    injected_noise: float = Field(
        default=0.2,
        description="Fraction of the labels into which errors are injected. Chosen by hand; not measured.",
    )
    neighbours: int = Field(
        default=10,
        description="Look-alikes of a sample. Chosen by hand; not measured.",
    )
    mixed_up_ratio: float = Field(
        default=0.5,
        description="Of the samples that seem to be of a class, so many times as many are given as another "
        "one as are given as it: from there on the model may take that class for this one. Up to "
        "a third of the labels may be wrong by one other class. The rule came after seeds 0 and "
        "3; measured on seeds 100 to 103 of the generated cells.",
    )
    min_mixed_up: int = Field(
        default=3,
        description="Fewer such samples are chance. Chosen by hand; not measured.",
    )


THRESHOLDS = LabelThresholds()
