"""The boundary biases of sites from their images: what sites and server do, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Floats
from .alignment import Alignment, align
from .curves import site_curve
from .decision import ProfileEstimate
from .interval import ProfileInterval, profile_interval
from .scales import ProfileCase, curve_at_scale, scale_factors


@dataclass(frozen=True)
class MeasuredCurves:
    """The curves of one class at one site, at one scale.

    Attributes:
        curves: of each case that has one, ``(N, 97)``; they stay at the site.
        patients: of each of them, ``N``.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
    """

    curves: Floats
    patients: tuple[str, ...]
    unit: float

    @property
    def num_patients(self) -> int:
        """Patients behind the curves."""
        return len(set(self.patients))


def measure_curves(
    cases: Sequence[ProfileCase], label: int, *, factor: int = 1, bias: float = 0.0
) -> MeasuredCurves | None:
    """Measure a site's curves; see :func:`.scales.curve_at_scale`.

    Returns:
        None where no case has a curve.
    """
    measured = [(case, curve_at_scale(case, label, factor=factor, bias=bias)) for case in cases]
    known = [(case, curve) for case, curve in measured if curve is not None]
    if not known:
        return None
    return MeasuredCurves(
        np.stack([curve for _, curve in known]),
        tuple(case.patient for case, _ in known),
        factor * float(np.median([case.unit for case, _ in known])),
    )


def estimate_from_images(
    sites: Mapping[str, Sequence[ProfileCase]], label: int, *, seed: int
) -> dict[str, ProfileEstimate]:
    """Estimate the boundary bias of a class at each site, coarse scale first.

    Each site's contours are moved by what is found so far before the next scale is measured. A site without curves is
    absent and the others go on.

    Args:
        sites: the cases of each.
        label: the class.
        seed: decides the draws of patients.

    Raises:
        ValueError: when an image is not finite.
    """
    some = {site: cases for site, cases in sites.items() if cases}
    estimates = {site: ProfileEstimate.absent() for site in sites}
    if not some:
        return estimates
    biases = dict.fromkeys(some, 0.0)
    for factor in scale_factors([case for cases in some.values() for case in cases]):
        measured = {
            site: curves
            for site in sorted(some)
            if (curves := measure_curves(some[site], label, factor=factor, bias=biases[site])) is not None
        }
        if not measured:
            return estimates
        alignment = align(np.stack([site_curve(measured[site].curves) for site in measured]))
        for index, (site, curves) in enumerate(measured.items()):
            biases[site] += float(alignment.biases[index]) * curves.unit
            interval = profile_interval(curves.curves, curves.patients, alignment.templates[index], seed=seed)
            estimates[site] = combined(biases[site], curves.num_patients, curves.unit, interval, alignment, index)
    return estimates


def combined(
    bias: float, patients: int, unit: float, interval: ProfileInterval, alignment: Alignment, index: int
) -> ProfileEstimate:
    """Return what the server knows of a site once it has sent its standard error.

    Args:
        bias: in millimetres, pixels without spacing, of all scales together.
        patients: behind the site's curve.
        unit: of the scale, as the bias.
        interval: of the site.
        alignment: of all sites.
        index: of the site there.
    """
    return ProfileEstimate(
        patients,
        bias,
        interval.standard_error,
        interval.half_width * unit,
        unit,
        alignment.prominence,
        float(alignment.correlations[index]),
    )
