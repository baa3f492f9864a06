"""What the server knows of an audit, site beside site, for the federation's page: no cases."""

from dataclasses import dataclass

from ...custom.methods.audit.records import AuditFindings, AuditRecord
from ...custom.methods.audit.settings import AuditSettings
from ...custom.methods.auto.decisions import MISSING, OFFSET
from ...custom.methods.auto.records import ChannelFindings, ChannelRecord, SiteChannelRecord
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
        shares: by site, of each kind the share of patients with a finding in percent, and its AUROC there.
        patients: audited, by site.
        silent: sites that reported nothing, or have not been told.
    """

    headline: str
    decision: str
    tables: tuple[ParameterTable, ...]
    kinds: tuple[str, ...]
    shares: dict[str, tuple[tuple[float | None, float | None], ...]]
    patients: dict[str, int]
    silent: tuple[str, ...]


def federation_report(summary: Summary) -> FederationReport:
    """Put together what the page of an audited federation shows.

    Args:
        summary: of the run.

    Raises:
        DataError: if the run audited nothing.
    """
    channels, findings = summary.added(ChannelFindings), summary.added(AuditFindings)
    if channels is None or findings is None or findings.audit is None or not channels.channels:
        raise DataError(
            f"The run of {summary.method!r} audited nothing; expected one of jobs/audit that came to its end."
        )
    channel, audit = channels.channels[-1], findings.audit
    sites = sorted(channel.sites, key=natural_order)
    names = dict.fromkeys(name for site in sites for name in channel.sites[site].parameters)
    tables = tuple(_table(channel, audit, name, summary) for name in sorted(names, key=lambda one: one.split()[::-1]))
    different = [site for site in sites if any(one.established for one in channel.sites[site].parameters.values())]
    kinds = tuple(dict.fromkeys(kind for of_site in audit.kinds.values() for kind in of_site))
    return FederationReport(
        headline=_headline(different, sites, tables),
        decision=channel.decision,
        tables=tables,
        kinds=tuple(kind.replace("_", " ") for kind in kinds),
        shares={
            site: tuple((_percent(audit.kinds[site][kind].flagged), audit.kinds[site][kind].auroc) for kind in kinds)
            for site in sorted(audit.kinds, key=natural_order)
        },
        patients=audit.patients,
        silent=tuple(sorted(set(summary.sites) - set(audit.told), key=natural_order)),
    )


def _headline(different: list[str], sites: list[str], tables: tuple[ParameterTable, ...]) -> str:
    if different:
        count = "One site annotates" if len(different) == 1 else f"{len(different)} of {len(sites)} sites annotate"
        return f"{count} differently from the others, established: {', '.join(different)}."
    rows = [row for table in tables for row in table.rows]
    if any(row.verdict == "cannot tell" for row in rows):
        return "No site is established to annotate differently; not all could be told."
    return "All sites annotate alike, as far as this audit can tell."


def _table(channel: ChannelRecord, audit: AuditRecord, name: str, summary: Summary) -> ParameterTable:
    kind, _, label = name.partition(" ")
    settings = read_job_settings(summary.settings)
    assert isinstance(settings, AuditSettings)
    rows = tuple(
        _row(site, name, channel.sites[site], audit.units.get(site, "px"), settings.level)
        for site in sorted(channel.sites, key=natural_order)
        if name in channel.sites[site].parameters
    )
    what = "Contours too large (+) or too small (−)" if kind == OFFSET else "Objects left out, %"
    is_only = len(channel.zero) == 1
    return ParameterTable(
        what if is_only else f"Class {label}: {what[0].lower()}{what[1:]}",
        channel.zero.get(label, "") if kind == OFFSET else "A share counts from the most complete site.",
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
    if kind == OFFSET and label in record.offsets:
        return f"move contours by {-record.offsets[label]:+.1f} {unit}"
    if kind == MISSING and label in record.missing:
        return "ignore objects that are probably missing"
    return "nothing"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
