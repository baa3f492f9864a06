"""What the server knows of an audit, site beside site, for the federation's page: no cases."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...custom.audit.kinds.registry import KINDS
from ...custom.channel.established import UNKNOWN_ZERO
from ...custom.channel.estimate_record import EstimateRecord
from ...custom.channel.thresholds import THRESHOLDS
from ...custom.corrections.kinds import BoundaryShift, MissedObjectsIgnored, ObjectsRelabelled
from ...custom.methods.audit.conclusions import is_apart
from ...custom.methods.audit.records import AuditFindings, AuditRecord, KindShare
from ...custom.methods.audit.settings import AuditSettings
from ...custom.methods.audit_classification.records import LabelAuditFindings
from ...custom.methods.auto.records import (
    ALL_CLASSES,
    MISSING,
    OFFSET,
    SWAPPED,
    ChannelFindings,
    ChannelRecord,
    ParameterRecord,
    SiteChannelRecord,
    parameter,
)
from ...custom.methods.auto_classification.records import NoiseLevelEstimate
from ...custom.methods.lookup import read_job_settings
from ...custom.run.summary_record import Summary
from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order

_WORDS = {
    "established": "Sure",
    "small": "Too small to act on",
    "none": "About right",
    "cannot tell": "Cannot tell",
}


_KIND_TITLES = {kind.name: kind.title for kind in KINDS}
# The kind of the one parameter of an audit of labels.
WRONG_LABELS = "labels"
_TITLES = {
    OFFSET: "Contours too large (+) or too small (−)",
    MISSING: "Objects left out, %",
    SWAPPED: "Objects of another class, %",
    WRONG_LABELS: "Wrong labels, %",
}


_ZERO_OF_SHARES = {
    MISSING: "A share counts from the most complete site.",
    SWAPPED: "A share counts from the site with the least.",
}


@dataclass(frozen=True)
class SiteParameter:
    """One parameter of one site as the page shows it.

    Attributes:
        site: the site.
        deviation: from zero, of a share in percent; None where it is not known.
        low: lower end of its interval, likewise.
        high: upper end.
        unit: ``px``, ``mm`` or ``%``.
        verdict: ``established``, ``small``, ``none`` or ``cannot tell``.
        words: the same for readers.
        would: what `auto` would do.
        reason: evidence, threshold and decision.
        patients: behind the estimate.
    """

    site: str
    deviation: float | None
    low: float | None
    high: float | None
    unit: str
    verdict: str
    words: str
    would: str
    reason: str
    patients: int

    @property
    def shown(self) -> str:
        """The deviation with its unit."""
        return "–" if self.deviation is None else f"{_signed(self.deviation, self.unit)} {self.unit}"

    @property
    def interval(self) -> str:
        """Its interval."""
        if self.low is None or self.high is None:
            return "–"
        return f"{_signed(self.low, self.unit)} to {_signed(self.high, self.unit)}"


@dataclass(frozen=True)
class ParameterTable:
    """One parameter of a class at all sites.

    Attributes:
        title: what it is.
        zero: where zero lies, and what that assumes; empty for shares.
        rows: by site, in their order.
    """

    title: str
    zero: str
    rows: tuple[SiteParameter, ...]


@dataclass(frozen=True)
class FederationReport:
    """What the federation's page shows.

    Attributes:
        headline: in a sentence.
        decision: what `auto` would do.
        tables: by parameter.
        kinds: names of the kinds of problems.
        shares: by site, of each kind the share of patients with a finding, and its AUROC there, in words.
        patients: audited, by site.
        silent: sites that reported nothing, or have not been told.
    """

    headline: str
    decision: str
    tables: tuple[ParameterTable, ...]
    kinds: tuple[str, ...]
    shares: dict[str, tuple[str, ...]]
    patients: dict[str, int]
    silent: tuple[str, ...]

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
    kinds = tuple(dict.fromkeys(kind for of_site in audit.kinds.values() for kind in of_site))
    return FederationReport(
        headline=_headline(channel, audit),
        decision=channel.decision,
        tables=parameter_tables(channel, audit.units, summary),
        kinds=tuple(_KIND_TITLES.get(kind, kind.replace("_", " ")) for kind in kinds),
        shares={
            site: tuple(_share(audit.kinds[site].get(kind)) for kind in kinds)
            for site in sorted(audit.kinds, key=natural_order)
        },
        patients=audit.patients,
        silent=tuple(sorted(set(summary.sites) - set(audit.told), key=natural_order)),
    )


def parameter_tables(channel: ChannelRecord, units: Mapping[str, str], summary: Summary) -> tuple[ParameterTable, ...]:
    """Return what is known of how sites annotate, a table for every parameter, by class, contours first.

    Args:
        channel: an estimate of all sites.
        units: of offsets, by site, ``px`` or ``mm``; pixels where a site is not in it.
        summary: of the run, for its settings.
    """
    sites = sorted(channel.sites, key=natural_order)
    names = dict.fromkeys(name for site in sites for name in channel.sites[site].parameters)
    return tuple(_table(channel, units, name, summary) for name in sorted(names, key=_place))


def _concluded(summary: Summary) -> tuple[ChannelRecord, AuditRecord]:
    """What was concluded of all sites, and what they reported of their cases."""
    channels, findings = summary.added(ChannelFindings), summary.added(AuditFindings)
    if channels is not None and findings is not None and findings.audit is not None and channels.channels:
        return channels.channels[-1], findings.audit
    labels = summary.added(LabelAuditFindings)
    if labels is not None and labels.audit is not None:
        noisy = sorted((site for site, one in labels.noise_levels.items() if one.established), key=natural_order)
        would = f"wrong labels at {len(noisy)} of {len(labels.noise_levels)} sites" if noisy else "nothing at any site"
        decision = f"jobs/auto_classification would undo {would}."
        channel = _labels_as_channel(labels.noise_levels, labels.neutral_is, summary.rounds_finished + 1, decision)
        return channel, labels.audit
    raise DataError(f"The run of {summary.method!r} audited nothing; expected one of jobs/audit that came to its end.")


def noise_level_tables(estimate: NoiseLevelEstimate, summary: Summary) -> tuple[ParameterTable, ...]:
    """Return what `auto_classification` knows of the sites' labels, as :func:`parameter_tables` does of contours.

    Args:
        estimate: of all sites.
        summary: of the run, for its settings.
    """
    levels = {
        site: ParameterRecord(
            **one.model_dump(include=set(EstimateRecord.model_fields)),
            deviation=None if one.estimate is None else one.estimate - estimate.neutral,
            p_value=one.p_value,
            established=one.is_established,
            reason=one.reason,
        )
        for site, one in estimate.sites.items()
    }
    return parameter_tables(_labels_as_channel(levels, estimate.neutral_is, estimate.before_round), {}, summary)


def _labels_as_channel(
    levels: Mapping[str, ParameterRecord], neutral_is: str, before_round: int, decision: str = ""
) -> ChannelRecord:
    """The noise levels as a channel with one parameter, of all classes together."""
    return ChannelRecord(
        before_round=before_round,
        zero={str(ALL_CLASSES): neutral_is},
        decision=decision,
        sites={
            site: SiteChannelRecord(
                parameters={parameter(WRONG_LABELS, ALL_CLASSES): one}, corrections=(), corrected_before_round=None
            )
            for site, one in levels.items()
        },
    )


def _place(name: str) -> tuple[bool, int, bool]:
    """By class, contours first; at last what is of all classes."""
    kind, _, label = name.partition(" ")
    return int(label) == ALL_CLASSES, int(label), kind != OFFSET


def _headline(channel: ChannelRecord, audit: AuditRecord) -> str:
    if audit.is_fit is False:
        return "Nothing could be judged: the model found too little of what is annotated."
    parameters = {site: record.parameters for site, record in channel.sites.items()}

    def sites_where(kind: str, sign: int) -> int:
        return sum(
            any(
                name.startswith(kind) and one.established and sign * (one.deviation or 0) > 0
                for name, one in of_site.items()
            )
            for of_site in parameters.values()
        )

    counts = (
        (sites_where(OFFSET, -1), "contours too small"),
        (sites_where(OFFSET, 1), "contours too large"),
        (sites_where(MISSING, 1), "objects left out"),
        (sites_where(SWAPPED, 1), "objects of another class"),
        (sites_where(WRONG_LABELS, 1), "wrong labels"),
    )
    found = [f"{what} at {count}" for count, what in counts if count]
    if found:
        listed = f"{', '.join(found)} of {len(parameters)} sites."
        return listed[0].upper() + listed[1:]
    if apart := _largest_difference(parameters):
        units = set(audit.units.values())
        unit = f" {units.pop()}" if len(units) == 1 else ""
        return f"Contours differ by up to {apart:.1f}{unit} between sites; only a review can tell which are right."
    if any(one.p_value is None for of_site in parameters.values() for one in of_site.values()):
        return "No site is established to annotate differently; not all could be told."
    return "All sites annotate alike, as far as this audit can tell."


def _largest_difference(parameters: Mapping[str, Mapping[str, ParameterRecord]]) -> float | None:
    """By how much offsets differ between sites of which it is only not known where zero is; None if by little."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for of_site in parameters.values():
        for name, one in of_site.items():
            if name.startswith(OFFSET) and UNKNOWN_ZERO in one.reason and one.from_zero is not None:
                found.setdefault(name, []).append(one.from_zero)
    extents = [
        max(middle for middle, _, _ in of_class) - min(middle for middle, _, _ in of_class)
        for of_class in found.values()
        if any(is_apart(one) for one in of_class)
    ]
    return max(extents, default=None)


def _table(channel: ChannelRecord, units: Mapping[str, str], name: str, summary: Summary) -> ParameterTable:
    kind, _, label = name.partition(" ")
    settings = read_job_settings(summary.settings, of_finished_run=True)
    level = settings.level if isinstance(settings, AuditSettings) else THRESHOLDS.test_level
    rows = tuple(
        _row(site, name, channel.sites[site], units.get(site, "px"), level)
        for site in sorted(channel.sites, key=natural_order)
        if name in channel.sites[site].parameters
    )
    what, is_of_all = _TITLES[kind], len(channel.zero) == 1 or label == str(ALL_CLASSES)
    return ParameterTable(
        what if is_of_all else f"Class {label}: {what[0].lower()}{what[1:]}",
        _ZERO_OF_SHARES.get(kind, channel.zero.get(label, "")),
        rows,
    )


def _row(site: str, name: str, record: SiteChannelRecord, unit: str, level: float) -> SiteParameter:
    parameter = record.parameters[name]
    kind, _, label = name.partition(" ")
    scale, unit = (1.0, unit) if kind == OFFSET else (100.0, "%")
    verdict = parameter.verdict(level)
    from_zero = parameter.from_zero
    deviation, low, high = (None,) * 3 if from_zero is None else (scale * value for value in from_zero)
    return SiteParameter(
        site=site,
        deviation=deviation,
        low=low,
        high=high,
        unit=unit,
        verdict=verdict,
        words=_WORDS[verdict],
        would=_would(kind, label, record, unit),
        reason=parameter.reason,
        patients=parameter.patients,
    )


def _would(kind: str, label: str, record: SiteChannelRecord, unit: str) -> str:
    shift, missed = record.of(BoundaryShift), record.of(MissedObjectsIgnored)
    if kind == OFFSET and shift is not None and int(label) in shift.moves:
        return f"move contours by {_signed(shift.moves[int(label)], unit)} {unit}"
    if kind == MISSING and missed is not None and int(label) in missed.missed:
        return "ignore objects that are probably missing"
    if kind == SWAPPED and record.of(ObjectsRelabelled) is not None:
        return "give objects the class that they look like, the surest ones"
    if kind == WRONG_LABELS and record.parameters[f"{kind} {label}"].established:
        return "undo wrong labels"
    return "nothing"


def _share(found: KindShare | None) -> str:
    if found is None or found.flagged is None:
        return "–"
    auroc = "not known" if found.auroc is None else f"{found.auroc:.2f}"
    return f"{100 * found.flagged:.0f} % ({auroc})"


def _signed(value: float, unit: str) -> str:
    """With a true minus, which is not taken for a hyphen, and no sign where it rounds to nothing."""
    decimals = 0 if unit == "%" else 1
    rounded = round(value, decimals)
    return f"{rounded:+.{decimals}f}".replace("-", "−") if rounded else f"{0.0:.{decimals}f}"
