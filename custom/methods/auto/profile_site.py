"""What a site of `auto` answers of its boundary profile: curves over patients, and how certain its biases are."""

import math
from collections.abc import Sequence

import numpy as np

from ....transforms.array_types import Floats
from ...annotation_bias.estimate import three_digits
from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.profile.curves import LEVELS
from ...annotation_bias.profile.estimation import measure_curves, measure_site, site_standard_error
from ...annotation_bias.profile.scales import ProfileCase, num_halvings, profile_cases
from ...data.site_data import SiteData
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from .outbound import (
    PROFILE_CURVE,
    PROFILE_ERROR,
    PROFILE_ERROR_PATIENTS,
    PROFILE_HALVINGS,
    PROFILE_PATIENTS,
    PROFILE_UNIT,
)
from .profile_request import ProfileRequest


def given_cases(training: SiteData, reviewed: SiteData | None) -> list[ProfileCase]:
    """Return the samples as the site has annotated them; what a review has made of some is no annotation of the site's.

    Args:
        training: with the annotations in use.
        reviewed: cases whose annotations somebody has reviewed, None where there are none.
    """
    return profile_cases(GivenAnnotations.of(training.cases, () if reviewed is None else reviewed.cases).own())


def profile_curves(cases: Sequence[ProfileCase], request: ProfileRequest, num_classes: int) -> Answer:
    """Return the site's curves of each class at the asked scale, with numbers of patients; they leave the site.

    Three digits of each number; nothing of a class with fewer patients than the minimum count, nor where moved contours
    leave out a case.

    Args:
        cases: of the site.
        request: the server's.
        num_classes: number of foreground classes C.
    """
    patients = len({case.patient for case in cases})
    if patients < MINIMUM_CASES:
        return _answer(patients, 0, math.nan, np.full((num_classes, len(LEVELS)), math.nan), [0] * num_classes)
    halvings = num_halvings(cases) if request.halvings is None else request.halvings
    labels, biases = range(1, num_classes + 1), request.biases_of(num_classes)
    measured = measure_site(cases, labels, halvings=halvings, biases=biases)
    enough = [
        count >= MINIMUM_CASES and _are_all_there(cases, label, halvings=halvings, bias=bias)
        for label, bias, count in zip(labels, biases, measured.patients, strict=True)
    ]
    curves = np.where(np.array(enough)[:, np.newaxis], measured.curves, math.nan)
    counts = [count if is_enough else 0 for count, is_enough in zip(measured.patients, enough, strict=True)]
    return _answer(patients, halvings, measured.unit, curves, counts)


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
        error, patients = site_standard_error(cases, label, template, bias=bias, seed=seed)
        may_leave = patients >= MINIMUM_CASES and math.isfinite(error)
        may_leave = may_leave and _are_all_there(cases, label, halvings=0, bias=bias)
        errors.append(three_digits(error) if may_leave else math.nan)
        counts.append(patients if may_leave else 0)
    return Answer({PROFILE_ERROR: errors, PROFILE_ERROR_PATIENTS: counts})


def _are_all_there(cases: Sequence[ProfileCase], label: int, *, halvings: int, bias: float) -> bool:
    """Whether moved contours leave a curve in the same cases as given ones.

    Else the difference of two answers would be the curve of those whose objects vanish by the server's number.
    """
    if bias == 0:
        return True
    factor = 2**halvings
    moved, given = (measure_curves(cases, label, factor=factor, bias=by) for by in (bias, 0.0))
    return moved is not None and given is not None and moved.places == given.places


def _answer(patients: int, halvings: int, unit: float, curves: Floats, counts: list[int]) -> Answer:
    return Answer(
        {
            "num_patients": patients,
            PROFILE_HALVINGS: halvings,
            PROFILE_UNIT: unit,
            PROFILE_CURVE: [three_digits(float(value)) for value in curves.ravel()],
            PROFILE_PATIENTS: counts,
        }
    )
