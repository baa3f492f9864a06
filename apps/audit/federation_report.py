"""What the server knows of an audit, site by site, for the federation's page: no cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...custom.annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from ...custom.annotation_bias.parameters import WRONG_LABELS, ParameterKey, ParameterKind
from ...custom.annotation_bias.statuses import Evidence, EvidenceCode, Status, Unit
from ...custom.methods.audit.records import AuditFindings, AuditRecord
from ...custom.methods.audit_classification.records import LabelAuditFindings
from ...custom.methods.auto.records import (
    BiasFindings,
    BiasRecord,
    DecisionRecord,
    Outcome,
    SiteBiasRecord,
)
from ...custom.methods.auto_classification.records import NoiseLevelEstimate
from ...custom.run.summary_record import Summary
from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from ..wording.annotator_classes import ReportedLabelRow, reported_kappas, reported_label_rows
from ..wording.annotators import ReportedRow, reported_rows
from ..wording.decisions import decision_in_words
from ..wording.evidence import reason_in_words, reference_level_in_words
from ..wording.federation import (
    FederationLead,
    Problem,
    interval_in_words,
    lead_in_words,
    length_in_words,
    reference_of_fractions,
    share_in_words,
    table_title,
    would_in_words,
)
from ..wording.findings import kind_title
from ..wording.parameters import NOT_CONFIRMED, STATUS_WORDS, is_apart, is_open
from ..wording.site_audit import style_of


@dataclass(frozen=True)
class SiteParameter:
    """One parameter of one site as the page shows it.

    Attributes:
        site: the site.
        effect: relative to the reference level, a fraction in percent; None where it is not known.
        low: lower end of its interval, as above.
        high: upper end.
        unit: ``px``, ``mm`` or ``%``.
        status: what is known.
        is_open: whether nothing is significant and nothing that matters is excluded.
        would: what `auto` would do.
        reason: evidence, threshold and decision.
        patients: behind the estimate.
    """

    site: str
    effect: float | None
    low: float | None
    high: float | None
    unit: str
    status: Status
    is_open: bool
    would: str
    reason: str
    patients: int

    @property
    def words(self) -> str:
        """The status for readers."""
        return NOT_CONFIRMED if self.is_open else STATUS_WORDS[self.status]

    @property
    def style(self) -> str:
        """What the style sheet calls the status."""
        return style_of(self.status)

    @property
    def shown(self) -> str:
        """The effect with its unit."""
        return length_in_words(self.effect, self.unit)

    @property
    def interval(self) -> str:
        """Its interval."""
        return interval_in_words(self.low, self.high, self.unit)


@dataclass(frozen=True)
class ParameterTable:
    """One parameter of a class at all sites.

    Attributes:
        title: what it is.
        reference: where the reference level is, and what that assumes; of fractions, which site they are relative to.
        rows: by site, in their order.
    """

    title: str
    reference: str
    rows: tuple[SiteParameter, ...]


@dataclass(frozen=True)
class FederationReport:
    """What the federation's page shows.

    Attributes:
        lead: what the headline says, in numbers.
        decision: what `auto` would do.
        tables: by parameter.
        kinds: names of the kinds of problems.
        shares: by site, of each kind the fraction of patients with a finding, and its AUROC there, in words.
        patients: audited, by site.
        silent: sites that reported nothing, or have not been informed.
        annotators: of sites that reported some, by site and number.
        label_annotators: the same of class labels.
        kappas: by site that reported it, how far its annotators agree on class labels.
    """

    lead: FederationLead
    decision: str
    tables: tuple[ParameterTable, ...]
    kinds: tuple[str, ...]
    shares: dict[str, tuple[str, ...]]
    patients: dict[str, int]
    silent: tuple[str, ...]
    annotators: tuple[ReportedRow, ...] = ()
    label_annotators: tuple[ReportedLabelRow, ...] = ()
    kappas: Mapping[str, str] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """The most important thing in a sentence."""
        return lead_in_words(self.lead)

    @property
    def num_sites(self) -> int:
        """How many sites have been audited."""
        return len(self.patients)

    @property
    def num_patients(self) -> int:
        """How many patients have, at all sites."""
        return sum(self.patients.values())


def federation_report(summary: Summary) -> FederationReport:
    """Put together what the page of an audited federation shows.

    Args:
        summary: of the run.

    Raises:
        DataError: if the run audited nothing.
    """
    channel, audit = _concluded(summary)
    labels = summary.added(LabelAuditFindings)
    of_labels = {} if labels is None else labels.annotators
    kinds = tuple(dict.fromkeys(kind for of_site in audit.kinds.values() for kind in of_site))
    return FederationReport(
        lead=_lead(channel, audit),
        decision=decision_in_words(channel),
        tables=parameter_tables(channel, audit.units),
        kinds=tuple(map(kind_title, kinds)),
        shares={
            site: tuple(share_in_words(audit.kinds[site].get(kind)) for kind in kinds)
            for site in sorted(audit.kinds, key=natural_order)
        },
        patients=audit.patients,
        silent=tuple(sorted(set(summary.sites) - set(audit.informed), key=natural_order)),
        annotators=reported_rows(audit.annotators, audit.units),
        label_annotators=reported_label_rows(of_labels),
        kappas=reported_kappas(of_labels),
    )


def parameter_tables(channel: BiasRecord, units: Mapping[str, Unit]) -> tuple[ParameterTable, ...]:
    """Return what is known of how sites annotate, a table for every parameter, by class, contours first.

    Args:
        channel: an estimate of all sites.
        units: of boundary biases, by site, ``px`` or ``mm``; pixels where a site is not in it.
    """
    sites = sorted(channel.sites, key=natural_order)
    keys = dict.fromkeys(key for site in sites for key in channel.sites[site].parameters)
    return tuple(_table(channel, units, key) for key in sorted(keys, key=_place))


def _concluded(summary: Summary) -> tuple[BiasRecord, AuditRecord]:
    """What was concluded of all sites, and what they reported of their cases."""
    channels, findings = summary.added(BiasFindings), summary.added(AuditFindings)
    if channels is not None and findings is not None and findings.audit is not None and channels.channels:
        return channels.channels[-1], findings.audit
    labels = summary.added(LabelAuditFindings)
    if labels is not None and labels.audit is not None:
        noisy = tuple(
            sorted((site for site, one in labels.noise_levels.items() if one.is_confirmed), key=natural_order)
        )
        before_round = summary.rounds_finished + 1
        return _labels_as_channel(labels.noise_levels, labels.right_labels, before_round, noisy), labels.audit
    raise DataError(f"The run of {summary.method!r} audited nothing; expected one of jobs/audit that came to its end.")


def noise_level_tables(estimate: NoiseLevelEstimate) -> tuple[ParameterTable, ...]:
    """Return what `auto_classification` knows of the sites' labels, as :func:`parameter_tables` does of contours.

    Args:
        estimate: of all sites.
    """
    levels = {
        # The effect is the difference from the reference level, which version 1 says of all sites together.
        site: one if one.effect is not None or one.estimate is None else _from_reference_level(one, estimate.neutral)
        for site, one in estimate.sites.items()
    }
    return parameter_tables(_labels_as_channel(levels, estimate.right_labels, estimate.before_round), {})


def _from_reference_level(one: ParameterRecord, level: float) -> ParameterRecord:
    return one.model_copy(update={"effect": (one.estimate or 0.0) - level})


def _labels_as_channel(
    levels: Mapping[str, ParameterRecord],
    right_labels: Evidence | None,
    before_round: int,
    noisy: tuple[str, ...] = (),
) -> BiasRecord:
    """The noise levels as a channel with one parameter, of all classes together."""
    reference = ReferenceLevelRecord(
        kind=None,
        value=None,
        standard_error=None,
        is_confident=True,
        unit=None,
        reasons=() if right_labels is None else (right_labels,),
    )
    outcome = Outcome.CORRECTED if noisy else Outcome.NOTHING
    return BiasRecord(
        before_round=before_round,
        reference_levels={WRONG_LABELS.label: reference},
        decision=DecisionRecord(outcome=outcome, is_applied=False, corrected=noisy),
        sites={
            site: SiteBiasRecord(parameters={WRONG_LABELS: one}, corrections=(), corrected_before_round=None)
            for site, one in levels.items()
        },
    )


def _place(key: ParameterKey) -> tuple[bool, int, bool]:
    """By class, contours first; at last what is of all classes."""
    return key.is_of_all_classes, key.label, key.kind is not ParameterKind.OFFSET


_PROBLEMS = {
    Problem.TOO_SMALL: (ParameterKind.OFFSET, -1),
    Problem.TOO_LARGE: (ParameterKind.OFFSET, 1),
    Problem.LEFT_OUT: (ParameterKind.MISSING, 1),
    Problem.ANOTHER_CLASS: (ParameterKind.CONFUSED, 1),
    Problem.WRONG_LABELS: (ParameterKind.LABELS, 1),
}


def _lead(channel: BiasRecord, audit: AuditRecord) -> FederationLead:
    parameters = {site: record.parameters for site, record in channel.sites.items()}
    counts = {
        problem: sum(_is_found(of_site, kind, sign) for of_site in parameters.values())
        for problem, (kind, sign) in _PROBLEMS.items()
    }
    units = set(audit.units.values())
    return FederationLead(
        is_unfit=audit.is_fit is False,
        num_sites=len(parameters),
        counts={problem: count for problem, count in counts.items() if count},
        largest_difference=_largest_difference(parameters),
        unit=units.pop() if len(units) == 1 else None,
        is_any_unknown=any(
            item.status is Status.UNKNOWN for of_site in parameters.values() for item in of_site.values()
        ),
    )


def _is_found(parameters: Mapping[ParameterKey, ParameterRecord], kind: ParameterKind, sign: int) -> bool:
    """Whether an effect in a direction is confirmed of any class."""
    return any(
        key.kind is kind and one.is_confirmed and sign * (one.effect or 0.0) > 0 for key, one in parameters.items()
    )


def _largest_difference(parameters: Mapping[str, Mapping[ParameterKey, ParameterRecord]]) -> float | None:
    """By how much boundary biases differ between sites where only the reference level is unknown; None if by little."""
    result: dict[ParameterKey, list[tuple[float, float, float]]] = {}
    for of_site in parameters.values():
        for key, one in of_site.items():
            is_untested = key.kind is ParameterKind.OFFSET and one.has(EvidenceCode.REFERENCE_UNSURE)
            if is_untested and one.from_reference is not None:
                result.setdefault(key, []).append(one.from_reference)
    extents = [
        max(middle for middle, _, _ in of_class) - min(middle for middle, _, _ in of_class)
        for of_class in result.values()
        if any(is_apart(item) for item in of_class)
    ]
    return max(extents, default=None)


def _table(channel: BiasRecord, units: Mapping[str, Unit], key: ParameterKey) -> ParameterTable:
    rows = tuple(
        _row(site, key, channel.sites[site], units.get(site, "px"))
        for site in sorted(channel.sites, key=natural_order)
        if key in channel.sites[site].parameters
    )
    is_only = len(channel.reference_levels) == 1 or key.is_of_all_classes
    if (reference := reference_of_fractions(key.kind)) is None:
        known = key.label in channel.reference_levels
        reference = reference_level_in_words(channel.reference_levels[key.label]) if known else ""
    return ParameterTable(table_title(key, is_only=is_only), reference, rows)


def _row(site: str, key: ParameterKey, record: SiteBiasRecord, unit: Unit) -> SiteParameter:
    parameter, is_length = record.parameters[key], key.kind is ParameterKind.OFFSET
    scale = 1.0 if is_length else 100.0
    from_reference = parameter.from_reference
    effect, low, high = (None,) * 3 if from_reference is None else (scale * value for value in from_reference)
    return SiteParameter(
        site=site,
        effect=effect,
        low=low,
        high=high,
        unit=unit if is_length else "%",
        status=parameter.status,
        is_open=is_open(parameter),
        would=would_in_words(key, record, unit),
        reason=reason_in_words(parameter),
        patients=parameter.patients,
    )
