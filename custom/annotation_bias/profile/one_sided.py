"""A boundary bias on one side of all objects: the side alone is moved, the opposite one is not.

The boundary profile of each side, by the direction of the contour's normal, is aligned with those of the other sides.
A shift moves opposite sides one forth and one back, a boundary bias moves all alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Floats
from .alignment import SHIFTS, WINDOW, Alignment, Windows, align
from .contours import signed_distance, unit_normals
from .curves import LEVELS, REACH, STEP
from .image_change import gradient_tensor, scaled_channels
from .interval import student_quantile
from .scales import ProfileCase, ScaledCase, num_halvings, scaled_case
from .thresholds import THRESHOLDS

_MIN_PIXELS, _MIN_WEIGHT, _MIN_LEVELS = 12, 6.0, 40
_KERNEL = 0.75
# Draws whose side is farther away have found something else.
_ELSEWHERE = 3.0
_MIN_DRAWS = 50


@dataclass(frozen=True)
class Side:
    """One side of the objects against those between it and the opposite one.

    Attributes:
        axis: that its normals follow.
        is_towards_end: whether they point to higher indices.
        excess: by how much it lies farther out than the sides between, in millimetres, pixels without spacing.
        half_width: of the 90 % interval of the excess.
        opposite: the excess of the opposite side.
        standard_error: the larger one of both excesses, in pixels of the scale.
    """

    axis: int
    is_towards_end: bool
    excess: float
    half_width: float
    opposite: float
    standard_error: float

    def is_alone(self, unit: float) -> bool:
        """Whether this side is moved by itself: beyond its interval and the minimum effect; the opposite is not."""
        return (
            self.standard_error <= THRESHOLDS.max_side_error
            and abs(self.excess) >= max(self.half_width, THRESHOLDS.min_side_bias * unit)
            and THRESHOLDS.least_opposite <= self.opposite / self.excess <= THRESHOLDS.most_opposite
        )


@dataclass(frozen=True)
class OneSidedBias:
    """The sides of a site's annotations of a class.

    Attributes:
        patients: behind them.
        sides: of which images say something.
        unit: size of a pixel of the scale in millimetres, in pixels without spacing.
    """

    patients: int
    sides: tuple[Side, ...]
    unit: float

    @property
    def moved(self) -> Side | None:
        """The side that is moved alone, the one that is moved most; None where none is."""
        alone = [side for side in self.sides if side.is_alone(self.unit)]
        return max(alone, key=lambda side: abs(side.excess), default=None)


def estimate_one_sided(cases: Sequence[ProfileCase], label: int, *, bias: float = 0.0, seed: int) -> OneSidedBias:
    """Compare the sides of a site's annotations, at the coarse scale of the profile; it needs no other site.

    Args:
        cases: of the site, with the same number of axes; nothing leaves it but sides.
        label: the class.
        bias: boundary bias of all sides, in millimetres, pixels without spacing; contours are moved back by it first.
        seed: decides the draws of patients.

    Raises:
        ValueError: when there is no case, or an image is not finite.
    """
    factor = 2 ** num_halvings(cases)
    unit = factor * float(np.median([case.unit for case in cases]))
    scaled = [(case.patient, scaled_case(case, label, factor=factor, bias=bias)) for case in cases]
    table = np.array([side_curves(case) for _, case in scaled])
    usable = np.isfinite(table).any(axis=(1, 2))
    patients = [patient for (patient, _), is_usable in zip(scaled, usable, strict=True) if is_usable]
    num = len(set(patients))
    if num < THRESHOLDS.min_patients_of_sides:
        return OneSidedBias(num, (), unit)
    means = _means(table[usable], patients, seed)
    has_curve = np.isfinite(means[0]).sum(axis=1) >= _MIN_LEVELS
    if not has_curve.all():
        return OneSidedBias(num, (), unit)
    alignment = align(means[0])
    if alignment.prominence < THRESHOLDS.min_prominence:
        return OneSidedBias(num, (), unit)
    return OneSidedBias(num, tuple(_sides(alignment, _places(means[1:], alignment), num, unit)), unit)


def side_curves(case: ScaledCase) -> Floats:
    """Return E(d) of each side ``(2 axes, 97)``: towards the end and the start of each axis, the nearest to the normal.

    As :func:`.curves.case_curve`, of pixels whose normal is nearest to that direction; NaN where they are too few.
    """
    steps = np.asarray(case.spacing) / min(case.spacing)
    result = np.full((2 * len(steps), len(LEVELS)), np.nan)
    if min(np.count_nonzero(case.mask), np.count_nonzero(~case.mask)) < _MIN_PIXELS:
        return result
    tensor = gradient_tensor(scaled_channels(case.image[None].astype(np.float64)), steps)
    field = signed_distance(case.mask, steps)
    normals = unit_normals(field, steps).reshape(len(steps), -1)
    energy = sum(
        (1 if first == second else 2) * values[0] * normals[first] * normals[second]
        for (first, second), values in tensor.items()
    )
    weight = sum(normals[axis] ** 2 for axis in {first for first, _ in tensor})
    distance = field.ravel()
    counts = (np.abs(distance) <= REACH) & _is_clear(case.other, distance, steps)
    nearest = np.abs(normals).argmax(axis=0)
    for axis in range(len(steps)):
        for place, is_side in enumerate((normals[axis] > 0, normals[axis] < 0)):
            pixels = counts & is_side & (nearest == axis)
            result[2 * axis + place] = _curve(distance[pixels], energy[pixels], weight[pixels])
    return result


def _is_clear(other: Booleans, distance: Floats, steps: Floats) -> Booleans:
    """Whether pixels are nearer to the contour than to other classes."""
    if not other.any():
        return np.ones(len(distance), dtype=bool)
    from_others = np.abs(signed_distance(other, steps).ravel())
    clear: Booleans = from_others > np.abs(distance) + 0.5
    return clear & ~other.ravel()


def _curve(distance: Floats, energy: Floats, weight: Floats) -> Floats:
    """√(weighted mean of the energy) around each level, divided by its own mean; NaN where too little is known."""
    total, weighted = np.zeros(len(LEVELS)), np.zeros(len(LEVELS))
    nearest = np.rint((distance + REACH) / STEP).astype(int)
    for step in range(-round(_KERNEL / STEP), round(_KERNEL / STEP) + 1):
        place = nearest + step
        within = (place >= 0) & (place < len(LEVELS))
        part = np.clip(1 - np.abs(distance[within] - LEVELS[place[within]]) / _KERNEL, 0.0, None)
        total += np.bincount(place[within], part * weight[within], len(LEVELS))
        weighted += np.bincount(place[within], part * energy[within], len(LEVELS))
    known = total > _MIN_WEIGHT
    curve = np.where(known, np.sqrt(np.maximum(weighted, 0.0) / np.maximum(total, 1e-9)), np.nan)
    mean = float(curve[known].mean()) if known.any() else 0.0
    return curve / mean if mean > 0 else np.full(len(LEVELS), np.nan)


def _means(table: Floats, patients: Sequence[str], seed: int) -> Floats:
    """Mean curves ``(1 + draws, sides, 97)``: of all cases, then of each draw of patients."""
    names = sorted(set(patients))
    of_patient = np.array([[patient == name for patient in patients] for name in names], dtype=np.float64)
    known = np.isfinite(table)
    sums = np.tensordot(of_patient, np.where(known, table, 0.0), 1)
    counts = np.tensordot(of_patient, known.astype(np.float64), 1)
    num = len(names)
    drawn = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), THRESHOLDS.bootstrap_draws)
    weights = np.concatenate([np.ones((1, num)), drawn])
    total = np.tensordot(weights, counts, 1)
    return np.where(total > 0, np.tensordot(weights, sums, 1) / np.maximum(total, 1e-9), np.nan)


def _places(draws: Floats, alignment: Alignment) -> Floats:
    """The bias of each side in each draw ``(draws, sides)``, in pixels, against the other sides' template."""
    sides = []
    for index, template in enumerate(alignment.templates):
        if template is None:
            raise ValueError("Expected a template of the other sides, but there is none.")
        sides.append(-SHIFTS[Windows.of(draws[:, index], WINDOW).correlations(template).argmax(axis=1)])
    return np.stack(sides, axis=1)


def _sides(alignment: Alignment, places: Floats, patients: int, unit: float) -> Iterator[Side]:
    """The sides whose curves, and those they are compared with, fit the others' and agree between draws."""
    biases = alignment.biases
    is_near = np.abs(places - (biases + alignment.origin)) <= _ELSEWHERE
    is_clear = (alignment.correlations >= THRESHOLDS.min_side_correlation) & (
        is_near.mean(axis=0) >= THRESHOLDS.min_side_agreement
    )
    agreeing = is_near.all(axis=1)
    if not is_clear.all() or np.count_nonzero(agreeing) < _MIN_DRAWS:
        return
    scale = np.sqrt(patients / (patients - 1))
    for index in range(len(biases)):
        between = [other for other in range(len(biases)) if other // 2 != index // 2]
        excess = {side: biases[side] - biases[between].mean() for side in (index, index ^ 1)}
        error = {
            side: float((places[agreeing, side] - places[agreeing][:, between].mean(axis=1)).std() * scale)
            for side in (index, index ^ 1)
        }
        width = student_quantile(patients) * float(np.hypot(error[index], THRESHOLDS.min_side_error))
        yield Side(
            axis=index // 2,
            is_towards_end=index % 2 == 0,
            excess=float(excess[index] * unit),
            half_width=width * unit,
            opposite=float(excess[index ^ 1] * unit),
            standard_error=max(error.values()),
        )
