"""The boundary biases of sites from their images: what sites and server do, one after the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ....transforms.array_types import Floats
from .alignment import Alignment, Template, align
from .curves import LEVELS, site_curve
from .decision import ProfileEstimate
from .interval import half_width, standard_error
from .object_size import mean_radius
from .scales import ProfileCase, curve_at_scale, num_halvings


@dataclass(frozen=True)
class MeasuredCurves:
    """The curves of one class at one site, at one scale.

    Attributes:
        curves: of each case that has one, ``(N, 97)``; they stay at the site.
        patients: of each of them, ``N``.
        places: of each of them among the cases, ``N``.
    """

    curves: Floats
    patients: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def num_patients(self) -> int:
        """Patients behind the curves."""
        return len(set(self.patients))


@dataclass(frozen=True)
class SiteCurves:
    """What leaves a site of its curves at one scale.

    Attributes:
        curves: S_k of each class, ``(C, 97)``, NaN of a class without one.
        patients: behind each of them, ``C``.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
        noise: of each class the standard deviation of the noise in each cosine of its curve
            (:mod:`.noisy_curves`); empty for a site that does not hide its patients.
        radii: mean radius of the objects of each class, as the unit; empty where nobody has said it.
    """

    curves: Floats
    patients: tuple[int, ...]
    unit: float
    noise: tuple[float, ...] = ()
    radii: tuple[float, ...] = ()

    @classmethod
    def of(cls, measured: Sequence[MeasuredCurves | None], unit: float, radii: Sequence[float] = ()) -> "SiteCurves":
        """Make them of the curves of each class, None for a class without any, and the radii of its objects."""
        absent = np.full(len(LEVELS), np.nan)
        return cls(
            np.stack([absent if one is None else site_curve(one.curves) for one in measured]),
            tuple(0 if one is None else one.num_patients for one in measured),
            unit,
            radii=tuple(radii),
        )

    def moved(self, biases: Sequence[float] | Floats) -> "SiteCurves":
        """Return what they would be with contours moved inward by a bias of each class, as moved contours move curves.

        Levels beyond the ends have the value there.
        """
        if not np.any(biases):
            return self
        curves = [
            np.interp(LEVELS - bias / self.unit, LEVELS, curve) for bias, curve in zip(biases, self.curves, strict=True)
        ]
        return replace(self, curves=np.stack(curves))

    def has(self, index: int) -> bool:
        """Return whether a class, counted from 0, has a curve."""
        return self.patients[index] > 0 and bool(np.isfinite(self.curves[index]).any())


class ProfileSites(Protocol):
    """The sites of an estimate, here or far away: they measure curves, and how certain the biases are."""

    def coarsest(self) -> int:
        """Return how often the pixel size of the first scale is halved until it is the images' own."""

    def curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> Mapping[str, SiteCurves]:
        """Return the curves of every site that answers.

        Args:
            halvings: of the scale.
            biases: by site and class what was found so far, in millimetres, pixels without spacing; no site is missing
                but those that have not answered before.
        """

    def standard_errors(
        self, biases: Mapping[str, Sequence[float]], templates: Mapping[str, Sequence[Template | None]]
    ) -> Mapping[str, Sequence[float]]:
        """Return by site and class the standard error of the bias at the last scale, in pixels.

        Args:
            biases: as above, without those of the last scale.
            templates: by site and class the template of the others, None of a site alone.
        """


def estimate_profiles(sites: ProfileSites, num_classes: int) -> tuple[dict[str, ProfileEstimate], ...]:
    """Estimate the boundary bias of each class at each site, coarse scale first.

    Each site's contours are moved by what is found so far before the next scale is measured. A site without curves at
    the last scale has no estimate, and the others go on.

    Args:
        sites: measure.
        num_classes: number of foreground classes C.

    Returns:
        Of each class by site the estimates of those that answered.
    """
    biases: dict[str, list[float]] = {}
    for halvings in range(sites.coarsest(), 0, -1):
        measured = sites.curves(halvings, biases)
        biases = _moved(biases, measured, _alignments(measured, num_classes), num_classes)
    measured = sites.curves(0, biases)
    alignments = _alignments(measured, num_classes)
    templates: dict[str, list[Template | None]] = {site: [None] * num_classes for site in measured}
    for index, (names, alignment) in alignments.items():
        for site, template in zip(names, alignment.templates, strict=True):
            templates[site][index] = template
    errors = sites.standard_errors(biases, templates)
    biases = _moved(biases, measured, alignments, num_classes)
    result = tuple({site: ProfileEstimate.absent() for site in measured} for _ in range(num_classes))
    for index, (names, alignment) in alignments.items():
        for place, site in enumerate(names):
            error = errors[site][index] if site in errors else np.inf
            result[index][site] = _combined(biases[site][index], measured[site], index, alignment, place, error)
    return result


def estimate_from_images(
    sites: Mapping[str, Sequence[ProfileCase]], label: int, *, seed: int
) -> dict[str, ProfileEstimate]:
    """Estimate the boundary bias of a class at each site from cases that are here.

    Args:
        sites: the cases of each.
        label: the class.
        seed: decides the draws of patients.

    Raises:
        ValueError: when an image is not finite.
    """
    some = {site: sites[site] for site in sorted(sites) if sites[site]}
    absent = {site: ProfileEstimate.absent() for site in sites}
    if not some:
        return absent
    (estimates,) = estimate_profiles(_CasesHere(some, label, seed), 1)
    return absent | {site: replace(one, samples=len(sites[site])) for site, one in estimates.items()}


def measure_curves(
    cases: Sequence[ProfileCase], label: int, *, factor: int = 1, bias: float = 0.0
) -> MeasuredCurves | None:
    """Measure a site's curves; see :func:`.scales.curve_at_scale`.

    Returns:
        None where no case has a curve.
    """
    measured = [curve_at_scale(case, label, factor=factor, bias=bias) for case in cases]
    known = {place: curve for place, curve in enumerate(measured) if curve is not None}
    if not known:
        return None
    return MeasuredCurves(np.stack(list(known.values())), tuple(cases[place].patient for place in known), tuple(known))


def measure_site(
    cases: Sequence[ProfileCase], labels: Sequence[int], *, halvings: int, biases: Sequence[float]
) -> SiteCurves:
    """Measure what leaves a site of its curves at a scale.

    Args:
        cases: of the site, at least one.
        labels: the classes.
        halvings: of the pixel size until it is the images' own.
        biases: of each class what was found so far.
    """
    measured = [
        measure_curves(cases, label, factor=2**halvings, bias=bias) for label, bias in zip(labels, biases, strict=True)
    ]
    radii = [] if halvings else [mean_radius(cases, label) for label in labels]
    return SiteCurves.of(measured, pixel_of_scale(cases, halvings), radii)


def pixel_of_scale(cases: Sequence[ProfileCase], halvings: int) -> float:
    """Return the size of a pixel of a scale in millimetres, in pixels without spacing; of the middle case."""
    return float(2**halvings * np.median([case.unit for case in cases]))


def site_standard_error(measured: MeasuredCurves | None, template: Template | None, *, seed: int) -> tuple[float, int]:
    """Return the standard error of a site's bias at the last scale, in pixels, and the patients behind it.

    It is infinite where the site has no curve.

    Args:
        measured: the curves of a class, with contours moved by what was found at coarser scales.
        template: of the other sites; None of a site alone.
        seed: decides the draws of patients.
    """
    if measured is None:
        return np.inf, 0
    return standard_error(measured.curves, measured.patients, template, seed=seed), measured.num_patients


@dataclass(frozen=True)
class _CasesHere:
    """Sites whose cases are here, and one class of them."""

    sites: Mapping[str, Sequence[ProfileCase]]
    label: int
    seed: int

    def coarsest(self) -> int:
        return num_halvings([case for cases in self.sites.values() for case in cases])

    def curves(self, halvings: int, biases: Mapping[str, Sequence[float]]) -> dict[str, SiteCurves]:
        return {
            site: measure_site(cases, [self.label], halvings=halvings, biases=biases.get(site, (0.0,)))
            for site, cases in self.sites.items()
        }

    def standard_errors(
        self, biases: Mapping[str, Sequence[float]], templates: Mapping[str, Sequence[Template | None]]
    ) -> dict[str, list[float]]:
        measured = {
            site: measure_curves(cases, self.label, bias=biases.get(site, (0.0,))[0])
            for site, cases in self.sites.items()
        }
        return {
            site: [site_standard_error(curves, templates[site][0], seed=self.seed)[0]]
            for site, curves in measured.items()
        }


def _alignments(measured: Mapping[str, SiteCurves], num_classes: int) -> dict[int, tuple[list[str], Alignment]]:
    """By class the sites with a curve, and their alignment; classes without any are absent."""
    result = {}
    for index in range(num_classes):
        if names := [site for site in sorted(measured) if measured[site].has(index)]:
            result[index] = names, align(np.stack([measured[site].curves[index] for site in names]))
    return result


def _moved(
    biases: Mapping[str, Sequence[float]],
    measured: Mapping[str, SiteCurves],
    alignments: Mapping[int, tuple[Sequence[str], Alignment]],
    num_classes: int,
) -> dict[str, list[float]]:
    """The biases with what a scale adds."""
    result = {site: list(biases.get(site, [0.0] * num_classes)) for site in {**biases, **measured}}
    for index, (names, alignment) in alignments.items():
        for place, site in enumerate(names):
            result[site][index] += float(alignment.biases[place]) * measured[site].unit
    return result


def _combined(
    bias: float, curves: SiteCurves, index: int, alignment: Alignment, place: int, standard_error: float
) -> ProfileEstimate:
    """What the server knows of a class at a site once that has sent its standard error."""
    patients, unit = curves.patients[index], curves.unit
    is_alone = alignment.templates[place] is None
    return ProfileEstimate(
        patients,
        bias,
        standard_error,
        half_width(standard_error, patients, is_alone=is_alone) * unit,
        unit,
        alignment.prominence,
        float(alignment.correlations[place]),
        curves.radii[index] if curves.radii else math.nan,
    )
