"""Thresholds of what `auto` does that no job sets, in one place, with the data on which they were chosen."""

from pydantic import Field

from ...strict_model import SettingsModel


class AutoThresholds(SettingsModel):
    """Thresholds of what `auto` does that no job sets; each description says on which data it was chosen."""

    min_exchanged_part: float = Field(
        default=0.2,
        description="Exchanged codes of a smaller part of the objects are left alone: with few of a class a "
        "model may err in all of them. Chosen on seeds 100 and 101 of the generated lesions and "
        "BUSI.",
    )
    most_objects: float = Field(
        default=0.5,
        description="From more than this fraction of the objects on most have the label of another class. It "
        "is what the word says.",
    )
    relabelling_margin: float = Field(
        default=0.5,
        description="By how much more probable the other class is, as a fraction of how probable classes "
        "typically are for this model. As in `auto_classification`; chosen there on seeds 100 and "
        "101 of the generated cells.",
    )
    min_sites_of_two_averages: int = Field(
        default=3,
        description="Who gets two averages can find a mean of the updates of some sites: never of fewer, its "
        "own among them. A bound of privacy; not measured.",
    )
    same_ratio: float = Field(
        default=1e-3,
        description="Weights whose ratios differ by less are as good as the same. Chosen by hand; not measured.",
    )
    max_weight_ratio: float = Field(
        default=3.0,
        description="A site has from a third to three times its weight by quantity, whatever is found of it. "
        "Chosen by hand; not measured.",
    )


THRESHOLDS = AutoThresholds()
