"""The audit of a site's annotators: estimates for each, from predictions and from their common cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....transforms.array_types import Classes
from ....transforms.printable import printable_logger
from ...annotation_bias.annotators.agreement import estimate_kappa, pair_agreements
from ...annotation_bias.annotators.case_annotations import CaseAnnotations
from ...annotation_bias.annotators.deviations import (
    MinimumEffects,
    Tested,
    consensus_tests,
    prediction_tests,
)
from ...annotation_bias.annotators.from_consensus import consensus_estimates
from ...annotation_bias.annotators.from_predictions import SiteCalibrations, prediction_estimates
from ...annotation_bias.annotators.records import AnnotatorAudit, AnnotatorPair, AnnotatorsAudit, Figure
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.ignored_objects import whole_objects
from ...annotation_bias.parameters import ParameterKey
from ...annotation_bias.predicted_samples import cut_to_objects
from ...annotation_bias.statuses import Unit
from ...data.case_preparation import decode
from ...data.preparation import LABEL, build_preparation
from ...data.site_data import LoadedCase, SiteData
from ..auto.bias_measurement import pixel_size
from ..auto.settings import BiasSettings

if TYPE_CHECKING:
    from .reference_models import ReferenceModels

_LOGGER = printable_logger(__name__)

_TWO = 2


@dataclass(frozen=True)
class AnnotatedCase:
    """A case with the masks of its known annotators.

    Attributes:
        case: as loaded.
        masks: by annotator ``(S, H, W[, D])``; empty where none is known.
    """

    case: LoadedCase
    masks: Mapping[str, Classes]


def audit_annotators(
    models: "ReferenceModels", data: SiteData, cases: Sequence[LoadedCase], settings: BiasSettings, *, seed: int
) -> AnnotatorsAudit | None:
    """Return what is known of a site's annotators; None where fewer than two are named. It stays at the site.

    Args:
        models: the reference models.
        data: the site's data.
        cases: its training cases with the annotations that it has given.
        settings: the job's.
        seed: decides intervals and injected errors.
    """
    names = {name for case in cases for name in named_annotators(case)}
    if len(names) < _TWO:
        return None
    annotated = list(annotated_cases(cases, data))
    num_classes, pixel = settings.network.num_classes, pixel_size(data)
    minimum = MinimumEffects.of_pixels(settings.min_boundary_bias, settings.min_missed_fraction, pixel)
    common = _common_cases(annotated)
    consensus = consensus_tests(consensus_estimates(common, num_classes, seed=seed), minimum, level=settings.level)
    predictions = _by_predictions(models, annotated, data, num_classes, minimum, settings.level, seed)
    kappa = estimate_kappa(common, num_classes, seed=seed)
    unit: Unit = "px" if data.cases[0].spacing is None else "mm"
    return AnnotatorsAudit(
        unit=unit,
        annotators=tuple(_audit(name, annotated, consensus, predictions) for name in sorted(names)),
        num_unnamed=sum(not item.masks for item in annotated),
        pairs=tuple(
            AnnotatorPair(
                annotators=pair.annotators, label=pair.label, dice=Figure.of(pair.dice), hd95=Figure.of(pair.hd95)
            )
            for pair in pair_agreements(common, num_classes, seed=seed)
        ),
        kappa=Figure.of(kappa) if kappa.patients else None,
    )


def named_annotators(case: LoadedCase) -> tuple[str, ...]:
    """Return the names of those who annotated a case, as far as they are known."""
    files = case.files
    if files is None:
        return ()
    if files.annotations:
        return tuple(annotation.annotator for annotation in files.annotations)
    return () if files.annotator is None else (files.annotator,)


def annotated_cases(cases: Sequence[LoadedCase], data: SiteData) -> Iterator[AnnotatedCase]:
    """Yield cases with the masks of their annotators, each decoded as the site's data are.

    An annotation that cannot be used is left out and named in the site's log.

    Args:
        cases: of the site.
        data: whose description says how files are prepared.
    """
    preparation = build_preparation(data.description)
    for case in cases:
        files = case.files
        if files is None or not files.annotations:
            yield AnnotatedCase(case, {name: case.label.numpy() for name in named_annotators(case)})
            continue
        masks: dict[str, Classes] = {}
        for annotation in files.annotations:
            alone = replace(files, label=annotation.file, clean_label=None, given_label=None, annotations=())
            decoded = decode(preparation, alone, data.site)
            if isinstance(decoded, str):
                _LOGGER.warning("Site %s: an annotation of %s is left out: %s", data.site, case.name, decoded)
            elif decoded.tensors[LABEL].shape == case.label.shape:
                masks[annotation.annotator] = decoded.tensors[LABEL].numpy()
        yield AnnotatedCase(case, masks)


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


def _by_predictions(
    models: "ReferenceModels",
    annotated: Sequence[AnnotatedCase],
    data: SiteData,
    num_classes: int,
    minimum: MinimumEffects,
    level: float,
    seed: int,
) -> Tested:
    cases_of = predicted_by_annotator(models, annotated, data)
    calibrations = SiteCalibrations.of(
        [case for of_name in cases_of.values() for case in of_name], num_classes, seed=seed
    )
    estimates = prediction_estimates(cases_of, num_classes, calibrations, seed=seed)
    return prediction_tests(estimates, minimum, level=level)


def predicted_by_annotator(
    models: "ReferenceModels", annotated: Sequence[AnnotatedCase], data: SiteData
) -> dict[str, list[PredictedCase]]:
    """Return by annotator the predicted samples with this annotator's masks; they stay at the site.

    Args:
        models: the reference models.
        annotated: the cases.
        data: whose description says what masks ignore.
    """
    whole, result = whole_objects(data.description), dict[str, list[PredictedCase]]()
    for item in annotated:
        if not item.masks:
            continue
        for index, predicted in enumerate(models([item.case])):
            for name, masks in item.masks.items():
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
