"""What is known of a site's boundary bias from its images, and what counts as zero."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..estimate import INTERVAL_DEVIATIONS, Estimate
from ..fedavg_boundary import FedAvgBoundary, boundary_of_claims
from ..statuses import Evidence, EvidenceCode, ReferenceKind, ReferenceLevel
from ..votes import ROUNDING, middle
from .interval import student_quantile
from .thresholds import THRESHOLDS

# Votes of one site and of two, with the rounding of their sums.
_OF_ONE, _OF_TWO = 1 + ROUNDING, 2 + ROUNDING


@dataclass(frozen=True)
class ProfileEstimate:
    """The boundary bias of one class at one site against the image boundary, from its images.

    Attributes:
        patients: behind it.
        bias: β in millimetres, pixels without spacing, positive where the site annotates too large; NaN without curves.
        standard_error: over patients, in pixels of the finest scale.
        half_width: of the 90 % interval, as the bias.
        unit: size of a pixel of the finest scale, as the bias.
        prominence: of the template.
        correlation: of the site's curve with the template of the others; 1 for one site alone.
        radius: of the site's objects, as the bias; NaN where it is not known.
        samples: that the site trains on, as far as its claim counts; 0 where nobody has said it.
        votes: by which it counts where sites are counted; those of the groups of a site are 1 together.
    """

    patients: int
    bias: float
    standard_error: float
    half_width: float
    unit: float
    prominence: float
    correlation: float
    radius: float = math.nan
    samples: int = 0
    votes: float = 1.0

    @classmethod
    def absent(cls, patients: int = 0) -> "ProfileEstimate":
        """Return what stands for a class of which the site has too little."""
        nan = math.nan
        return cls(patients, nan, math.inf, math.inf, 1.0, nan, nan)

    @property
    def is_known(self) -> bool:
        """Whether the image says it: P ≥ 0.3, r ≥ 0.9 and SE ≤ 0.5 pixels."""
        return (
            math.isfinite(self.bias)
            and math.isfinite(self.half_width)
            and self.prominence >= THRESHOLDS.min_prominence
            and self.correlation >= THRESHOLDS.min_correlation
            and self.standard_error <= THRESHOLDS.max_standard_error
        )

    @property
    def may_follow(self) -> bool:
        """Whether it may be corrected where other sites are: it fits their template, however uncertain it is."""
        return (
            math.isfinite(self.bias)
            and math.isfinite(self.half_width)
            and self.prominence >= THRESHOLDS.min_prominence
            and self.correlation >= THRESHOLDS.min_correlation_to_follow
        )

    def numbers(self) -> dict[str, float]:
        """Return all but counts by name."""
        names = (field.name for field in fields(self) if field.name not in ("patients", "samples", "votes"))
        return {name: getattr(self, name) for name in names}

    @property
    def whole_error(self) -> float:
        """The standard error with what patients drawn again do not show, in millimetres, pixels without spacing."""
        return self.half_width / student_quantile(self.patients)

    def as_estimate(self) -> Estimate:
        """Return the bias for tests, with the interval of a normal distribution; unknown where images do not say it.

        Injected errors say nothing: moving an annotation moves its curve exactly, so slope and AUROC are 1.
        """
        return self._estimate() if self.is_known else Estimate.unknown(self.patients)

    def as_follower(self) -> Estimate:
        """Return the bias of a site that may be corrected where others are; unknown where it does not fit them."""
        return self._estimate() if self.may_follow else Estimate.unknown(self.patients)

    def _estimate(self) -> Estimate:
        return estimate_of(self.patients, self.bias, self.whole_error, self.degrees_of_freedom)

    @property
    def degrees_of_freedom(self) -> float:
        """Those of the whole error (Welch–Satterthwaite): patients tell SE alone, the rest is known beforehand."""
        of_patients = (self.standard_error * self.unit) ** 2
        if of_patients == 0:
            return math.inf
        # A power that overflows is an error, a product is infinite: any error may be sent.
        ratio = self.whole_error**2 / of_patients
        return float((self.patients - 1) * ratio * ratio)


def estimate_of(patients: int, bias: float, error: float, degrees_of_freedom: float = math.nan) -> Estimate:
    """Return a boundary bias of which injected errors need not tell how well it is measured.

    Args:
        patients: behind it.
        bias: in millimetres, pixels without spacing.
        error: its standard error, likewise.
        degrees_of_freedom: of that error; NaN for n − 1 of n patients.
    """
    half = INTERVAL_DEVIATIONS * error
    return Estimate(patients, bias, bias - half, bias + half, 1.0, 1.0, degrees_of_freedom)


def is_shown(estimates: Mapping[str, ProfileEstimate]) -> bool:
    """Return whether images show the biases of a class: they are known at more than half of the sites with curves."""
    with_curves = [one for one in estimates.values() if math.isfinite(one.bias)]
    return 2 * _votes(one for one in with_curves if one.is_known) > _votes(with_curves)


def profile_reference_level(estimates: Mapping[str, ProfileEstimate]) -> ReferenceLevel | None:
    """Choose the reference level of boundary biases that images say.

    If the known biases may lie within 1.5 pixels and a sixth of the objects' radius, by their intervals, the sites have
    one convention: the level is their median, so that nothing is corrected. It is confident if it is within 2 pixels of
    the image boundary; farther away it may be a convention or an error of all. Otherwise the level is the image
    boundary.

    Args:
        estimates: of every site; a single site has no convention with others, and its level is the image boundary.

    Returns:
        None where no site has a known bias.
    """
    known = [estimates[site] for site in sorted(estimates) if estimates[site].is_known]
    if not known:
        return None
    in_pixels = np.array([estimate.bias / estimate.unit for estimate in known])
    half_widths = np.array([estimate.half_width / estimate.unit for estimate in known])
    certain_range = (in_pixels - half_widths).max() - (in_pixels + half_widths).min()
    largest_range = min(THRESHOLDS.max_range_of_convention, tolerated_bias(estimates))
    if _are_of_one_site(known) or certain_range > largest_range:
        return image_boundary_level(estimates)
    median = _middle([estimate.bias for estimate in known], known)
    is_near = abs(_middle(in_pixels.tolist(), known)) <= THRESHOLDS.max_distance_of_convention
    reason = Evidence(EvidenceCode.CONVENTION, {"sites": len(known), "distance": median})
    return ReferenceLevel(
        ReferenceKind.CONVENTION,
        median,
        0.0,
        (reason,),
        is_confident=is_near,
        minimum_effect=THRESHOLDS.min_bias,
        # By their intervals single sites may lie farther from the median than the minimum effect.
        tolerated=math.inf,
    )


def image_boundary_level(estimates: Mapping[str, ProfileEstimate], *, is_asked: bool = False) -> ReferenceLevel:
    """Return the image boundary as reference level.

    Federated averaging's contours are the weighted median of the sites'. While that and two thirds of the sites are
    within a sixth of the objects' radius of the image boundary, nothing is corrected: the model is hardly worse for it,
    and a few bad sites move it little. Else all sites follow to the boundary from 0.5 pixels on. A site alone has its
    boundary by nobody else's images: its minimum effect is always 1.5 pixels, and nothing more is tolerated.

    Args:
        estimates: of every site.
        is_asked: whether a person has said that the image boundary is right: all sites follow, whatever their distance.
    """
    distance, averaged = tolerated_bias(estimates), image_fedavg_boundary(estimates)
    known = [one for one in estimates.values() if one.is_known]
    far = _votes(one for one in known if abs(one.bias) >= distance * one.unit)
    is_alone = _are_of_one_site(known)
    are_followed = (
        is_asked
        or far > THRESHOLDS.max_far_fraction * _votes(known)
        or not (averaged is None or averaged.is_within(distance))
    )
    return ReferenceLevel(
        ReferenceKind.EDGES,
        0.0,
        0.0,
        (Evidence(EvidenceCode.EDGES),),
        minimum_effect=THRESHOLDS.min_bias_of_others if are_followed and not is_alone else THRESHOLDS.min_bias,
        tolerated=0.0 if are_followed or is_alone else distance,
    )


def tolerated_bias(estimates: Mapping[str, ProfileEstimate]) -> float:
    """Return by how much federated averaging's contours may be off, in pixels: a sixth of the middle radius.

    Of two radii it is the smaller one, so that a site that lies cannot have the other's bias tolerated. It is 1.5
    pixels, as of objects with a radius of 9, where no site says how large its objects are.

    Args:
        estimates: of every site.
    """
    measured = [one for one in estimates.values() if one.is_known and math.isfinite(one.radius)]
    radii = [one.radius / one.unit for one in measured]
    if not radii:
        return THRESHOLDS.min_bias
    middle = min(radii) if _votes(measured) <= _OF_TWO else _middle(radii, measured)
    return max(THRESHOLDS.tolerated_fraction * middle, THRESHOLDS.min_bias_of_others)


def _votes(estimates: Iterable[ProfileEstimate]) -> float:
    return math.fsum(one.votes for one in estimates)


def _are_of_one_site(known: Sequence[ProfileEstimate]) -> bool:
    """Whether these are of one site, whole or in groups; none are, too."""
    return _votes(known) <= _OF_ONE


def _middle(values: Sequence[float], estimates: Sequence[ProfileEstimate]) -> float:
    return middle(values, [one.votes for one in estimates])


def image_fedavg_boundary(estimates: Mapping[str, ProfileEstimate]) -> FedAvgBoundary | None:
    """Return where federated averaging's contours lie by the known biases, in pixels from the image boundary."""
    known = {site: one for site, one in estimates.items() if one.is_known}
    votes = {site: one.votes for site, one in known.items()}
    return boundary_of_claims({site: one.bias / one.unit for site, one in known.items()}, claimed_samples(known), votes)


def claimed_samples(estimates: Mapping[str, ProfileEstimate]) -> dict[str, float]:
    """Return the numbers of samples by which federated averaging weighs sites; those of patients if one is missing."""
    have_all = all(one.samples > 0 for one in estimates.values())
    return {site: float(one.samples if have_all else one.patients) for site, one in estimates.items()}
