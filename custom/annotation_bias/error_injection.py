"""What a site's own estimates make of errors that it puts into a copy of its annotations, in memory."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import ndimage, optimize, stats

from ...transforms.array_types import Floats, Labels
from ...transforms.connected_lesions import label_lesions
from .boundary_bias import case_offset, mask_offset
from .cases import PredictedCase
from .confusion import are_of_known_classes, confused_share, doubt_of_labels
from .detections import case_detections, completeness_of
from .estimate import Estimate
from .thresholds import THRESHOLDS

_TRIED_PLACES = 20


@dataclass(frozen=True)
class Calibration:
    """How a kind of error shows at a site; it may leave the site with the estimate.

    Attributes:
        slope: estimated error per injected one; NaN where nothing could be tried.
        auroc: how well cases with the error are distinguished from the same cases without, 0.5 for not at all; NaN as
            above.
    """

    slope: float
    auroc: float

    def of(self, estimate: Estimate) -> Estimate:
        """Return an estimate with this calibration."""
        return replace(estimate, slope=self.slope, auroc=self.auroc)


UNTRIED = Calibration(float("nan"), float("nan"))


def calibrate_offset(cases: Sequence[PredictedCase], label: int, *, seed: int, unit_offset: float = 1.0) -> Calibration:
    """Draw contours of some patients too large and too small, and see what the estimate makes of it.

    They are a fifth of the patients, at least ten.

    Contours move by −2, −1, 1 and 2 units with half a unit of randomness (contour evolution). Cases in which no object
    matches do not count. The slope is that of the estimated offsets on those between the masks, case by case; cases
    with errors are distinguished from those without by the estimate in the direction of the error.

    Args:
        cases: of the site.
        label: the class.
        seed: decides patients and contours.
        unit_offset: one unit, in pixels in the plane.
    """
    # MONAI takes 2 s, and only a site that calibrates itself needs its noise; also below.
    from ...transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

    chosen = [case for case in _some_patients(cases, seed) if (case.annotation == label).any()]
    before = [case_offset(case, label) for case in chosen]
    evolutions = {
        step: ContourEvolution(
            step * unit_offset, unit_offset / 2, reference_size=None, smallest_object=0.0
        ).set_random_state(seed=seed)
        for step in THRESHOLDS.injected_offsets
    }
    injected, seen = [], []
    scores: dict[float, list[tuple[float, float]]] = {step: [] for step in THRESHOLDS.injected_offsets}
    for case, without in zip(chosen, before, strict=True):
        for step, evolution in evolutions.items():
            changed = _with_class(case, label, evolution)
            moved = mask_offset(changed.annotated_as(label), case.annotated_as(label), case.spacing)
            after = case_offset(changed, label)
            if moved is None or after is None or without is None:
                continue
            injected.append(moved.offset)
            seen.append(after.offset - without.offset)
            direction = math.copysign(1.0, step * unit_offset)
            scores[step].append((direction * after.offset, direction * without.offset))
    aurocs = [_auroc(*np.array(of_step).reshape(-1, 2).T) for of_step in scores.values()]
    return Calibration(_slope(injected, seen), float(np.mean(aurocs))) if injected else UNTRIED


def calibrate_completeness(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Calibration:
    """Take half of the annotated objects of a fifth of the patients away, and see by how much completeness falls.

    They are half of all together, not of each case: who leaves most out annotates one object in a case, if any. Which
    half it is decides much where there are few, so that several are drawn.

    The slope is the fall of completeness over that of the number of annotated objects, among those that were found, of
    all cases together. An object that is left out shows if the model sees it: annotated objects are distinguished from
    the same shapes elsewhere, where nothing is annotated, by the largest probability in them.

    Args:
        cases: of the site.
        label: the class.
        seed: decides patients and objects.
    """
    chosen = [case for case in _some_patients(cases, seed) if (case.annotation == label).any()]
    before = [case_detections(case, label) for case in chosen]
    complete, given = completeness_of(before), sum(item.num_annotated for item in before)
    if not chosen or math.isnan(complete):
        return UNTRIED
    generator = np.random.default_rng(seed)
    injected, seen = [], []
    for _ in range(THRESHOLDS.draws_of_missing):
        after = [case_detections(case, label) for case in _without_half(chosen, label, generator)]
        injected.append(complete * (1 - sum(item.num_annotated for item in after) / given))
        seen.append(complete - completeness_of(after))
    pairs = [pair for case in chosen for pair in _inside_and_elsewhere(case, label, generator)]
    inside, elsewhere = np.array(pairs).reshape(-1, 2).T
    return Calibration(_slope(injected, seen), _auroc(inside, elsewhere))


def calibrate_confusion(probabilities: Floats, labels: Labels, *, seed: int) -> Calibration:
    """Mislabel about a fifth of the samples, any class as any other, and see by how many more look like another class.

    Samples with a wrong label are distinguished from the others by how much less probable their label is than the most
    probable other one. Several fifths are drawn. Samples of classes that the model does not know are left out, and with
    fewer than ten nothing is tried.

    Codes that a site has exchanged are first given the meaning that agrees best with the model: it tells classes apart
    there as well as with the right codes.

    Args:
        probabilities: predicted, ``(N, C)``.
        labels: given, ``(N,)``.
        seed: decides samples and labels.
    """
    from ...transforms.noise.class_noise import ClassNoise  # noqa: PLC0415
    from ...transforms.noise.mislabel import Mislabel  # noqa: PLC0415

    known = are_of_known_classes(probabilities, labels)
    probabilities, labels = probabilities[known], labels[known]
    if len(labels) < THRESHOLDS.min_injected_samples:
        return UNTRIED
    labels, num_classes = _with_agreeing_codes(probabilities, labels), probabilities.shape[1]
    before = confused_share(probabilities, labels)
    mislabel = Mislabel(ClassNoise("symmetric", THRESHOLDS.injected_label_noise), num_classes).set_random_state(
        seed=seed
    )
    injected, seen, aurocs = [], [], []
    for given in (mislabel(labels) for _ in range(THRESHOLDS.draws_of_labels)):
        wrong, doubt = given != labels, doubt_of_labels(probabilities, given)
        if wrong.any() and not wrong.all():
            injected.append(float(wrong.mean()))
            seen.append(confused_share(probabilities, given) - before)
            aurocs.append(_auroc(doubt[wrong], doubt[~wrong]))
    # Of the labels that were wrong before, one in so many as there are other classes has become right.
    rise = 1 - before * num_classes / (num_classes - 1)
    slope = _slope(injected, seen) / rise if rise >= THRESHOLDS.min_rise_of_disagreement else float("nan")
    return Calibration(slope, float(np.mean(aurocs)))


def _with_agreeing_codes(probabilities: Floats, labels: Labels) -> Labels:
    """Labels with their codes exchanged such that as many as can be are what samples seem to be."""
    num_classes = probabilities.shape[1]
    alike = np.zeros((num_classes, num_classes))
    np.add.at(alike, (labels, probabilities.argmax(axis=1)), 1)
    return np.asarray(optimize.linear_sum_assignment(alike, maximize=True)[1][labels], dtype=np.int64)


def _some_patients(cases: Sequence[PredictedCase], seed: int) -> list[PredictedCase]:
    """The cases of a fifth of the patients, at least of ten."""
    units = sorted({case.unit for case in cases})
    count = min(len(units), max(THRESHOLDS.min_injected_patients, round(THRESHOLDS.injected_fraction * len(units))))
    drawn = {units[index] for index in np.random.default_rng(seed).permutation(len(units))[:count]}
    return [case for case in cases if case.unit in drawn]


def _with_class(case: PredictedCase, label: int, noise: Callable[[Any], Any]) -> PredictedCase:
    """A case with another annotation of one class; other classes keep their pixels."""
    changed = np.asarray(noise((case.annotation == label).astype(np.uint8))) != 0
    others = np.where(case.annotation == label, 0, case.annotation)
    return case.with_annotation(np.where((others == 0) & changed, label, others).astype(case.annotation.dtype))


def _without_half(
    cases: Sequence[PredictedCase], label: int, generator: np.random.Generator
) -> Iterator[PredictedCase]:
    """Yield the cases without half of the objects of a class, drawn from all of them together."""
    numbered = [label_lesions(case.annotated_as(label)) for case in cases]
    objects = [(index, number) for index, (_, count) in enumerate(numbered) for number in range(1, count + 1)]
    drawn = generator.permutation(len(objects))[: len(objects) // 2]
    gone = {objects[index] for index in drawn}
    for index, (case, (numbers, count)) in enumerate(zip(cases, numbered, strict=True)):
        left_out = [number for number in range(1, count + 1) if (index, number) in gone]
        yield case.with_annotation(np.where(np.isin(numbers, left_out), 0, case.annotation))


def _inside_and_elsewhere(case: PredictedCase, label: int, generator: np.random.Generator) -> list[tuple[float, float]]:
    """Largest probability in each annotated object, and in its shape at a random place where nothing is annotated.

    Objects for which no such place is found are left out.
    """
    probability, objects = case.probabilities[label], label_lesions(case.annotated_as(label))[0]
    result = []
    for number, box in enumerate(ndimage.find_objects(objects), start=1):
        shape = objects[box] == number
        room = np.array(objects.shape) - shape.shape
        for _ in range(_TRIED_PLACES):
            start = generator.integers(room + 1)
            place = tuple(slice(at, at + length) for at, length in zip(start, shape.shape, strict=True))
            if not case.annotation[place][shape].any():
                result.append((float(probability[box][shape].max()), float(probability[place][shape].max())))
                break
    return result


def _slope(injected: Sequence[float], seen: Sequence[float]) -> float:
    """Slope of a line through zero."""
    x, y = np.asarray(injected), np.asarray(seen)
    return float((x * y).sum() / (x * x).sum()) if (x != 0).any() else float("nan")


def _auroc(wrong: Floats, right: Floats) -> float:
    """Probability that a case with the error scores higher than one without, ties by half (AUROC)."""
    if not len(wrong) or not len(right):
        return 0.5
    return float(stats.mannwhitneyu(wrong, right).statistic) / (len(wrong) * len(right))
