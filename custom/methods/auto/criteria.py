"""What is tested of a site's annotation bias, and against what."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...annotation_bias.estimate import INTERVAL_DEVIATIONS, Estimate
from ...annotation_bias.reference_level import standard_error_of
from ...annotation_bias.reviewed_cases import refined
from ...annotation_bias.significance import Criterion
from ...annotation_bias.statuses import Evidence, EvidenceCode, ReferenceKind, ReferenceLevel
from ...annotation_bias.thresholds import THRESHOLDS as BIAS_THRESHOLDS
from .answers import BiasReport
from .settings import BiasSettings
from .thresholds import THRESHOLDS


def offset_criterion(
    answer: BiasReport,
    label: int,
    reference_level: ReferenceLevel | None,
    settings: BiasSettings,
    doubt: Evidence | None,
) -> tuple[Estimate, Criterion]:
    """Return what is tested of a site's offset of a class, and against which zero.

    Reviewed versions of training cases refine the estimate of all cases
    (:func:`fedannot.custom.annotation_bias.reviewed_cases.refined`), and are all there is where that cannot be tested.
    """
    reviewed, minimum_effect = answer.given_from_reviewed[label - 1], settings.min_boundary_bias * answer.pixel_size
    offset, criterion = _by_model(answer, label, reference_level, settings, doubt)
    if not reviewed.is_known:
        return offset, criterion
    if offset.is_known and criterion.doubt(offset) is None:
        # The minimum effect with an inferred level is by how much that may be wrong.
        of_level = criterion.minimum_effect / INTERVAL_DEVIATIONS if criterion.minimum_effect > minimum_effect else 0.0
        half = INTERVAL_DEVIATIONS * math.hypot(standard_error_of(offset), criterion.standard_error, of_level)
        effect = offset.value - criterion.reference
        of_all = replace(offset, value=effect, low=effect - half, high=effect + half)
        reviewed = refined(of_all, reviewed, pixel_size=answer.pixel_size)
    return reviewed, Criterion.of_offsets(0.0, minimum_effect)


def _by_model(
    answer: BiasReport,
    label: int,
    reference_level: ReferenceLevel | None,
    settings: BiasSettings,
    doubt: Evidence | None,
) -> tuple[Estimate, Criterion]:
    """What is tested of the offset from the model of all cases.

    Zero is that of the reviewed cases of all sites; that of the server's is refined by the site's own. Where there is
    none, or the model cannot predict the site's images as it does others', it is that of the site's own alone.

    The site need not distinguish small errors of single cases. But where it does not, and the model finds too few of
    its annotated patients, the median over those that it finds is not of the site.
    """
    offset, reference = answer.offset[label - 1], answer.reviewed_from_model[label - 1]
    minimum_effect = settings.min_boundary_bias * answer.pixel_size
    if reference.is_known and (doubt is not None or not _is_reviewed(reference_level)):
        return offset, Criterion.of_offsets(reference.value, minimum_effect, standard_error_of(reference))
    doubt = doubt or _too_few_found(answer, label, settings)
    if reference_level is None:
        return offset, Criterion.of_offsets(
            0.0, minimum_effect, untestable_because=Evidence(EvidenceCode.NO_REFERENCE_LEVEL)
        )
    minimum_effect = minimum_effect_of(reference_level, settings) * answer.pixel_size
    if reference.is_known and reference_level.is_of_server:
        half = INTERVAL_DEVIATIONS * reference_level.standard_error
        at_server = Estimate(2, reference_level.value, reference_level.value - half, reference_level.value + half)
        zero = refined(at_server, reference, pixel_size=answer.pixel_size)
        return offset, _doubted(Criterion.of_offsets(zero.value, minimum_effect, standard_error_of(zero)), doubt)
    return offset, _doubted(Criterion.of_reference_level(reference_level, minimum_effect), doubt)


def minimum_effect_of(level: ReferenceLevel, settings: BiasSettings) -> float:
    """Return the minimum effect of a boundary bias from a level, in pixels.

    Zero may be wrong by so much; correcting less than that would follow its error.
    """
    if level.is_inferred:
        return max(settings.min_boundary_bias, settings.image_boundary_error)
    return max(settings.min_boundary_bias, level.minimum_effect)


def _is_reviewed(level: ReferenceLevel | None) -> bool:
    return level is not None and level.kind is ReferenceKind.REFERENCE and level.is_confident


def _too_few_found(answer: BiasReport, label: int, settings: BiasSettings) -> Evidence | None:
    """Why an offset that is not sensitive to errors of single cases is not the site's."""
    offset, annotated = answer.offset[label - 1], answer.annotated_patients[label - 1]
    if not annotated or not offset.auroc < BIAS_THRESHOLDS.min_auroc:
        return None
    share = offset.patients / annotated
    if share >= settings.min_predicted_fraction:
        return None
    return Evidence(EvidenceCode.MODEL_UNFIT, {"found": share, "expected": settings.min_predicted_fraction})


def largest_recall(answers: Mapping[str, BiasReport], label: int, *, hides_patients: bool) -> Estimate | None:
    """Return the largest annotation recall of a site, of those that report it in the same way."""
    alike = [answer for answer in answers.values() if answer.hides_patients == hides_patients]
    return best_estimate([answer.completeness[label - 1] for answer in alike], lambda one: one.value)


def best_estimate(estimates: Sequence[Estimate], quality: Callable[[Estimate], float]) -> Estimate | None:
    """Return the estimate of the best site, which is the reference for the others; None without any."""
    known = [estimate for estimate in estimates if estimate.is_known]
    # A site whose error injection fails is no reference for the others.
    sensitive = [item for item in known if Criterion(0.0, 0.0).doubt(item) is None]
    return max(sensitive or known, key=lambda one: (quality(one), one.patients), default=None)


def missing_criterion(
    answer: BiasReport, label: int, complete: Estimate | None, settings: BiasSettings, doubt: Evidence | None
) -> tuple[Estimate, Criterion]:
    """Return the fraction of objects that a site leaves out, what it annotates less than the most complete site
    does.
    """
    own = answer.completeness[label - 1]
    if complete is None or not complete.value > 0 or not own.is_known:
        return Estimate.unknown(), _doubted(Criterion(0.0, settings.min_missed_fraction), doubt)
    value, low, high = (1 - share / complete.value for share in (own.value, own.high, own.low))
    criterion = Criterion(
        0.0, settings.min_missed_fraction, standard_error_of(complete) * own.value / complete.value**2
    )
    missing = replace(own, value=value, low=low, high=high)
    return missing, _doubted(criterion, doubt)


def confused_criterion(
    answer: BiasReport, least: Estimate | None, settings: BiasSettings, doubt: Evidence | None
) -> Criterion:
    """Return how the confused fraction is tested; the minimum effect is a fraction of objects in permuted classes."""
    minimum_effect = settings.min_confused_fraction * max(answer.exchanged_part, THRESHOLDS.min_exchanged_part)
    if least is None or not answer.confused.is_known:
        return _doubted(Criterion(0.0, minimum_effect), doubt)
    return _doubted(Criterion(least.value, minimum_effect, standard_error_of(least)), doubt)


def _doubted(criterion: Criterion, doubt: Evidence | None) -> Criterion:
    return criterion if doubt is None else replace(criterion, untestable_because=doubt)
