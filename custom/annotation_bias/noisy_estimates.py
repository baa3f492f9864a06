"""Offset and completeness of a site that hides single patients: from bounded means and sums with noise on them.

A median cannot be given noise at a small price: one patient may move it far. In its place stands the mean of
offsets that are cut to a bound, and for its spread the mean difference of patients in pairs. What noise adds is in the
interval.
"""

import math
from collections.abc import Sequence

import numpy as np

from ..outbound.private_statistics import SampleValues
from .boundary_bias import CaseOffset
from .cases import PredictedCase
from .detections import case_detections
from .estimate import INTERVAL_DEVIATIONS, Estimate
from .noisy_fields import ANNOTATED, MATCHED, OFFSET_DIFFERENCE, OFFSET_MEAN, PREDICTED
from .thresholds import THRESHOLDS

# Two numbers of a normal distribution differ by 2/√π standard deviations.
_OF_DIFFERENCE = math.sqrt(math.pi) / 2


def offset_samples(offsets: Sequence[Sequence[tuple[PredictedCase, CaseOffset]]]) -> dict[str, SampleValues]:
    """Return what the mean offset and the mean difference are made of, in pixels; it stays at the site.

    Args:
        offsets: of each class, the cases that have one.
    """
    units = sorted({case.unit for of_class in offsets for case, _ in of_class})
    means = np.full((len(units), len(offsets)), np.nan)
    pairs = np.full((len(units) // 2, len(offsets)), np.nan)
    for column, of_class in enumerate(offsets):
        result: dict[str, list[float]] = {}
        for case, offset in of_class:
            pixel = 1.0 if case.spacing is None else float(np.mean(case.spacing))
            result.setdefault(case.unit, []).append(offset.offset / pixel)
        known = [float(np.mean(result[unit])) for unit in units if unit in result]
        means[[unit in result for unit in units], column] = known
        differences = np.abs(np.diff(np.reshape(known[: len(known) // 2 * 2], (-1, 2)), axis=1))[:, 0]
        pairs[: len(differences), column] = differences
    return {
        OFFSET_MEAN: SampleValues.of(means, units, is_mean=True, is_signed=True),
        # A patient is in one pair at most.
        OFFSET_DIFFERENCE: SampleValues.of(pairs, range(len(pairs)), is_mean=True),
    }


def object_samples(cases: Sequence[PredictedCase], num_classes: int) -> dict[str, SampleValues]:
    """Return what numbers of objects are the sums of, patient by patient; it stays at the site.

    All predicted objects count: how sure one must be to count hangs on all patients
    (:func:`fedannot.custom.annotation_bias.detections.completeness_of`), so that one could change the numbers of the
    others.

    Args:
        cases: of the site.
        num_classes: number of foreground classes C.
    """
    units = sorted({case.unit for case in cases})
    sums = np.zeros((3, len(units), num_classes))
    for case in cases:
        for label in range(1, num_classes + 1):
            result = case_detections(case, label)
            counted = (len(result.found), result.num_predicted, result.num_annotated)
            sums[:, units.index(case.unit), label - 1] += counted
    return {
        name: SampleValues.of(values, units, is_mean=False)
        for name, values in zip((MATCHED, PREDICTED, ANNOTATED), sums, strict=True)
    }


def noisy_offset(
    patients: int, mean: float, mean_noise: float, difference: float, difference_noise: float, *, pixel: float
) -> Estimate:
    """Return a site's offset, with an interval for patients and noise together.

    The standard deviation between patients is √π/2 of their mean difference; it is taken to be larger by one deviation
    of the noise in that. Injected errors cannot be tried on such figures: an error δ would be distinguished from none
    with an AUROC of Φ(δ / √2 s) where patients spread by s, and is taken to show in full.

    Args:
        patients: behind it.
        mean: the noisy mean offset in pixels.
        mean_noise: standard deviation of the noise in it.
        difference: the noisy mean difference of two patients.
        difference_noise: standard deviation of the noise in that.
        pixel: size of a pixel in the unit of the result.
    """
    if not (patients > 1 and all(map(math.isfinite, (mean, mean_noise, difference, difference_noise)))):
        return Estimate.unknown(patients)
    spread = _OF_DIFFERENCE * (max(difference, 0.0) + difference_noise)
    half = INTERVAL_DEVIATIONS * math.hypot(spread / math.sqrt(patients), mean_noise)
    aurocs = [
        0.5 * (1 + math.erf(known / (2 * spread))) if spread > 0 else 1.0
        for known in THRESHOLDS.known_offsets_with_noise
    ]
    value, low, high = (number * pixel for number in (mean, mean - half, mean + half))
    return Estimate(patients, value, low, high, slope=1.0, auroc=sum(aurocs) / len(aurocs))


def noisy_completeness(patients: int, sums: tuple[float, float, float], noises: tuple[float, float, float]) -> Estimate:
    """Return the fraction of the predicted objects that are annotated, with an interval for objects and noise together.

    Objects count as independent of each other. An annotated object that the model finds is distinguished from nothing,
    and one that it does not find is distinguished by chance: with the share h that it finds, that is an AUROC of (1 +
    h) / 2. Where it finds an object in several parts each counts, so that h may come out too large.

    Args:
        patients: behind it.
        sums: noisy numbers of objects: predicted and annotated, predicted, annotated.
        noises: standard deviations of the noise in each.
    """
    matched, predicted, annotated = sums
    of_matched, of_predicted, of_annotated = noises
    if not all(map(math.isfinite, (*sums, *noises))) or predicted <= max(
        THRESHOLDS.min_sum_over_noise * of_predicted, 0.0
    ):
        return Estimate.unknown(patients)
    share = min(max(matched / predicted, 0.0), 1.0)
    error = math.sqrt(share * (1 - share) / predicted + (of_matched**2 + (share * of_predicted) ** 2) / predicted**2)
    low, high = (min(max(share + sign * INTERVAL_DEVIATIONS * error, 0.0), 1.0) for sign in (-1, 1))
    is_known = annotated > max(THRESHOLDS.min_sum_over_noise * of_annotated, 0.0)
    result = min(max(matched / annotated, 0.0), 1.0) if is_known else 0.0
    return Estimate(patients, share, low, high, slope=1.0, auroc=(1 + result) / 2)
