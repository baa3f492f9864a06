"""What a site of `auto` answers of its boundary profile: curves over patients, and how certain its biases are."""

import math
from collections.abc import Sequence

from ...annotation_bias.estimate import three_digits
from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.profile.estimation import (
    MeasuredCurves,
    SiteCurves,
    measure_curves,
    pixel_of_scale,
    site_standard_error,
)
from ...annotation_bias.profile.noisy_curves import patient_vectors
from ...annotation_bias.profile.object_size import mean_radius
from ...annotation_bias.profile.scales import ProfileCase, num_halvings, profile_cases
from ...data.site_data import SiteData
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import PatientVectors
from ...outbound.values import OutboundValues
from .outbound import (
    GRID_HALVINGS,
    GRID_MICROMETRES,
    PROFILE_CURVE,
    PROFILE_ERROR,
    PROFILE_ERROR_PATIENTS,
    PROFILE_HALVINGS,
    PROFILE_PATIENTS,
    PROFILE_RADIUS,
    PROFILE_UNIT,
    PROFILE_VECTOR,
)
from .profile_request import ProfileRequest

_MICROMETRES = 1000


def given_cases(training: SiteData, reviewed: SiteData | None) -> list[ProfileCase]:
    """Return the samples as the site has annotated them; what a review has made of some is no annotation of the site's.

    Args:
        training: with the annotations in use.
        reviewed: cases whose annotations somebody has reviewed, None where there are none.
    """
    given = GivenAnnotations.of(training.cases, () if reviewed is None else reviewed.cases).own()
    return profile_cases(given, training.description)


def profile_curves(
    cases: Sequence[ProfileCase], request: ProfileRequest, num_classes: int, *, has_fixed_grid: bool = False
) -> Answer:
    """Return the site's curves of each class at the asked scale, with numbers of patients; they leave the site.

    Three digits of each number; nothing of a class with fewer patients than the minimum count, nor where moved contours
    leave out a case.

    Of a site whose statistics are private the curves leave as noisy vectors over patients, at a scale that the server
    names: every such answer spends, and the first question, for the scale, is to cost nothing. Its scale and the size
    of its pixels then have to follow from no case.

    Args:
        cases: of the site.
        request: the server's.
        num_classes: number of foreground classes C.
        has_fixed_grid: whether pixels and their size follow from ``data.yaml`` alone.
    """
    patients = len({case.patient for case in cases})
    labels, biases = range(1, num_classes + 1), request.biases_of(num_classes)
    if patients < MINIMUM_CASES:
        return Answer(
            _curve_fields(patients, None, SiteCurves.of([None] * num_classes, math.nan, [math.nan] * num_classes))
        )
    own = num_halvings(cases)
    halvings = own if request.halvings is None else request.halvings
    measured = [
        measure_curves(cases, label, factor=2**halvings, bias=bias) for label, bias in zip(labels, biases, strict=True)
    ]
    may_leave = [
        one is not None and one.num_patients >= MINIMUM_CASES and _are_all_there(one, cases, label, halvings, bias)
        for one, label, bias in zip(measured, labels, biases, strict=True)
    ]
    left = [one if is_enough else None for one, is_enough in zip(measured, may_leave, strict=True)]
    unit = pixel_of_scale(cases, halvings)
    # At one scale, and of the contours as they are given: no two answers differ by it.
    radii = [
        mean_radius(cases, label) if halvings == 0 and one is not None else math.nan
        for label, one in zip(labels, left, strict=True)
    ]
    fields = _curve_fields(patients, halvings, SiteCurves.of(left, unit, radii))
    if not has_fixed_grid:
        return Answer(fields)
    fields |= {GRID_HALVINGS: own, GRID_MICROMETRES: round(_MICROMETRES * unit)}
    return Answer(fields, {} if request.halvings is None else _samples(measured, cases))


def profile_errors(cases: Sequence[ProfileCase], request: ProfileRequest, num_classes: int, *, seed: int) -> Answer:
    """Return the standard error of each class's boundary bias, with numbers of patients; they leave the site.

    Args:
        cases: of the site.
        request: the server's, with templates.
        num_classes: number of foreground classes.
        seed: decides the draws of patients.
    """
    errors, counts = [], []
    of_classes = zip(request.biases_of(num_classes), request.templates_of(num_classes), strict=True)
    for label, (bias, template) in enumerate(of_classes, start=1):
        measured = measure_curves(cases, label, bias=bias)
        error, patients = site_standard_error(measured, template, seed=seed)
        is_enough = patients >= MINIMUM_CASES and math.isfinite(error)
        may_leave = measured is not None and is_enough and _are_all_there(measured, cases, label, 0, bias)
        errors.append(three_digits(error) if may_leave else math.nan)
        counts.append(patients if may_leave else 0)
    return Answer({PROFILE_ERROR: errors, PROFILE_ERROR_PATIENTS: counts})


def _are_all_there(moved: MeasuredCurves, cases: Sequence[ProfileCase], label: int, halvings: int, bias: float) -> bool:
    """Whether moved contours leave a curve in the same cases as given ones.

    Else the difference of two answers would be the curve of those whose objects vanish by the server's number.

    Args:
        moved: the curves of contours that were moved by the bias.
        cases: of the site.
        label: the class.
        halvings: of the scale.
        bias: the server's.
    """
    if bias == 0:
        return True
    given = measure_curves(cases, label, factor=2**halvings)
    return given is not None and moved.places == given.places


def _samples(measured: Sequence[MeasuredCurves | None], cases: Sequence[ProfileCase]) -> dict[str, PatientVectors]:
    return {PROFILE_VECTOR: patient_vectors(measured, [case.patient for case in cases])}


def _curve_fields(patients: int, halvings: int | None, curves: SiteCurves) -> OutboundValues:
    """The fields of an answer; without a scale where too few patients are behind it."""
    fields: OutboundValues = {
        "num_patients": patients,
        PROFILE_UNIT: curves.unit,
        PROFILE_CURVE: [three_digits(float(value)) for value in curves.curves.ravel()],
        PROFILE_RADIUS: [three_digits(radius) for radius in curves.radii],
        PROFILE_PATIENTS: list(curves.patients),
    }
    return fields if halvings is None else fields | {PROFILE_HALVINGS: halvings}
