"""Thresholds of the boundary profile, in one place, with the data on which they were chosen."""

from pydantic import Field

from ...strict_model import SettingsModel


class ProfileThresholds(SettingsModel):
    """Thresholds of the boundary profile; each description says on which data it was chosen."""

    min_prominence: float = Field(
        default=0.3,
        description="The template has an image boundary if the curve is higher there by this fraction of its mean. "
        "Chosen on generated lesions, BUSI, hippocampus and cells, seeds from 100.",
    )
    min_correlation: float = Field(
        default=0.9,
        description="A site's curve fits the template of the others from this Pearson correlation on. Chosen as above.",
    )
    max_standard_error: float = Field(
        default=0.5,
        description="Largest standard error of a known boundary bias, in pixels of the scale. Chosen as above.",
    )
    min_standard_error: float = Field(
        default=0.2,
        description="Error that patients drawn again do not show, added in squares, in pixels. Chosen as above.",
    )
    min_standard_error_alone: float = Field(
        default=0.6,
        description="The same of one site alone, whose boundary no other site confirms. Chosen on generated lesions, "
        "BUSI, hippocampus and cells, seeds 100 and 101.",
    )
    spread_of_hidden_patients: float = Field(
        default=2.0,
        description="By how much patients' boundary biases spread at worst, in pixels, where a site hides them. Chosen "
        "on BUSI, generated lesions, hippocampus and cells, seeds 100 and 101: known sites have at most 1.6 and, of "
        "cells, 3.1 (95 %: 2.7).",
    )
    min_hidden_patients: int = Field(
        default=3, description="So few patients with a curve have none with noise. As for all means; not measured."
    )
    max_hidden_noise: float = Field(
        default=3.0,
        description="A curve with more noise in each cosine than a patient's own may be long counts as none: it would "
        "make all others uncertain through their templates. Chosen by hand, above that of ten patients at σ = 4; not "
        "measured.",
    )
    bootstrap_draws: int = Field(default=200, description="Draws of patients. Chosen by hand; not measured.")
    min_likeness: float = Field(
        default=0.85,
        description="A site counts in the template if its curve correlates so well with the template of the others. "
        "Chosen as above: of 336 honest sites none is below 0.89, of random and peaked curves none above 0.88.",
    )
    max_site_departure: float = Field(
        default=1.0,
        description="A site's curve counts in the template no farther from the median of the sites. Chosen on BUSI, "
        "hippocampus and cells, seeds from 100.",
    )
    max_range_of_convention: float = Field(
        default=1.5,
        description="Known biases that may lie within this range by their intervals, in pixels, are one convention: "
        "nothing is corrected. Chosen on the cells of a crowd, seeds from 100; intervals count since seed 0 was seen.",
    )
    max_distance_of_convention: float = Field(
        default=2.0,
        description="A convention is no farther from the image boundary, in pixels. Chosen as above.",
    )
    min_bias: float = Field(
        default=1.5, description="Minimum effect of a correction before the first round, in pixels. Chosen as above."
    )
    min_bias_of_others: float = Field(
        default=0.5,
        description="The same where other sites are corrected to the image boundary. Chosen on BUSI, generated "
        "lesions, hippocampus and cells, seeds 100 and 101: of 61 sites from 0.5 to 1.5 px all get better.",
    )
    tolerated_fraction: float = Field(
        default=1 / 6,
        description="Nothing is corrected while federated averaging's contours are within this fraction of the radius "
        "of objects. Chosen on generated lesions, BUSI, hippocampus and cells, seeds 100 and 101. "
        "tests/benchmarks/boundary_profiles.py prints the fractions: weak bias has 0.07 at most, one bad site 0.09, "
        "N_S and N_E 0.20 at least.",
    )
    min_correlation_to_follow: float = Field(
        default=0.8,
        description="A site whose bias is not known follows others if its curve fits theirs so well. Chosen on BUSI, "
        "generated lesions, hippocampus and cells, seeds 100 to 111. tests/benchmarks/boundary_profiles.py counts such "
        "sites.",
    )
    max_far_fraction: float = Field(
        default=1 / 3,
        description="And no more than this fraction of the sites is farther off. Chosen as above.",
    )
    min_model_error: float = Field(
        default=0.3,
        description="Error of a boundary bias from the model besides its standard error, added in squares, in pixels. "
        "Chosen in an earlier trial, on 97 sites.",
    )
    max_model_spread: float = Field(
        default=1.0,
        description="Where biases from images and from the model differ by more (standard deviation over sites, in "
        "pixels), the model is not used. Chosen as above.",
    )
    max_chi_square: float = Field(
        default=3.0,
        description="The same, where the squared differences are so many times what their errors explain. As above.",
    )
    min_sites_of_fusion: int = Field(
        default=3,
        description="The model is used where so many sites have both biases. Chosen by hand; not measured.",
    )
    min_shift_prominence: float = Field(
        default=0.25,
        description="A shift of all masks is known if contours fit there better than elsewhere by this fraction of the "
        "mean. Chosen on BUSI, generated lesions, cells and hippocampus slices, seeds 100 and 101.",
    )
    min_shift_agreement: float = Field(
        default=0.9,
        description="It is known if so many draws of patients have their best place near the site's. Chosen as above.",
    )
    max_shift_half_width: float = Field(
        default=0.8,
        description="Largest half-width of the 90 % interval of a known shift along an axis, in pixels: 12 patients "
        "need a standard error below 0.4, three below 0.19. Chosen as above: at 1.0 hippocampus slices are wrong.",
    )
    min_shift: float = Field(
        default=1.0,
        description="Minimum effect of a shift of all masks along an axis, in pixels. Chosen by hand; not measured.",
    )
    min_cases_of_pairing: int = Field(
        default=8,
        description="So few cases do not tell whether masks belong to their images. Chosen by hand; not measured.",
    )
    max_advantage: float = Field(
        default=2.0,
        description="All masks may be those of other images if their mean advantage over masks of other patients is "
        "below so many standard errors. Chosen on BUSI, generated lesions, cells and hippocampus slices, seeds 100 and "
        "101: sites as they are have at least 3.2, permuted ones at most 1.4.",
    )
    min_lost_advantage: float = Field(
        default=0.9,
        description="They are if masks lose this fraction of the advantage that the best masks have. Chosen as above: "
        "sites as they are lose at most 0.81, permuted ones at least 0.92.",
    )
    clear_difference: float = Field(
        default=0.3,
        description="A mask of another patient fits clearly better by this much. Chosen as above: noise of four "
        "standard deviations of the image has no such mask.",
    )
    min_clearly_better: float = Field(
        default=0.2, description="Such a mask has to exist for this fraction of the cases. Chosen as above."
    )
    misplaced_difference: float = Field(
        default=0.2,
        description="A single mask is misplaced if another fits better by this much, and it has lost most of its "
        "advantage. Chosen as above.",
    )
    max_relative_advantage: float = Field(
        default=0.25,
        description="A misplaced mask has at most this fraction of the best one's advantage. Chosen as above.",
    )
    min_misplaced: float = Field(
        default=0.3,
        description="Some masks are those of other images if this fraction is misplaced. Chosen as above, without "
        "slices: sites as they are have at most 0.22, half permuted ones 0.14 to 0.50.",
    )
    min_explained: float = Field(
        default=0.6,
        description="Then this fraction is either misplaced or fits best. Chosen as above.",
    )
    min_fitting_best: float = Field(default=0.1, description="And this fraction fits best. Chosen as above.")
    min_side_bias: float = Field(
        default=1.5,
        description="Minimum effect of a bias on one side of objects, in pixels. Chosen on BUSI, generated lesions, "
        "cells and slices of hippocampi, seeds 100 and 101, with errors of 2 to 4 pixels on one side of all masks.",
    )
    min_patients_of_sides: int = Field(
        default=5,
        description="Fewer patients say nothing of sides. Chosen as above: with three, one of twenty sites of slices "
        "without such an error was flagged.",
    )
    min_side_correlation: float = Field(
        default=0.8, description="A side's curve fits those of the others from this on. Chosen as above."
    )
    min_side_agreement: float = Field(
        default=0.8,
        description="So many draws of patients have the side within 3 pixels of the site's. Chosen as above.",
    )
    max_side_error: float = Field(
        default=0.7, description="Largest standard error of a side's excess, in pixels. Chosen as above."
    )
    min_side_error: float = Field(
        default=0.3, description="Error that patients drawn again do not show, in pixels. Chosen as above."
    )
    least_opposite: float = Field(
        default=-0.55,
        description="The opposite side has at least this fraction of the excess: a shift has −1, an error of one side "
        "on a disc −0.27. Chosen as above, with shifts of 2 and 4 pixels.",
    )
    most_opposite: float = Field(default=0.3, description="And at most this fraction. Chosen as above.")


THRESHOLDS = ProfileThresholds()
