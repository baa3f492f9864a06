"""Boundary biases from images and from the global model together: both are of the same sites, with other errors."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ....transforms.array_types import Floats
from ..estimate import Estimate
from ..reference_level import standard_error_of
from ..votes import ROUNDING, middle
from .decision import ProfileEstimate, estimate_of
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class FusedBiases:
    """The boundary biases of one class from images and model, from the image boundary.

    Attributes:
        estimates: by site; unknown where neither says it.
        constant: by how far the model draws inside the image boundary: what is added to a bias from it, in millimetres,
            pixels without spacing; NaN where no site has both.
        constant_error: its standard error, likewise; of fewer than three sites that of a pixel.
        spread: standard deviation over sites of the difference of both, in pixels; NaN of fewer than three sites.
        chi_square: the squared differences by what both errors explain, mean over sites; NaN as above.
        is_model_used: whether the model counts.
        model: by site the biases from the model, from the contours that it predicts.
    """

    estimates: Mapping[str, Estimate]
    constant: float
    constant_error: float
    spread: float
    chi_square: float
    is_model_used: bool
    model: Mapping[str, Estimate]


def fused_biases(
    images: Mapping[str, ProfileEstimate], model: Mapping[str, Estimate], *, uses_model: bool = True
) -> FusedBiases:
    """Return biases e_k from images and b_k from the model together.

    c is the median of e − b over the sites with both. Both count by their precision. The model's variance is at least
    SE_b² + 0.3² and what the spread of e − b shows beyond the errors of e. A site of which images say nothing has
    b_k + c. Where that spread is above 1 pixel, or χ² / K above 3, the model has not learnt enough: images count alone.
    Groups of annotators share the vote of their site in c, in the spread and in χ².

    Args:
        images: of all sites.
        model: of those sites whose images the model predicts; unknown ones do not count.
        uses_model: whether it may count; its scale is found anyhow.
    """
    both = [site for site in sorted(images) if images[site].is_known and site in model and model[site].is_known]
    alone = {site: one.as_estimate() for site, one in images.items()}
    if not both:
        return FusedBiases(alone, math.nan, math.nan, math.nan, math.nan, is_model_used=False, model=model)
    differences = {site: images[site].bias - model[site].value for site in both}
    votes = [images[site].votes for site in both]
    constant = middle(list(differences.values()), votes)
    num_sites = len(both) if set(votes) == {1.0} else math.fsum(votes)
    if num_sites < THRESHOLDS.min_sites_of_fusion - ROUNDING:
        pixel = statistics.median(images[site].unit for site in both)
        return FusedBiases(alone, constant, pixel, math.nan, math.nan, is_model_used=False, model=model)
    in_pixels = np.array([(differences[site] - constant) / images[site].unit for site in both])
    spread = _spread(in_pixels, votes)
    of_images = np.array([images[site].whole_error / images[site].unit for site in both])
    unexplained = spread**2 - middle((of_images**2).tolist(), votes)
    errors = {site: _model_error(model[site], images[site].unit, unexplained) for site in model if site in images}
    variances = of_images**2 + np.array([(errors[site] / images[site].unit) ** 2 for site in both])
    chi_square = float(np.average(in_pixels**2 / variances, weights=None if len(set(votes)) == 1 else votes))
    # Of normal errors a median spreads so much more than a mean.
    pixel = statistics.median(images[site].unit for site in both)
    constant_error = math.sqrt(math.pi / 2 / num_sites) * spread * pixel
    agrees = spread <= THRESHOLDS.max_model_spread and chi_square <= THRESHOLDS.max_chi_square
    if not (uses_model and agrees):
        return FusedBiases(alone, constant, constant_error, spread, chi_square, is_model_used=False, model=model)
    moved = {
        site: estimate_of(one.patients, one.value + constant, errors[site])
        for site, one in model.items()
        if one.is_known and site in images
    }
    fused = {site: _by_precision(alone[site], moved.get(site)) for site in images}
    return FusedBiases(fused, constant, constant_error, spread, chi_square, is_model_used=True, model=model)


def _spread(values: Floats, votes: Sequence[float]) -> float:
    """The standard deviation of normal numbers by their median absolute deviation, each counted by its votes."""
    if len(set(votes)) == 1:
        return float(stats.median_abs_deviation(values, scale="normal"))
    away = np.abs(values - middle(values.tolist(), votes))
    return middle(away.tolist(), votes) / float(stats.norm.ppf(0.75))


def _model_error(estimate: Estimate, unit: float, unexplained: float) -> float:
    """The error of a bias from the model; `unexplained` is a variance in pixels."""
    own = (standard_error_of(estimate) / unit) ** 2 + THRESHOLDS.min_model_error**2
    return math.sqrt(max(own, unexplained)) * unit


def _by_precision(image: Estimate, model: Estimate | None) -> Estimate:
    if model is None or not image.is_known:
        return image if model is None else model
    errors = standard_error_of(image), standard_error_of(model)
    weights = [1 / error**2 for error in errors]
    value = (weights[0] * image.value + weights[1] * model.value) / sum(weights)
    return estimate_of(image.patients, value, 1 / math.sqrt(sum(weights)), image.degrees_of_freedom)
