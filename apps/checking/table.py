"""A check's report for people: a table of the sites, then what was found, in which files, and what to do about it."""

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.table import Table
from rich.text import Text

from ...custom.annotation_gaps import gaps_of
from ...custom.data.datalist import SECTIONS
from ...custom.data.description import SegmentationDescription
from ...transforms.printable import printable
from ..terminal import Terminal
from .annotation_checks import class_counts
from .finding import Finding, Severity, plural
from .overlap import Overlap
from .report import CheckReport, SiteReport

SHOWN = 5

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_report(report: CheckReport, console: Terminal) -> None:
    """Print the report of a check; findings of a kind are shown together, the first of many."""
    console.print(_overview(report))
    for table in (_class_table(report), _annotation_table(report)):
        if table is not None:
            console.print(table)
    for site in report.sites:
        if site.findings:
            console.rule(Text(printable(site.site), "bold"), align="left")
        for (severity, kind), findings in groupby(site.findings, key=lambda f: (f.severity, f.kind)):
            _print_kind(severity, kind, list(findings), console)
    unable = [site.site for site in report.sites if not site.can_train]
    if unable:
        console.print(f"Cannot be used as they are: {', '.join(unable)}.", style="red")
    else:
        console.print("Every site can train.", style="green")


def print_overlaps(sites: Sequence[str], overlaps: Sequence[Overlap], console: Terminal) -> None:
    """Print what lists of different sites have in common."""
    console.print(f"Compared: {', '.join(sites)}")
    if not overlaps:
        console.print("No image and no group is at two sites.", style="green")
        return
    table = Table(title="At two sites", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("site", "list", "other site", "list", "equal images", "equal groups"):
        table.add_column(heading, justify="right" if heading.startswith("equal") else "left")
    for overlap in overlaps:
        places = (*overlap.first, *overlap.second)
        table.add_row(*places, str(overlap.images), str(overlap.groups))
    console.print(table)


def _overview(report: CheckReport) -> Table:
    table = Table(title=report.name, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("site", "cases", "usable", "errors", "warnings", "notes", "can train"):
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for site in report.sites:
        lists = site.lists.values()
        yes = "-" if site.role == "test" else "yes"
        table.add_row(
            site.site,
            str(sum(items for items, _ in lists)) if site.facts else "-",
            str(sum(usable for _, usable in lists)) if site.facts else "-",
            *(_count(site, severity) for severity in Severity),
            yes if site.can_train else Text("no", "red"),
        )
    return table


def _class_table(report: CheckReport) -> Table | None:
    """How many training cases have each class; None if there is but one class."""
    counts = {site.site: class_counts(site.facts) for site in report.sites if site.facts and site.role == "site"}
    names = list(dict.fromkeys(name for classes in counts.values() for name in classes))
    if len(names) < 2:
        return None
    table = Table(title="Usable training cases with each class", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("site")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for site, classes in counts.items():
        table.add_row(site, *(str(classes.get(name, "-")) for name in names))
    return table


def _annotation_table(report: CheckReport) -> Table | None:
    """Who annotates what; None if all annotate everything."""
    known = [site.facts for site in report.sites if site.facts]
    if not any(gaps_of(site.description) for site in known):
        return None
    table = Table(title="Who annotates what", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("site", "annotated", "not annotated", "ignored values"):
        table.add_column(heading, overflow="fold")
    table.add_column("ignored pixels", justify="right", overflow="fold")
    for site in known:
        description = site.description
        if not isinstance(description, SegmentationDescription):
            continue
        fractions = [facts.ignored for section in SECTIONS for _, facts in site.annotations(section)]
        table.add_row(
            site.site,
            ", ".join(printable(site.class_names[label]) for label in site.annotated_labels),
            ", ".join(map(printable, description.unannotated_classes)) or "-",
            ", ".join(map(str, description.ignore)) or "-",
            f"{sum(fractions) / len(fractions):.1%}" if description.ignore and fractions else "-",
        )
    return table


def _count(site: SiteReport, severity: Severity) -> Text:
    count = site.count(severity)
    return Text(str(count), _COLOURS[severity]) if count else Text("-")


def _print_kind(severity: Severity, kind: str, findings: Sequence[Finding], console: Terminal) -> None:
    total = f" ({plural(len(findings), 'finding')})" if len(findings) > 1 else ""
    console.print(Text.assemble((severity.value, _COLOURS[severity]), " ", (printable(kind), "bold"), total))
    for finding in findings[:SHOWN]:
        console.print(f"  {_files(finding)}{finding.found}", soft_wrap=True)
    if len(findings) > SHOWN:
        console.print(f"  … and {len(findings) - SHOWN} more, see --json")
    for remedy in dict.fromkeys(finding.remedy for finding in findings[:SHOWN]):
        console.print(f"  → {remedy}", style="italic", soft_wrap=True)


def _files(finding: Finding) -> str:
    if not finding.files:
        return ""
    more = f" and {len(finding.files) - SHOWN} more" if len(finding.files) > SHOWN else ""
    return f"{', '.join(finding.files[:SHOWN])}{more}: "
