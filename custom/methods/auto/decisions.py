"""What the server concludes from the sites' reports: reference levels, confirmed effects, and corrections."""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ...annotation_bias.domain_check import DomainCheck, check_domains
from ...annotation_bias.estimate import Estimate
from ...annotation_bias.fedavg_boundary import FedAvgBoundary, tolerated_boundary
from ...annotation_bias.hysteresis import standing
from ...annotation_bias.parameters import ALL_CLASSES, CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.profile.decision import is_shown
from ...annotation_bias.profile.fusion import FusedBiases
from ...annotation_bias.significance import Criterion, effect_tests
from ...annotation_bias.statuses import Evidence, EvidenceCode, ReferenceLevel, TestResult, Unit
from ...annotation_bias.thresholds import THRESHOLDS as BIAS_THRESHOLDS
from ...corrections.kinds import BoundaryShift, Correction, server_corrections
from .answers import BiasReport, unit_of
from .criteria import best_estimate, confused_criterion, largest_recall, missing_criterion, offset_criterion
from .group_votes import GroupVotes
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
    groups: GroupVotes | None = None,
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

    Groups of annotators are tested as sites are. But a site has one vote however many it has: in the reference level,
    in what is tolerated, on the scale of images and model, and in the domain check, which is of the site's images.

    Args:
        answers: by site.
        settings: the job's.
        seed: decides the draws of the reference level.
        server: what is known of the server's reviewed cases, which count before those of sites in the reference level.
        before: the earlier estimate with what was done since.
        profiles: of each class by site what images say of the boundary bias; empty for nothing.
        uses_model: whether boundary biases of these classes are those of images and model together; else of images.
        groups: which names are groups of which site; None for sites alone.
    """
    groups = groups or GroupVotes()
    kinds = _kinds_of_sites(answers, settings, groups)
    reports = with_images(answers, server, profiles, kinds.predictable(answers), uses_model=uses_model)
    answers, server = reports.answers, reports.server
    tests_of = partial(
        _tests_of_offsets, kinds=kinds, settings=settings, seed=seed, before=before, profiles=profiles, groups=groups
    )
    reference_levels, tested, criteria = tests_of(answers, server=server)
    _add_tests_of_objects(tested, criteria, answers, kinds, settings)
    findings = effect_tests(tested, criteria, level=settings.level)
    if server is not None or any(answer.has_reviewed for answer in answers.values()):
        unreviewed = {site: answer.without_reviewed() for site, answer in answers.items()}
        _, without_reviewed, references = tests_of(unreviewed, server=None)
        other = effect_tests(without_reviewed, references, level=settings.level)
        findings = _with_standing(findings, other, criteria, EvidenceCode.REVIEWED_AGREE)
    findings = _with_standing(findings, _results_of(before), criteria, EvidenceCode.EARLIER_AGREES)
    findings = without_mislabelled(findings, kinds.relabelled)
    tolerated = _tolerated(answers, findings, reference_levels, kinds, settings, before, groups)
    corrections = _corrections_of_sites(answers, findings, reference_levels, kinds, settings, tolerated)
    return Decisions(
        tuple(reference_levels),
        tested,
        findings,
        corrections,
        tolerated,
        kinds.unfit,
        _unit(kinds.of_references(answers) or answers),
        reports.fused,
    )


@dataclass(frozen=True)
class _KindsOfSites:
    """What may be concluded of whom.

    Attributes:
        in_domain: sites that count for reference levels.
        relabelled: sites whose estimates are of annotations with relabelled objects.
        least: the confused fraction of the best site.
        unfit: why the model is no reference for any site; None if it is one.
        doubts: by site why the model cannot predict its images; None where it can.
    """

    in_domain: frozenset[str]
    relabelled: frozenset[str]
    least: Estimate | None
    unfit: Evidence | None
    doubts: Mapping[str, Evidence | None]

    def of_references(self, answers: Mapping[str, BiasReport]) -> dict[str, BiasReport]:
        """The answers of sites that count for reference levels."""
        return {site: answer for site, answer in answers.items() if site in self.in_domain}

    def predictable(self, answers: Mapping[str, BiasReport]) -> dict[str, BiasReport]:
        """Those whose boundary biases the model can tell."""
        return self.of_references(answers) if self.unfit is None else {}


def _kinds_of_sites(answers: Mapping[str, BiasReport], settings: BiasSettings, groups: GroupVotes) -> _KindsOfSites:
    domain_checks = _domain_checks(answers, settings, groups)
    alike = {site: answer for site, answer in answers.items() if not domain_checks[site].out_of_domain}
    least = best_estimate([answer.confused for answer in alike.values()], lambda one: -one.value)
    unfit = _unfit(detected_fraction(answers, groups), settings)
    return _KindsOfSites(
        frozenset(site for site, answer in alike.items() if not looks_mislabelled(answer.confused, least)),
        frozenset(site for site, answer in alike.items() if answer.is_relabelled),
        least,
        unfit,
        {site: unfit or _other_images(check) for site, check in domain_checks.items()},
    )


def _add_tests_of_objects(
    tested: Mapping[str, dict[ParameterKey, Estimate]],
    criteria: Mapping[str, dict[ParameterKey, Criterion]],
    answers: Mapping[str, BiasReport],
    kinds: _KindsOfSites,
    settings: BiasSettings,
) -> None:
    """Add what is tested of missed and confused objects against what."""
    references = kinds.of_references(answers)
    for label in range(1, settings.network.num_classes + 1):
        # The recall of all objects and that of confident ones are two quantities.
        complete = {hides: largest_recall(references, label, hides_patients=hides) for hides in (False, True)}
        for site, answer in answers.items():
            key = ParameterKey(ParameterKind.MISSING, label)
            tested[site][key], criteria[site][key] = missing_criterion(
                answer, label, complete[answer.hides_patients], settings, kinds.doubts[site]
            )
    if settings.network.num_classes > 1:
        for site, answer in answers.items():
            tested[site][CONFUSED_OBJECTS] = answer.confused
            criteria[site][CONFUSED_OBJECTS] = confused_criterion(answer, kinds.least, settings, kinds.doubts[site])


def _results_of(before: BiasRecord | None) -> dict[str, dict[ParameterKey, TestResult]]:
    """What an earlier estimate has found, by site and parameter."""
    sites = {} if before is None else before.sites
    return {site: {key: one.as_result() for key, one in record.parameters.items()} for site, record in sites.items()}


def _with_standing(
    findings: Mapping[str, dict[ParameterKey, TestResult]],
    other: Mapping[str, Mapping[ParameterKey, TestResult]],
    criteria: Mapping[str, Mapping[ParameterKey, Criterion]],
    code: EvidenceCode,
) -> dict[str, dict[ParameterKey, TestResult]]:
    """The findings, with what another estimate has confirmed and they do not contradict."""
    return {
        site: found | _standing(other.get(site, {}), criteria[site], found, code) for site, found in findings.items()
    }


def _tolerated(
    answers: Mapping[str, BiasReport],
    findings: Mapping[str, Mapping[ParameterKey, TestResult]],
    reference_levels: Sequence[ReferenceLevel | None],
    kinds: _KindsOfSites,
    settings: BiasSettings,
    before: BiasRecord | None,
    groups: GroupVotes,
) -> dict[int, FedAvgBoundary]:
    """By class the FedAvg boundary where boundary biases stay for it; not where a site's contours were moved before."""
    result = {}
    for label, level in enumerate(reference_levels, start=1):
        # Images need no domain: what they say of any site counts, as before the first round.
        counted = answers if _is_of_images(level) else kinds.of_references(answers)
        averaged = tolerated_boundary(
            level,
            {site: findings[site][ParameterKey(ParameterKind.OFFSET, label)] for site in counted},
            {site: answer.num_samples for site, answer in counted.items()},
            {site: answer.pixel_size for site, answer in counted.items()},
            distance=_tolerated_distance(level, settings),
            votes=groups.votes(counted),
        )
        if averaged is not None and not _stays_moved(before, findings, label):
            result[label] = averaged
    return result


def _tolerated_distance(level: ReferenceLevel | None, settings: BiasSettings) -> float:
    """By how much federated averaging's contours may be off, in pixels: as near the level as that is known."""
    if level is None:
        return 0.0
    if level.is_inferred:
        return max(settings.min_boundary_bias, settings.image_boundary_error)
    # Before the first round that alone is tolerated; where all follow to the image boundary, it is nothing.
    return level.tolerated if _is_of_images(level) else settings.min_boundary_bias


def _corrections_of_sites(
    answers: Mapping[str, BiasReport],
    findings: Mapping[str, Mapping[ParameterKey, TestResult]],
    reference_levels: Sequence[ReferenceLevel | None],
    kinds: _KindsOfSites,
    settings: BiasSettings,
    tolerated: Collection[int],
) -> dict[str, tuple[Correction, ...]]:
    """What each site is asked to correct; sites that correct nothing are there, too."""
    of_one_kind = kinds.in_domain | kinds.relabelled
    by_images = {label for label in tolerated if _is_of_images(reference_levels[label - 1])}
    return {
        site: _corrections(
            answers[site],
            found,
            settings,
            spared=[label for label in tolerated if label in by_images or site in of_one_kind],
        )
        for site, found in findings.items()
    }


def _unit(answers: Mapping[str, BiasReport]) -> Unit:
    """That of most sites."""
    return unit_of(statistics.median(answer.pixel_size for answer in answers.values()) if answers else 1.0)


def _tests_of_offsets(
    answers: Mapping[str, BiasReport],
    *,
    kinds: _KindsOfSites,
    settings: BiasSettings,
    seed: int,
    server: ServerReference | None,
    before: BiasRecord | None,
    profiles: Profiles,
    groups: GroupVotes,
) -> tuple[
    list[ReferenceLevel | None], dict[str, dict[ParameterKey, Estimate]], dict[str, dict[ParameterKey, Criterion]]
]:
    """The reference level of each class, and by site and class what is tested of the offset against what."""
    labels, in_domain = range(1, settings.network.num_classes + 1), kinds.of_references(answers)
    of_images = [image_level(profile, settings) for profile in profiles] or [None] * len(labels)
    levels = [
        reference_level_of(
            groups.one_of_each(in_domain, label),
            label,
            settings,
            seed=seed,
            server=server,
            before=before,
            of_images=of_images[label - 1],
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
            doubt = kinds.doubts[site]
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


def _domain_checks(
    answers: Mapping[str, BiasReport], settings: BiasSettings, groups: GroupVotes
) -> dict[str, DomainCheck]:
    """What images say of every site; where nothing is known of them, what the settings say."""
    of_sites = check_domains(groups.images(answers))
    domain_checks = {name: of_sites[groups.site(name)] for name in sorted(answers)}
    if settings.unknown_images == "out_of_domain":
        return domain_checks
    return {
        site: replace(check, out_of_domain=check.out_of_domain and check.is_known)
        for site, check in domain_checks.items()
    }


def detected_fraction(answers: Mapping[str, BiasReport], groups: GroupVotes) -> float:
    """Return the fraction of the annotated patients in whom the model finds an annotated object; 0 without any.

    From three sites on none counts for more patients than the middle one, so that none decides by the numbers that it
    sends.

    Args:
        answers: by site or group of a site.
        groups: which names are groups of which site.
    """
    annotated, predicted = Counter[str](), Counter[str]()
    for name, answer in answers.items():
        annotated[groups.site(name)] += sum(answer.annotated_patients)
        predicted[groups.site(name)] += sum(item.patients for item in answer.offset)
    claims = {site: number for site, number in annotated.items() if number}
    is_bounded = len(claims) >= BIAS_THRESHOLDS.min_sites_of_median
    most = statistics.median(claims.values()) if is_bounded else math.inf
    counted = {site: min(number, most) for site, number in claims.items()}
    result = sum(number * min(predicted[site] / claims[site], 1.0) for site, number in counted.items())
    return result / sum(counted.values()) if counted else 0.0


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
