"""Thresholds of the audit's scores of cases and objects, in one place, with the data on which they were chosen."""

from pydantic import Field

from ..strict_model import SettingsModel


class AuditThresholds(SettingsModel):
    """Thresholds of the audit's scores of cases and objects; each description says on which data it was chosen."""

    prior: float = Field(
        default=0.05,
        description="Fraction of the cases that are assumed to have an error of a kind, before anything is "
        "known of a site. Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells and "
        "hippocampus.",
    )
    min_auroc: float = Field(
        default=0.7,
        description="Below it scores tell nothing, and give no probability. Chosen on seeds 100 and 101 of "
        "generated lesions, BUSI, blood cells and hippocampus.",
    )
    min_calibrated_patients: int = Field(
        default=5,
        description="Injected errors in fewer patients say nothing of scores. Chosen by hand; not measured.",
    )
    calibration_firmness: float = Field(
        default=2.0,
        description="How firmly the curve stays near the one before injected errors: slope one, and "
        "`probability_at_threshold`. Chosen on seeds 100 and 101 of generated lesions, BUSI, "
        "blood cells and hippocampus.",
    )
    probability_at_threshold: float = Field(
        default=0.3,
        description="Probability at the threshold before injected errors. Chosen on seeds 100 and 101 of "
        "generated lesions, BUSI, blood cells and hippocampus.",
    )
    max_size_ratio: float = Field(
        default=5.0,
        description="An object of another size than this many times what is predicted there is another one. "
        "Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells and hippocampus.",
    )
    min_contour_deviation: float = Field(
        default=0.25,
        description="Contours on a grid are no finer than this, in pixels or millimetres. Chosen by hand; not "
        "measured.",
    )
    boundary_deviations: float = Field(
        default=4.0,
        description="Standard deviations of a site's contours at which the score of a contour is one half. "
        "Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells and hippocampus.",
    )
    boundary_radius_fraction: float = Field(
        default=0.15,
        description="Fraction of an object's radius at which the score of a contour is one half. Chosen on "
        "seeds 100 and 101 of generated lesions, BUSI, blood cells and hippocampus.",
    )
    min_followed_offset: float = Field(
        default=0.5,
        description="A systematic offset below it is not followed by suggestions, in pixels or millimetres. "
        "Chosen by hand; not measured.",
    )
    min_cases_of_empty: int = Field(
        default=10,
        description="Of fewer cases it is not known what is typical. Chosen by hand; not measured.",
    )
    min_annotated_of_missing_fraction: int = Field(
        default=10,
        description="With fewer annotated objects nothing is said of small ones that are missing. Chosen by "
        "hand; not measured.",
    )
    min_patients_of_missing_fraction: int = Field(
        default=5,
        description="As above with fewer patients. Chosen by hand; not measured.",
    )
    min_missing_fraction: float = Field(
        default=0.15,
        description="A smaller fraction is not worth a sentence. Chosen by hand; not measured.",
    )
    min_missing_fraction_low: float = Field(
        default=0.1,
        description="A fraction whose interval reaches below it is not likely. Chosen by hand; not measured.",
    )
    misaligned_gain: float = Field(
        default=0.15,
        description="A gain in Dice at which the score is one half. Chosen on seeds 100 and 101 of generated "
        "lesions, BUSI, blood cells and hippocampus.",
    )
    missing_firmness: float = Field(
        default=3.0,
        description="How firmly the weights of an object's features stay near those before a site's own "
        "objects are seen. Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells "
        "and hippocampus.",
    )
    max_annotated_part: float = Field(
        default=0.5,
        description="Of what overlaps annotated pixels by more, the contour is another one: the object is not "
        "missing. Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells and "
        "hippocampus.",
    )
    complete_score: float = Field(
        default=0.2,
        description="Mean score of cases up to which a site counts as complete. Chosen on seeds 100 and 101 "
        "of generated lesions, BUSI, blood cells and hippocampus.",
    )
    incomplete_score: float = Field(
        default=0.4,
        description="Mean score of cases from which on a site's own cases are not taken for right. Chosen on "
        "seeds 100 and 101 of generated lesions, BUSI, blood cells and hippocampus.",
    )
    weight_of_predicted: float = Field(
        default=0.5,
        description="An object that is predicted, too, counts by so much as a spurious one. Chosen on seeds "
        "100 and 101 of generated lesions, BUSI, blood cells and hippocampus.",
    )
    speck_fraction: float = Field(
        default=0.01,
        description="A speck is smaller than this fraction of the typical object. Chosen on seeds 100 and 101 "
        "of generated lesions, BUSI, blood cells and hippocampus.",
    )
    max_speck_pixels: int = Field(
        default=4,
        description="A speck is no larger. Chosen on seeds 100 and 101 of generated lesions, BUSI, blood "
        "cells and hippocampus.",
    )
    wrong_pair_margin: float = Field(
        default=0.1,
        description="By so much better another image has to fit an annotation, in Dice, where the score is "
        "one half. Chosen on seeds 100 and 101 of generated lesions, BUSI, blood cells and "
        "hippocampus.",
    )
    wrong_pair_width: float = Field(
        default=0.05,
        description="How fast the score rises around it. Chosen on seeds 100 and 101 of generated lesions, "
        "BUSI, blood cells and hippocampus.",
    )
    contained_margin: float = Field(
        default=0.2,
        description="An annotation that holds the whole prediction, or is in it, is drawn too large or too "
        "small: it has to fit worse by so much. Chosen on seeds 100 and 101 of generated lesions, "
        "BUSI, blood cells and hippocampus.",
    )
    contained_from: float = Field(
        default=0.8,
        description="From this fraction of it on the one holds the other. Chosen on seeds 100 and 101 of "
        "generated lesions, BUSI, blood cells and hippocampus.",
    )
    min_dice_of_pair: float = Field(
        default=0.2,
        description="An annotation that agrees less even where it fits best is none of this image. The rule "
        "came after pages of seed 103 had been looked at.",
    )
    injected_fraction: float = Field(
        default=0.2,
        description="Fraction of the patients into whose copies errors are injected. Chosen by hand; not measured.",
    )
    min_injected_patients: int = Field(
        default=10,
        description="They are no fewer where there are so many. Chosen by hand; not measured.",
    )
    min_probability: float = Field(
        default=0.2,
        description="What is less likely an error is not worth a reader's time. Chosen on seeds 100 and 101 "
        "of generated lesions, BUSI, blood cells and hippocampus.",
    )
    min_object_pixels: int = Field(
        default=5,
        description="Smaller objects are not looked for. Chosen by hand; not measured.",
    )
    reference_patients: int = Field(
        default=10,
        description="Patients that a site is asked to review so that its offsets have a reference. Chosen by "
        "hand; not measured.",
    )


THRESHOLDS = AuditThresholds()
