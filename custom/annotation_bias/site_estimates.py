"""The channel of a site from its predicted cases, class by class: estimates with intervals over patients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Floats, Indices, Labels
from .bootstrap import Interval, bootstrap_interval, counted_interval, median_interval, ratio_interval
from .boundary_bias import CaseOffset, case_offset
from .cases import PredictedCase
from .confusion import Confusion, ObjectSamples, are_of_known_classes, confident_joint, confused_share
from .detections import case_detections, completeness_of_draws
from .estimate import Estimate
from .protocol import BINS, binned_offset
from .shift import CaseShift, case_shift

# Makes a median absolute deviation the standard deviation of a normal distribution.
_NORMAL_DEVIATION = 1.4826


@dataclass(frozen=True)
class Jitter:
    """The random part of a site's contours of one class, as standard deviations.

    Attributes:
        between_cases: of the offsets of the cases.
        along_contours: along the contours of a case, the median over cases.
    """

    between_cases: Estimate
    along_contours: Estimate


def estimate_offset(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Estimate:
    """Return β, the median offset over the cases that have one; positive where the site draws larger.

    Args:
        cases: of the site.
        label: the class.
        seed: decides the interval.

    Example:
        >>> from fedannot.custom import PredictedCase
        >>> from scipy import ndimage
        >>> inside = ndimage.distance_transform_edt(np.pad(np.ones((40, 40)), 12)) > 2
        >>> wider = ndimage.binary_dilation(inside, iterations=2)
        >>> cases = [PredictedCase(f"patient-{n}", wider, np.stack([~inside, inside]).astype(float)) for n in range(6)]
        >>> round(estimate_offset(cases, 1, seed=0).value, 1)
        2.0
    """
    return median_offset(case_offsets(cases, label), seed=seed)


def case_offsets(cases: Sequence[PredictedCase], label: int) -> list[tuple[PredictedCase, CaseOffset]]:
    """Return the cases that have an offset of a class, with it; they stay at the site."""
    result = ((case, case_offset(case, label)) for case in cases)
    return [(case, offset) for case, offset in result if offset is not None]


def median_offset(offsets: Sequence[tuple[PredictedCase, CaseOffset]], *, seed: int) -> Estimate:
    """Return β of cases whose offsets are known; see :func:`estimate_offset`."""
    return _median([one.offset for _, one in offsets], [case.unit for case, _ in offsets], seed)


def estimate_jitter(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Jitter:
    """Return ρ, between cases and along contours; see :class:`Jitter`."""
    result = case_offsets(cases, label)
    offsets, units = [one for _, one in result], [case.unit for case, _ in result]
    values = np.array([offset.offset for offset in offsets])

    def deviation(chosen: np.ndarray[tuple[int], np.dtype[np.intp]]) -> float:
        drawn = values[chosen]
        return float(_NORMAL_DEVIATION * np.median(np.abs(drawn - np.median(drawn))))

    return Jitter(
        _estimate(units, lambda: bootstrap_interval(units, deviation, seed=seed)),
        _median([_NORMAL_DEVIATION * offset.spread for offset in offsets], units, seed),
    )


def estimate_completeness(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Estimate:
    """Return the fraction of the objects that are annotated.

    It is :func:`fedannot.custom.annotation_bias.detections.completeness_of` all cases.

    Args:
        cases: of the site.
        label: the class.
        seed: decides the interval.

    Example:
        >>> from fedannot.custom import PredictedCase
        >>> real = np.zeros((32, 32))
        >>> real[4:10, 4:10] = real[20:26, 20:26] = 1.0
        >>> annotation = real.astype(np.uint8)
        >>> annotation[20:26, 20:26] = 0
        >>> cases = [PredictedCase(f"patient-{n}", annotation, np.stack([1 - real, real])) for n in range(6)]
        >>> estimate_completeness(cases, 1, seed=0).value
        0.5
    """
    units, result = [case.unit for case in cases], [case_detections(case, label) for case in cases]
    # How sure an object must be to count is drawn again, too.
    return _estimate(
        units, lambda: counted_interval(units, lambda counts: completeness_of_draws(result, counts), seed=seed)
    )


def estimate_spurious(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Estimate:
    """Return the fraction of the annotated objects of which the model sees nothing.

    Args:
        cases: of the site.
        label: the class.
        seed: decides the interval.
    """
    result, units = [case_detections(case, label) for case in cases], [case.unit for case in cases]
    spurious, annotated = [item.num_spurious for item in result], [item.num_annotated for item in result]
    return _estimate(units, lambda: ratio_interval(spurious, annotated, units, seed=seed))


def estimate_confusion(
    probabilities: Floats, labels: Labels, units: Sequence[str], *, seed: int
) -> tuple[Confusion, Estimate]:
    """Return the confusion of classes, and the noise level with its interval.

    Args:
        probabilities: predicted, ``(N, C)``.
        labels: given, ``(N,)``.
        units: patient of each sample.
        seed: decides the interval.

    Raises:
        ValueError: as :func:`fedannot.custom.annotation_bias.confusion.confident_joint`.
    """
    result = confident_joint(probabilities, labels)
    level = bootstrap_interval(
        units, lambda chosen: confident_joint(probabilities[chosen], labels[chosen]).noise_level, seed=seed
    )
    return result, Estimate.of_interval(len(set(units)), level)


def estimate_confused(samples: ObjectSamples, *, seed: int) -> Estimate:
    """Return the fraction of a site's objects that look like another class (:func:`confused_share`).

    Objects that are given a class that the model does not know say nothing, see
    :func:`fedannot.custom.annotation_bias.confusion.are_of_known_classes`.

    Args:
        samples: the objects that a model sees something of.
        seed: decides the interval.
    """
    known = are_of_known_classes(samples.probabilities, samples.labels)
    probabilities, labels = samples.probabilities[known], samples.labels[known]
    units = [samples.units[index] for index in np.flatnonzero(known)]

    def share(chosen: Indices) -> float:
        return confused_share(probabilities[chosen], labels[chosen])

    return _estimate(units, lambda: bootstrap_interval(units, share, seed=seed))


def estimate_shift(
    cases: Sequence[PredictedCase], *, largest: float, seed: int
) -> tuple[tuple[Estimate, ...], Estimate]:
    """Return the median translation along each axis, and the fraction of cases that are mirrored.

    Args:
        cases: of the site, at least one.
        largest: see :func:`fedannot.custom.annotation_bias.shift.case_shift`.
        seed: decides the intervals.
    """
    result: list[tuple[CaseShift, str]] = []
    for case in cases:
        shift = case_shift(case, largest=largest)
        if shift is not None:
            result.append((shift, case.unit))
    units = [unit for _, unit in result]
    translations = tuple(
        _median([shift.translation[axis] for shift, _ in result], units, seed)
        for axis in range(cases[0].annotation.ndim)
    )
    flips, ones = [float(bool(shift.flipped)) for shift, _ in result], [1.0] * len(result)
    return translations, _estimate(units, lambda: ratio_interval(flips, ones, units, seed=seed))


def estimate_protocol(cases: Sequence[PredictedCase], label: int, *, width: float, seed: int) -> dict[str, Estimate]:
    """Return the median offset where objects are thin, in their gaps, and elsewhere: ``thin``, ``gap``, ``plain``.

    Args:
        cases: of the site.
        label: the class.
        width: see :func:`fedannot.custom.annotation_bias.protocol.binned_offset`.
        seed: decides the intervals.
    """
    found = [(binned_offset(case, label, width=width), case.unit) for case in cases]
    result = {}
    for name in BINS:
        values = [(getattr(one, name), unit) for one, unit in found if one is not None]
        known = [(value, unit) for value, unit in values if np.isfinite(value)]
        result[name] = _median([value for value, _ in known], [unit for _, unit in known], seed)
    return result


def _median(values: Sequence[float], units: Sequence[str], seed: int) -> Estimate:
    return _estimate(units, lambda: median_interval(values, units, seed=seed))


def _estimate(units: Sequence[str], interval: Callable[[], Interval]) -> Estimate:
    return Estimate.of_interval(len(set(units)), interval()) if units else Estimate.unknown()
