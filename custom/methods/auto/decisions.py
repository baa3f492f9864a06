"""What the server concludes from the sites' reports: reference levels, confirmed effects, and corrections."""

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ...annotation_bias.domain_check import DomainCheck, check_domains
from ...annotation_bias.estimate import Estimate
from ...annotation_bias.fedavg_boundary import FedAvgBoundary, fedavg_boundary
from ...annotation_bias.hysteresis import standing
from ...annotation_bias.parameters import ALL_CLASSES, CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.profile.decision import is_shown
from ...annotation_bias.profile.fusion import FusedBiases
from ...annotation_bias.significance import Criterion, effect_tests
from ...annotation_bias.statuses import Evidence, EvidenceCode, ReferenceKind, ReferenceLevel, TestResult, Unit
from ...corrections.kinds import BoundaryShift, Correction, server_corrections
from .answers import BiasReport, unit_of
from .criteria import best_estimate, confused_criterion, largest_recall, missing_criterion, offset_criterion
from .image_decisions import NOT_SHOWN, Profiles, image_level, with_images
from .mislabelled import looks_mislabelled, without_mislabelled
from .records import BiasRecord
from .server_reference import ServerReference
from .settings import BiasSettings
from .site_reference_levels import reference_level_of


@dataclass(frozen=True)
class Decisions:
    """The server's conclusions of one estimate.

    Attributes:
        reference_levels: reference level of the offsets, by class; None where there is no estimate.
        tested: by site and parameter (kind and class) the tested estimate.
        findings: the results of the tests, in the same way.
        corrections: what each site is asked to correct; sites that correct nothing are there, too.
        tolerated: by class the FedAvg boundary, where it is so near the reference level that confirmed boundary biases
            are not corrected.
        unfit: why the model is no reference for any site; None if it is one.
        unit: of the sites' offsets, that of most sites.
        fused: by class, boundary biases of images and model, where images show them.
    """

    reference_levels: tuple[ReferenceLevel | None, ...]
    tested: dict[str, dict[ParameterKey, Estimate]]
    findings: dict[str, dict[ParameterKey, TestResult]]
    corrections: dict[str, tuple[Correction, ...]]
    tolerated: dict[int, FedAvgBoundary] = field(default_factory=dict)
    unfit: Evidence | None = None
    unit: Unit = "px"
    fused: Mapping[int, FusedBiases] = field(default_factory=dict)

    @property
    def anything_confirmed(self) -> bool:
        """Whether any effect of any site is confirmed."""
        return any(finding.is_confirmed for found in self.findings.values() for finding in found.values())


def decide(
    answers: Mapping[str, BiasReport],
    settings: BiasSettings,
    *,
    seed: int,
    server: ServerReference | None = None,
    before: BiasRecord | None = None,
    profiles: Profiles = (),
    uses_model: bool = True,
) -> Decisions:
    """Decide what each site is asked to correct.

    An offset counts from the reference level of all sites; the site's own reviewed cases refine it
    (:func:`fedannot.custom.methods.auto.criteria.offset_criterion`). What is confirmed without any reviewed case stays
    unless they contradict it: more evidence never means fewer corrections. A fraction of missing objects counts from
    the most complete site, one of confused classes from the site with the least: a model that takes one class for
    another does so everywhere. If most objects of a site have confused classes, nothing else of it is tested, and it is
    no reference for others.

    Sites out of domain are tested against their own reviewed cases only, and do not count for the reference level. The
    same holds for all sites if the model detects too few of the annotated patients.

    Boundary biases of sites in domain are corrected if they move the FedAvg boundary, which follows the weighted median
    of the sites. A minority that errs does no harm, and moving contours has an error of its own. Where images give the
    reference level, it also says what is tolerated, and all sites count.

    What an earlier estimate has confirmed stays where this one does not contradict it
    (:func:`fedannot.custom.annotation_bias.hysteresis.contradicts`), and contours of a class that were moved are not
    left where they are given for federated averaging's sake.

    Args:
        answers: by site.
        settings: the job's.
        seed: decides the draws of the reference level.
        server: what is known of the server's reviewed cases, which count before those of sites in the reference level.
        before: the earlier estimate with what was done since.
        profiles: of each class by site what images say of the boundary bias; empty for nothing.
        uses_model: whether boundary biases of these classes are those of images and model together; else of images.
    """
    domain_checks = _domain_checks(answers, settings)
    alike = {site: answer for site, answer in answers.items() if not domain_checks[site].out_of_domain}
    least = best_estimate([answer.confused for answer in alike.values()], lambda one: -one.value)
    in_domain = {site: answer for site, answer in alike.items() if not looks_mislabelled(answer.confused, least)}
    unfit = _unfit(detected_fraction(answers), settings)
    doubts = {site: unfit or _other_images(check) for site, check in domain_checks.items()}
    labels = range(1, settings.network.num_classes + 1)
    predictable = in_domain if unfit is None else {}
    reports = with_images(answers, server, profiles, predictable, uses_model=uses_model)
    answers, server = reports.answers, reports.server
    in_domain = {site: answers[site] for site in in_domain}
    tests_of = partial(_tests_of_offsets, doubts=doubts, settings=settings, seed=seed, before=before, profiles=profiles)
    reference_levels, tested, criteria = tests_of(answers, in_domain, server=server)
    for label in labels:
        # The recall of all objects and that of confident ones are two quantities.
        complete = {hides: largest_recall(in_domain, label, hides_patients=hides) for hides in (False, True)}
        for site, answer in answers.items():
            key = ParameterKey(ParameterKind.MISSING, label)
            tested[site][key], criteria[site][key] = missing_criterion(
                answer, label, complete[answer.hides_patients], settings, doubts[site]
            )
    if settings.network.num_classes > 1:
        for site, answer in answers.items():
            tested[site][CONFUSED_OBJECTS] = answer.confused
            criteria[site][CONFUSED_OBJECTS] = confused_criterion(answer, least, settings, doubts[site])
    findings = effect_tests(tested, criteria, level=settings.level)
    if server is not None or any(answer.has_reviewed for answer in answers.values()):
        unreviewed = {site: answer.without_reviewed() for site, answer in answers.items()}
        _, without_reviewed, references = tests_of(
            unreviewed, {site: unreviewed[site] for site in in_domain}, server=None
        )
        for site, found in effect_tests(without_reviewed, references, level=settings.level).items():
            findings[site] |= _standing(found, criteria[site], findings[site], EvidenceCode.REVIEWED_AGREE)
    for site, record in {} if before is None else before.sites.items():
        if site in findings:
            earlier = {key: one.as_result() for key, one in record.parameters.items()}
            findings[site] |= _standing(earlier, criteria[site], findings[site], EvidenceCode.EARLIER_AGREES)
    relabelled = {site for site, answer in alike.items() if answer.is_relabelled}
    findings = without_mislabelled(findings, relabelled)
    # Images need no domain: what they say of any site counts, as before the first round.
    by_images = {label for label, level in zip(labels, reference_levels, strict=True) if _is_of_images(level)}
    tolerated = {
        label: averaged
        for label, reference_level in zip(labels, reference_levels, strict=True)
        if not _stays_moved(before, findings, label)
        and (counted := answers if label in by_images else in_domain)
        and (averaged := _tolerated_boundary(counted, findings, label, reference_level, settings)) is not None
    }
    of_one_kind = in_domain.keys() | relabelled
    corrections = {
        site: _corrections(
            answers[site],
            found,
            settings,
            spared=[label for label in tolerated if label in by_images or site in of_one_kind],
        )
        for site, found in findings.items()
    }
    pixel_size = statistics.median(answer.pixel_size for answer in (in_domain or answers).values()) if answers else 1.0
    return Decisions(
        tuple(reference_levels), tested, findings, corrections, tolerated, unfit, unit_of(pixel_size), reports.fused
    )


def _tests_of_offsets(
    answers: Mapping[str, BiasReport],
    in_domain: Mapping[str, BiasReport],
    *,
    doubts: Mapping[str, Evidence | None],
    settings: BiasSettings,
    seed: int,
    server: ServerReference | None,
    before: BiasRecord | None,
    profiles: Profiles,
) -> tuple[
    list[ReferenceLevel | None], dict[str, dict[ParameterKey, Estimate]], dict[str, dict[ParameterKey, Criterion]]
]:
    """The reference level of each class, and by site and class what is tested of the offset against what."""
    labels = range(1, settings.network.num_classes + 1)
    of_images = [image_level(profile, settings) for profile in profiles] or [None] * len(labels)
    levels = [
        reference_level_of(
            in_domain, label, settings, seed=seed, server=server, before=before, of_images=of_images[label - 1]
        )
        for label in labels
    ]
    tested: dict[str, dict[ParameterKey, Estimate]] = {site: {} for site in sorted(answers)}
    criteria: dict[str, dict[ParameterKey, Criterion]] = {site: {} for site in tested}
    for label, level in zip(labels, levels, strict=True):
        key = ParameterKey(ParameterKind.OFFSET, label)
        is_by_images = bool(profiles) and is_shown(profiles[label - 1])
        for site, answer in answers.items():
            # Where images say it, it matters no more how well the model predicts the site's images.
            doubt = doubts[site]
            if is_by_images:
                doubt = None if answer.offset[label - 1].is_known else NOT_SHOWN
            tested[site][key], criteria[site][key] = offset_criterion(answer, label, level, settings, doubt)
    return levels, tested, criteria


def _standing(
    other: Mapping[ParameterKey, TestResult],
    criteria: Mapping[ParameterKey, Criterion],
    findings: Mapping[ParameterKey, TestResult],
    code: EvidenceCode,
) -> dict[ParameterKey, TestResult]:
    """What is known of a site's parameters of which another estimate, or the same with less evidence, confirms one."""
    return {
        key: standing(
            findings[key],
            one.effect,
            criteria[key].minimum_effect,
            standard_error=one.standard_error,
            p_value=one.p_value,
            code=code,
        )
        for key, one in other.items()
        if key in findings and one.is_confirmed
    }


def _stays_moved(
    before: BiasRecord | None, findings: Mapping[str, Mapping[ParameterKey, TestResult]], label: int
) -> bool:
    """Whether a site was asked to move contours of a class, and that is still confirmed."""
    key = ParameterKey(ParameterKind.OFFSET, label)
    asked = {} if before is None else {site: record.of(BoundaryShift) for site, record in before.sites.items()}
    return any(
        shift is not None and label in shift.bias and site in findings and findings[site][key].is_confirmed
        for site, shift in asked.items()
    )


def _domain_checks(answers: Mapping[str, BiasReport], settings: BiasSettings) -> dict[str, DomainCheck]:
    """What images say of every site; where nothing is known of them, what the settings say."""
    domain_checks = check_domains({site: answer.images for site, answer in answers.items()})
    if settings.unknown_images == "out_of_domain":
        return domain_checks
    return {
        site: replace(check, out_of_domain=check.out_of_domain and check.is_known)
        for site, check in domain_checks.items()
    }


def detected_fraction(answers: Mapping[str, BiasReport]) -> float:
    """Return the fraction of the annotated patients in whom the model finds an annotated object; 0 without any."""
    annotated = sum(sum(answer.annotated_patients) for answer in answers.values())
    result = sum(item.patients for answer in answers.values() for item in answer.offset)
    return min(result / annotated, 1.0) if annotated else 0.0


def _other_images(check: DomainCheck) -> Evidence | None:
    """Where images are out of the domain, the model cannot predict."""
    return check.evidence if check.out_of_domain else None


def _unfit(share: float, settings: BiasSettings) -> Evidence | None:
    if share >= settings.min_predicted_fraction:
        return None
    return Evidence(EvidenceCode.MODEL_UNFIT, {"found": share, "expected": settings.min_predicted_fraction})


def _is_of_images(level: ReferenceLevel | None) -> bool:
    """Whether images alone give the reference level; it has a minimum effect of its own."""
    return level is not None and level.minimum_effect > 0


def _tolerated_boundary(
    counted: Mapping[str, BiasReport],
    findings: Mapping[str, Mapping[ParameterKey, TestResult]],
    label: int,
    reference_level: ReferenceLevel | None,
    settings: BiasSettings,
) -> FedAvgBoundary | None:
    """The FedAvg boundary, if a boundary bias is confirmed, and it is as near the reference level as is known."""
    key = ParameterKey(ParameterKind.OFFSET, label)
    result = {site: findings[site][key] for site in counted}
    if (
        reference_level is None
        or not reference_level.is_confident
        or not any(finding.is_confirmed for finding in result.values())
    ):
        return None
    offsets = {site: finding.effect for site, finding in result.items() if not math.isnan(finding.effect)}
    averaged = fedavg_boundary(offsets, {site: answer.num_samples for site, answer in counted.items()})
    pixels = settings.min_boundary_bias
    if reference_level.is_inferred:
        pixels = max(pixels, settings.image_boundary_error)
    elif reference_level.kind is ReferenceKind.EDGES and _is_of_images(reference_level):
        # Before the first round that alone is tolerated; where all follow to the image boundary, it is nothing.
        pixels = reference_level.tolerated
    near = pixels * statistics.median(answer.pixel_size for answer in counted.values())
    return averaged if averaged is not None and averaged.is_within(near) else None


def _corrections(
    answer: BiasReport,
    findings: Mapping[ParameterKey, TestResult],
    settings: BiasSettings,
    *,
    spared: Collection[int],
) -> tuple[Correction, ...]:
    """The corrections of a site; offsets of the spared classes stay."""
    amounts: dict[ParameterKind, dict[int, float]] = {kind: {} for kind in ParameterKind}
    for key, finding in findings.items():
        is_spared = key.kind is ParameterKind.OFFSET and key.label in spared
        if finding.is_confirmed and key.kind in settings.corrected_kinds and not is_spared:
            amounts[key.kind][key.label] = finding.effect
    return server_corrections(
        bias=amounts[ParameterKind.OFFSET],
        missed=amounts[ParameterKind.MISSING],
        ignored=unannotated_fractions(answer, amounts[ParameterKind.MISSING]),
        relabelled=max(amounts[ParameterKind.CONFUSED].get(ALL_CLASSES, 0.0), 0.0),
    )


def unannotated_fractions(answer: BiasReport, missing: Mapping[int, float]) -> dict[int, float]:
    """Return by class the fraction of its objects that a site does not annotate, of which the most confident are
    ignored.

    What is confirmed counts from the most complete site, which may leave objects out itself. Ignored are as many as
    the site leaves out by its own completeness a: 1 − a, no less than what is confirmed. A site that hides its
    patients tells the completeness of all objects that the model predicts, with its false ones: there what is
    confirmed counts.

    Args:
        answer: of the site.
        missing: by class, the share that is confirmed of it.
    """
    if answer.hides_patients:
        return dict(missing)
    own = {label: answer.completeness[label - 1] for label in missing}
    return {
        label: max(share, 1 - own[label].value) if own[label].is_known else share for label, share in missing.items()
    }
