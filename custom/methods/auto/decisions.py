"""What the server concludes from the sites' channels: zero, what deviates from it, and each site's corrections."""

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ...channel.averaged_contour import AveragedContour, averaged_contour
from ...channel.established import Criterion, established
from ...channel.estimate import Estimate
from ...channel.image_gate import ImageGate, gate_by_images
from ...channel.parameters import ALL_CLASSES, SWAPPED_OBJECTS, ParameterKey, ParameterKind
from ...channel.statuses import Evidence, EvidenceCode, ReferenceLevel, Status, TestResult, Unit
from ...corrections.kinds import Correction, server_corrections
from .answers import ChannelAnswer, unit_of
from .criteria import best_told, missing_criterion, most_complete, offset_criterion, swapped_criterion
from .mislabelled import looks_mislabelled, without_mislabelled
from .overshoot import overshoots, with_model_bias
from .records import ChannelRecord, SiteChannelRecord
from .server_reference import ServerReference
from .settings import JudgingSettings
from .zero import middle, zero_of_offsets

# What sites correct with their offsets, where the settings ask: how far the model draws outside the reference level.
_OVERSHOOT = "overshoot"


@dataclass(frozen=True)
class Decisions:
    """The server's conclusions of one estimate.

    Attributes:
        anchors: reference level of the offsets, by class; None where there is no estimate.
        judged: by site and parameter (kind and class) the estimate that was tested.
        findings: what the test says of it, in the same way.
        corrections: what each site is asked to correct; sites that correct nothing are there, too.
        harmless: by class where federated averaging's contours lie, where that is so near zero that established offsets
            are left as they are.
        unfit: why the model judges nobody; None where it does.
        overshoots: by class, how far the model itself draws outside zero; see :func:`overshoots`.
        unit: of the sites' offsets, that of most sites.
    """

    anchors: tuple[ReferenceLevel | None, ...]
    judged: dict[str, dict[ParameterKey, Estimate]]
    findings: dict[str, dict[ParameterKey, TestResult]]
    corrections: dict[str, tuple[Correction, ...]]
    harmless: dict[int, AveragedContour] = field(default_factory=dict)
    unfit: Evidence | None = None
    overshoots: dict[int, float] = field(default_factory=dict)
    unit: Unit = "px"

    @property
    def anything_established(self) -> bool:
        """Whether any effect of any site is confirmed."""
        return any(finding.is_confirmed for found in self.findings.values() for finding in found.values())


def decide(
    answers: Mapping[str, ChannelAnswer],
    settings: JudgingSettings,
    *,
    seed: int,
    server: ServerReference | None = None,
    before: ChannelRecord | None = None,
) -> Decisions:
    """Decide what each site is asked to correct.

    An offset counts from the site's own reviewed cases where it has some, else from the anchor of all sites; a share
    of missing objects from the most complete site, one of swapped classes from the site with the least: a model that
    takes one class for another does so everywhere. Sites whose images are of another kind are judged by their own
    reviewed cases alone, and move no zero; so are all sites by a model that finds too little of what is annotated. Of a
    site most of whose objects have swapped classes nothing else is told, and it is no measure for others.

    Offsets of sites whose images are alike are undone where they move federated averaging's contours, which follow the
    weighted median of the sites: a minority that errs does no harm, and moving contours has an error of its own.

    Missing objects that an earlier estimate has established stay undone where this one agrees, and only would not be
    sure to see such an error: among few objects that is a matter of chance.

    Args:
        answers: by site.
        settings: the job's.
        seed: decides the draws of the anchor.
        server: what is known of the server's reviewed cases, which count before those of sites in the anchor.
        before: the earlier estimate with what was done since.
    """
    gates = _gates(answers, settings)
    alike = {site: answer for site, answer in answers.items() if not gates[site].distinct}
    least = best_told([answer.swapped for answer in alike.values()], lambda one: -one.value)
    usual = {site: answer for site, answer in alike.items() if not looks_mislabelled(answer.swapped, least)}
    unfit = _unfit(predicted_share(answers), settings)
    doubts = {site: unfit or _other_images(gate) for site, gate in gates.items()}
    judged: dict[str, dict[ParameterKey, Estimate]] = {site: {} for site in sorted(answers)}
    criteria: dict[str, dict[ParameterKey, Criterion]] = {site: {} for site in judged}
    labels = range(1, settings.network.num_classes + 1)
    anchors = [zero_of_offsets(usual, label, settings, seed=seed, server=server, before=before) for label in labels]
    for label, anchor in zip(labels, anchors, strict=True):
        # Completeness of all objects and that of sure ones are no one quantity.
        complete = {hides: most_complete(usual, label, hides_patients=hides) for hides in (False, True)}
        for site, answer in answers.items():
            doubt, key = doubts[site], ParameterKey(ParameterKind.OFFSET, label)
            judged[site][key], criteria[site][key] = offset_criterion(answer, label, anchor, settings, doubt)
            key = ParameterKey(ParameterKind.MISSING, label)
            judged[site][key], criteria[site][key] = missing_criterion(
                answer, label, complete[answer.hides_patients], settings, doubt
            )
    if settings.network.num_classes > 1:
        for site, answer in answers.items():
            judged[site][SWAPPED_OBJECTS] = answer.swapped
            criteria[site][SWAPPED_OBJECTS] = swapped_criterion(answer, least, settings, doubts[site])
    findings = established(judged, criteria, level=settings.level)
    for site, record in {} if before is None else before.sites.items():
        if site in findings:
            findings[site] |= _standing(record, judged[site], criteria[site], findings[site])
    given_anew = {site for site, answer in alike.items() if answer.has_classes_anew}
    findings = without_mislabelled(findings, given_anew)
    harmless = {
        label: averaged
        for label, anchor in zip(labels, anchors, strict=True)
        if (averaged := _harmless_average(usual, findings, label, anchor, settings)) is not None
    }
    of_one_kind = usual.keys() | given_anew
    corrections = {
        site: _corrections(answers[site], found, settings, spared=harmless if site in of_one_kind else ())
        for site, found in findings.items()
    }
    own: dict[int, float] = {}
    pixel_size = statistics.median(answer.pixel_size for answer in (usual or answers).values()) if answers else 1.0
    if _OVERSHOOT in settings.undone_kinds and usual and unfit is None:
        edges = [middle([answer.edges[label - 1] for answer in usual.values()]) for label in labels]
        own = overshoots(anchors, edges, before, limit=settings.edge_error * pixel_size)
        corrections |= {site: with_model_bias(corrections[site], own) for site in of_one_kind}
    return Decisions(tuple(anchors), judged, findings, corrections, harmless, unfit, own, unit_of(pixel_size))


def _standing(
    earlier: SiteChannelRecord,
    later: Mapping[ParameterKey, Estimate],
    criteria: Mapping[ParameterKey, Criterion],
    findings: Mapping[ParameterKey, TestResult],
) -> dict[ParameterKey, TestResult]:
    """What was established before of a site's missing objects, where a later estimate agrees and is not sure of itself.

    It is not sure because its self-calibration is no good. Where anything else is in doubt, or where its interval does
    not hold what was established, nothing stands.
    """
    found = {}
    for key, record in earlier.parameters.items():
        finding = findings.get(key)
        if finding is None or record.effect is None or record.p_value is None:
            continue
        is_open = math.isnan(finding.p_value) and criteria[key].doubted is None
        agrees = later[key].is_known and later[key].low <= record.effect <= later[key].high
        if record.is_confirmed and key.kind is ParameterKind.MISSING and is_open and agrees:
            stays = Evidence(EvidenceCode.EARLIER_AGREES, {"effect": record.effect})
            error = math.nan if record.standard_error is None else record.standard_error
            evidence = (*finding.evidence, stays)
            found[key] = TestResult(record.effect, error, record.p_value, Status.CONFIRMED, evidence)
    return found


def _gates(answers: Mapping[str, ChannelAnswer], settings: JudgingSettings) -> dict[str, ImageGate]:
    """What images say of every site; where nothing is known of them, what the settings say."""
    gates = gate_by_images({site: answer.images for site, answer in answers.items()})
    if settings.unknown_images == "out_of_domain":
        return gates
    return {site: replace(gate, distinct=gate.distinct and gate.is_known) for site, gate in gates.items()}


def predicted_share(answers: Mapping[str, ChannelAnswer]) -> float:
    """Return the share of the annotated patients in whom the model finds an annotated object; 0 without any."""
    annotated = sum(sum(answer.annotated_patients) for answer in answers.values())
    found = sum(one.patients for answer in answers.values() for one in answer.offset)
    return min(found / annotated, 1.0) if annotated else 0.0


def _other_images(gate: ImageGate) -> Evidence | None:
    """Where images are out of the domain, the model cannot judge."""
    return gate.evidence if gate.distinct else None


def _unfit(share: float, settings: JudgingSettings) -> Evidence | None:
    if share >= settings.min_predicted_share:
        return None
    return Evidence(EvidenceCode.MODEL_UNFIT, {"found": share, "expected": settings.min_predicted_share})


def _harmless_average(
    usual: Mapping[str, ChannelAnswer],
    findings: Mapping[str, Mapping[ParameterKey, TestResult]],
    label: int,
    anchor: ReferenceLevel | None,
    settings: JudgingSettings,
) -> AveragedContour | None:
    """Where federated averaging's contours lie, where offsets are established and it is as near zero as can be told."""
    key = ParameterKey(ParameterKind.OFFSET, label)
    found = {site: findings[site][key] for site in usual}
    if anchor is None or not anchor.is_sure or not any(finding.is_confirmed for finding in found.values()):
        return None
    offsets = {site: finding.effect for site, finding in found.items() if not math.isnan(finding.effect)}
    averaged = averaged_contour(offsets, {site: answer.num_samples for site, answer in usual.items()})
    pixels = max(settings.offset_floor, settings.edge_error) if anchor.is_inferred else settings.offset_floor
    near = pixels * statistics.median(answer.pixel_size for answer in usual.values())
    return averaged if averaged is not None and averaged.is_within(near) else None


def _corrections(
    answer: ChannelAnswer,
    findings: Mapping[ParameterKey, TestResult],
    settings: JudgingSettings,
    *,
    spared: Collection[int],
) -> tuple[Correction, ...]:
    """The corrections of a site; offsets of the spared classes stay."""
    amounts: dict[ParameterKind, dict[int, float]] = {kind: {} for kind in ParameterKind}
    for key, finding in findings.items():
        is_spared = key.kind is ParameterKind.OFFSET and key.label in spared
        if finding.is_confirmed and key.kind in settings.undone_kinds and not is_spared:
            amounts[key.kind][key.label] = finding.effect
    return server_corrections(
        bias=amounts[ParameterKind.OFFSET],
        missed=amounts[ParameterKind.MISSING],
        ignored=unannotated_shares(answer, amounts[ParameterKind.MISSING]),
        relabelled=max(amounts[ParameterKind.SWAPPED].get(ALL_CLASSES, 0.0), 0.0),
    )


def unannotated_shares(answer: ChannelAnswer, missing: Mapping[int, float]) -> dict[int, float]:
    """Return by class the share of its objects that a site does not annotate, of which the surest are ignored.

    What is established counts from the most complete site, which may leave objects out itself. Ignored are as many as
    the site leaves out by its own completeness a: 1 − a, no less than what is established. A site that hides its
    patients tells the completeness of all objects that the model predicts, with its false ones: there what is
    established counts.

    Args:
        answer: of the site.
        missing: by class, the share that is established of it.
    """
    if answer.hides_patients:
        return dict(missing)
    own = {label: answer.completeness[label - 1] for label in missing}
    return {
        label: max(share, 1 - own[label].value) if own[label].is_known else share for label, share in missing.items()
    }
