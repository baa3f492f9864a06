"""What every kind of problem measures of a site's cases, as they are given and with injected errors in copies."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ...transforms.array_types import AnyFloats, Classes, Floats
from ...transforms.ignored_label import IGNORED_LABEL
from ..annotation_bias.predicted_samples import by_network
from ..data.site_data import LoadedCase, SiteData
from ..evaluation.inference import Inference, evaluating
from ..seeding import derive_seed
from .calibration import Calibration, calibrate
from .examined import ExaminedCase, as_samples, as_volume
from .injected_errors import Chance
from .kinds.kind import Kind, Suspicion
from .kinds.registry import KINDS
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class MeasuredKind:
    """One kind of problem at a site.

    Attributes:
        kind: the kind.
        typical: what is typical at the site.
        given: what was measured, case by case.
        calibration: what its scores are worth here.
    """

    kind: Kind[Any]
    typical: Any
    given: tuple[tuple[Suspicion, ...], ...]
    calibration: Calibration

    def score(self, suspicion: Suspicion) -> float:
        """Return how suspect an object or case is, from 0 to 1."""
        return self.kind.score(suspicion, self.typical)

    def is_finding(self, score: float) -> bool:
        """Return whether an object or case with this score is worth a reader's time.

        Nothing is of a kind whose injected errors are not detected at this site.
        """
        probability = self.calibration.probability(score)
        is_likely = probability is None or probability >= THRESHOLDS.min_probability
        return score >= self.kind.threshold and self.calibration.tells and is_likely

    def case_scores(self) -> Floats:
        """Return how suspect every case is."""
        return np.array([_of_case(self.kind, self.typical, found) for found in self.given], dtype=np.float64)


@dataclass(frozen=True)
class MeasuredSite:
    """All that an audit keeps of a site's cases between measuring and reporting; it stays at the site.

    Attributes:
        kinds: in the order of the registry.
        cases: case by case; see :class:`MeasuredCase`.
    """

    kinds: tuple[MeasuredKind, ...]
    cases: tuple["MeasuredCase", ...]

    def case_scores(self) -> Floats:
        """Return how suspect every case is of an error of any kind, 1 − Π(1 − p).

        Kinds count by how well injected errors of them are detected at the site; those that none could be tried of
        count where they are findings, their score by half.
        """
        right = np.ones(len(self.cases))
        for kind in self.kinds:
            scores, auroc = kind.case_scores(), kind.calibration.auroc
            if auroc is None:
                right *= 1 - 0.5 * np.where(scores >= kind.kind.threshold, scores, 0.0)
            else:
                probabilities = np.array([kind.calibration.fitted(float(score)) for score in scores])
                right *= 1 - max(2 * auroc - 1, 0.0) * probabilities
        return 1 - right


@dataclass(frozen=True)
class MeasuredCase:
    """What is kept of one case.

    Attributes:
        disagreement: from 0 to 1, one less the Dice of annotation and prediction, without regard to classes.
        uncertainty: from 0 to 1, mean entropy where anything is annotated or predicted.
        packed: the most probable classes, compressed.
        shape: of them, ``(S, H, W[, D])``.
    """

    disagreement: float
    uncertainty: float
    packed: bytes
    shape: tuple[int, ...]

    @property
    def predicted(self) -> Classes:
        """The most probable classes ``(S, H, W[, D])``."""
        return np.frombuffer(zlib.decompress(self.packed), dtype=np.uint8).reshape(self.shape)


def measured_site(
    data: SiteData, predictor_of: Callable[[LoadedCase], nn.Module], inference: Inference, *, seed: int
) -> MeasuredSite:
    """Measure all cases of a site; see :func:`fedannot.custom.audit.auditing.audit_site`."""
    chosen = _some_patients([case.unit for case in data.cases], seed)
    given: dict[str, list[tuple[Suspicion, ...]]] = {kind.name: [()] * len(data.cases) for kind in KINDS}
    known: dict[str, list[tuple[int, tuple[Suspicion, ...]]]] = {kind.name: [] for kind in KINDS}
    cases: list[MeasuredCase | None] = [None] * len(data.cases)
    for case in examined_cases(data, predictor_of, inference):
        cases[case.index] = _measured_case(case)
        for kind in KINDS:
            given[kind.name][case.index] = tuple(kind.suspicions(case))
            if case.unit in chosen and (wrong := _with_known_error(kind, case, data, seed)) is not None:
                known[kind.name].append((case.index, tuple(kind.suspicions(wrong))))
    measured = [_measured_kind(kind, given[kind.name], known[kind.name], data) for kind in KINDS]
    return MeasuredSite(tuple(measured), tuple(case for case in cases if case is not None))


def examined_cases(
    data: SiteData, predictor_of: Callable[[LoadedCase], nn.Module], inference: Inference
) -> Iterator[ExaminedCase]:
    """Yield the cases with what their networks say of them, those of one network together."""
    for network, indices in by_network(data.cases, predictor_of):
        waiting = list(indices)
        samples: list[AnyFloats] = []
        for batch in inference.batches([data.cases[index] for index in indices]):
            with evaluating(network):
                samples += list(inference.logits(network, batch.images).float().softmax(dim=1).cpu().numpy())
            while waiting and len(samples) >= len(data.cases[waiting[0]].image):
                index = waiting.pop(0)
                count = len(data.cases[index].image)
                yield _examined(index, data.cases[index], np.stack(samples[:count]))
                del samples[:count]


def _examined(index: int, case: LoadedCase, probabilities: AnyFloats) -> ExaminedCase:
    return ExaminedCase(
        index,
        case.unit,
        case.label.numpy(),
        probabilities,
        case.image.numpy(),
        case.spacing,
        case.slice_spacing,
    )


def _some_patients(units: Sequence[str], seed: int) -> frozenset[str]:
    """A fifth of the patients, at least ten."""
    patients = sorted(set(units))
    count = min(
        len(patients), max(THRESHOLDS.min_injected_patients, round(THRESHOLDS.injected_fraction * len(patients)))
    )
    drawn = np.random.default_rng(derive_seed(seed, "patients")).permutation(len(patients))[:count]
    return frozenset(patients[index] for index in drawn)


def _with_known_error(kind: Kind[Any], case: ExaminedCase, data: SiteData, seed: int) -> ExaminedCase | None:
    if kind.error is None:
        return None
    generator = np.random.default_rng(derive_seed(seed, "injected error", kind.name, case.index))
    others = [index for index, other in enumerate(data.cases) if other.unit != case.unit]
    other = as_volume(data.cases[int(generator.choice(others))].label.numpy()) if others else None
    annotation = as_volume(case.annotation)
    changed = kind.error(annotation, Chance(generator, case.num_classes, other))
    return None if changed is None else case.with_annotation(as_samples(changed, len(case.annotation)))


def _measured_case(case: ExaminedCase) -> MeasuredCase:
    predicted = case.predicted
    packed = zlib.compress(predicted.tobytes(), 1)
    annotated = (case.annotation != 0) & (case.annotation != IGNORED_LABEL)
    total = int(annotated.sum()) + int((predicted != 0).sum())
    dice = 2 * int((annotated & (predicted != 0)).sum()) / total if total else 1.0
    part = case.part
    where = None if part is None else part.annotated | (part.predicted.predicted != 0)
    uncertainty = float(part.entropy[where].mean()) if part is not None and np.any(where) else 0.0
    return MeasuredCase(1 - dice, uncertainty, packed, predicted.shape)


def _measured_kind(
    kind: Kind[Any],
    given: Sequence[tuple[Suspicion, ...]],
    known: Sequence[tuple[int, tuple[Suspicion, ...]]],
    data: SiteData,
) -> MeasuredKind:
    typical = kind.typical([item for of_case in given for item in of_case])
    scores = np.array([_of_case(kind, typical, found) for found in given], dtype=np.float64)
    calibration = calibrate(
        np.array([_of_case(kind, typical, found) for _, found in known], dtype=np.float64),
        [index for index, _ in known],
        scores,
        patients=len({data.cases[index].unit for index, _ in known}),
        threshold=kind.threshold,
        doubts=kind.doubts(scores),
    )
    return MeasuredKind(kind, typical, tuple(given), calibration)


def _of_case(kind: Kind[Any], typical: Any, found: Sequence[Suspicion]) -> float:
    return kind.of_case([kind.score(item, typical) for item in found])
