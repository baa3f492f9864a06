"""The audit of a site's annotators: estimates for each, from predictions and from their common cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....transforms.array_types import Classes
from ...annotation_bias.annotators.agreement import estimate_kappa, pair_agreements
from ...annotation_bias.annotators.case_annotations import CaseAnnotations
from ...annotation_bias.annotators.deviations import (
    MinimumEffects,
    Tested,
    consensus_tests,
    prediction_tests,
)
from ...annotation_bias.annotators.from_consensus import ConsensusEstimates, consensus_estimates
from ...annotation_bias.annotators.from_predictions import GroupEstimates, SiteCalibrations, prediction_estimates
from ...annotation_bias.annotators.records import AnnotatorAudit, AnnotatorPair, AnnotatorsAudit, Figure
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.ignored_objects import whole_objects
from ...annotation_bias.parameters import ParameterKey
from ...annotation_bias.predicted_samples import Predictor, cut_to_objects
from ...annotation_bias.statuses import Unit
from ...data.site_data import LoadedCase, SiteData
from ..auto.bias_measurement import pixel_size
from ..auto.settings import BiasSettings

_TWO = 2
# In place of the name of an annotator that is not known; no annotator is called so.
UNNAMED = ""


@dataclass(frozen=True)
class AnnotatedCase:
    """A case with the masks of its known annotators.

    Attributes:
        case: as loaded.
        masks: by annotator ``(S, H, W[, D])``; empty where none is known.
    """

    case: LoadedCase
    masks: Mapping[str, Classes]


@dataclass(frozen=True)
class MeasuredAnnotators:
    """What an audit measures of a site's annotators; it stays at the site.

    Attributes:
        audit: what is kept of them.
        consensus: by name, compared with the other annotators of the same cases.
        predictions: by name, compared with predictions.
        unnamed: the same of the cases of which no annotator is known.
    """

    audit: AnnotatorsAudit
    consensus: Mapping[str, ConsensusEstimates]
    predictions: Mapping[str, GroupEstimates]
    unnamed: GroupEstimates


def audit_annotators(
    models: Predictor, data: SiteData, cases: Sequence[LoadedCase], settings: BiasSettings, *, seed: int
) -> MeasuredAnnotators | None:
    """Return what is known of a site's annotators; None where fewer than two are named. It stays at the site.

    Args:
        models: the reference models, which predict cases.
        data: the site's data.
        cases: its training cases with the annotations that it has given.
        settings: the job's.
        seed: decides intervals and injected errors.
    """
    names = {name for case in cases for name in named_annotators(case)}
    if len(names) < _TWO:
        return None
    annotated, num_classes = list(annotated_cases(cases)), settings.network.num_classes
    common, pixel = _common_cases(annotated), pixel_size(data)
    minimum = MinimumEffects.of_pixels(settings.min_boundary_bias, settings.min_missed_fraction, pixel)
    consensus = consensus_estimates(common, num_classes, seed=seed)
    cases_of = predicted_by_annotator(models, annotated, data)
    calibrations = SiteCalibrations.of(_one_of_each_patient(cases_of), num_classes, seed=seed)
    estimates = prediction_estimates(cases_of, num_classes, calibrations, seed=seed)
    unnamed = estimates.pop(UNNAMED, {})
    by_consensus = consensus_tests(consensus, minimum, level=settings.level)
    by_predictions = prediction_tests(estimates, minimum, level=settings.level)
    kappa = estimate_kappa(common, num_classes, seed=seed)
    unit: Unit = "px" if data.cases[0].spacing is None else "mm"
    audit = AnnotatorsAudit(
        unit=unit,
        annotators=tuple(_audit(name, annotated, by_consensus, by_predictions) for name in sorted(names)),
        num_unnamed=sum(not item.masks for item in annotated),
        pairs=_pairs(common, num_classes, seed),
        kappa=Figure.of(kappa) if kappa.patients else None,
    )
    return MeasuredAnnotators(audit, consensus, estimates, unnamed)


def _one_of_each_patient(cases_of: Mapping[str, Sequence[PredictedCase]]) -> list[PredictedCase]:
    """The cases of every patient by one annotator, into whose masks errors are injected."""
    first_of: dict[str, str] = {}
    return [
        case for name in sorted(cases_of) for case in cases_of[name] if first_of.setdefault(case.unit, name) == name
    ]


def _pairs(common: Sequence[CaseAnnotations], num_classes: int, seed: int) -> tuple[AnnotatorPair, ...]:
    return tuple(
        AnnotatorPair(
            annotators=pair.annotators, label=pair.label, dice=Figure.of(pair.dice), hd95=Figure.of(pair.hd95)
        )
        for pair in pair_agreements(common, num_classes, seed=seed)
    )


def named_annotators(case: LoadedCase) -> tuple[str, ...]:
    """Return the names of those who annotated a case, as far as they are known."""
    files = case.files
    if files is None:
        return ()
    if files.annotations:
        return tuple(annotation.annotator for annotation in files.annotations)
    return (files.annotator,) if files.annotator else ()


def annotated_cases(cases: Sequence[LoadedCase]) -> Iterator[AnnotatedCase]:
    """Yield cases with the masks of their annotators, as far as these are known.

    Args:
        cases: of the site.
    """
    for case in cases:
        names = named_annotators(case)
        if case.annotations is None:
            yield AnnotatedCase(case, {name: case.label.numpy() for name in names})
        else:
            masks = case.annotations.numpy()
            yield AnnotatedCase(case, {name: masks[:, index] for index, name in enumerate(names)})


def _common_cases(annotated: Sequence[AnnotatedCase]) -> list[CaseAnnotations]:
    """The cases that have several annotations."""
    return [
        CaseAnnotations(
            item.case.unit,
            tuple(item.masks),
            tuple(item.masks.values()),
            item.case.spacing,
            item.case.slice_spacing,
        )
        for item in annotated
        if len(item.masks) >= _TWO
    ]


def predicted_by_annotator(
    models: Predictor, annotated: Sequence[AnnotatedCase], data: SiteData
) -> dict[str, list[PredictedCase]]:
    """Return by annotator the predicted samples with this annotator's masks; they stay at the site.

    Cases of which no annotator is known are :data:`UNNAMED`'s.

    Args:
        models: the reference models.
        annotated: the cases.
        data: whose description says what masks ignore.
    """
    whole, result = whole_objects(data.description), dict[str, list[PredictedCase]]()
    for item in annotated:
        by_name = item.masks or {UNNAMED: item.case.label.numpy()}
        for index, predicted in enumerate(models([item.case])):
            for name, masks in by_name.items():
                case = cut_to_objects(whole(predicted.with_annotation(masks[index])))
                if case is not None:
                    result.setdefault(name, []).append(replace(case, image=None))
    return result


def _audit(name: str, annotated: Sequence[AnnotatedCase], consensus: Tested, predictions: Tested) -> AnnotatorAudit:
    own = [item.case.unit for item in annotated if name in item.masks]
    return AnnotatorAudit(
        annotator=name,
        num_cases=len(own),
        num_patients=len(set(own)),
        consensus=_records(consensus, name),
        predictions=_records(predictions, name),
    )


def _records(tested: Tested, name: str) -> dict[ParameterKey, ParameterRecord]:
    return {key: ParameterRecord.of(estimate, result) for key, (estimate, result) in tested.get(name, {}).items()}
