"""A check's report for people: a table of the sites, then what was found, in which files, and how to mend it."""

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .annotation_checks import class_counts
from .finding import Finding, Severity, plural
from .overlap import Overlap
from .report import CheckReport, SiteReport

SHOWN = 5

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_report(report: CheckReport, console: Console) -> None:
    """Print the report of a check; findings of a kind are shown together, the first of many."""
    console.print(_overview(report))
    if (classes := _class_table(report)) is not None:
        console.print(classes)
    for site in report.sites:
        if site.findings:
            console.rule(f"[bold]{escape(site.site)}[/bold]", align="left")
        for (severity, kind), findings in groupby(site.findings, key=lambda f: (f.severity, f.kind)):
            _print_kind(severity, kind, list(findings), console)
    unable = [site.site for site in report.sites if not site.can_train]
    if unable:
        console.print(f"[red]Cannot be used as they are: {escape(', '.join(unable))}.[/red]")
    else:
        console.print("[green]Every site can train.[/green]")


def print_overlaps(sites: Sequence[str], overlaps: Sequence[Overlap], console: Console) -> None:
    """Print what lists of different sites have in common."""
    console.print(f"Compared: {escape(', '.join(sites))}")
    if not overlaps:
        console.print("[green]No image and no group is at two sites.[/green]")
        return
    table = Table(title="At two sites", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("site", "list", "other site", "list", "equal images", "equal groups"):
        table.add_column(heading, justify="right" if heading.startswith("equal") else "left")
    for overlap in overlaps:
        places = (escape(text) for text in (*overlap.first, *overlap.second))
        table.add_row(*places, str(overlap.images), str(overlap.groups))
    console.print(table)


def _overview(report: CheckReport) -> Table:
    table = Table(title=escape(report.name), box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("site", "cases", "usable", "errors", "warnings", "notes", "can train"):
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for site in report.sites:
        lists = site.lists.values()
        yes = "-" if site.role == "test" else "yes"
        table.add_row(
            escape(site.site),
            str(sum(items for items, _ in lists)) if site.facts else "-",
            str(sum(usable for _, usable in lists)) if site.facts else "-",
            *(_count(site, severity) for severity in Severity),
            yes if site.can_train else "[red]no[/red]",
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
        table.add_column(escape(name), justify="right", overflow="fold")
    for site, classes in counts.items():
        table.add_row(escape(site), *(str(classes.get(name, "-")) for name in names))
    return table


def _count(site: SiteReport, severity: Severity) -> str:
    count = site.count(severity)
    return f"[{_COLOURS[severity]}]{count}[/]" if count else "-"


def _print_kind(severity: Severity, kind: str, findings: Sequence[Finding], console: Console) -> None:
    total = f" ({plural(len(findings), 'finding')})" if len(findings) > 1 else ""
    console.print(f"[{_COLOURS[severity]}]{severity.value}[/] [bold]{kind}[/bold]{total}")
    for finding in findings[:SHOWN]:
        console.print(f"  {escape(_files(finding))}{escape(finding.found)}", soft_wrap=True, highlight=False)
    if len(findings) > SHOWN:
        console.print(f"  … and {len(findings) - SHOWN} more, see --json")
    for mend in dict.fromkeys(finding.mend for finding in findings[:SHOWN]):
        console.print(f"  [italic]→ {escape(mend)}[/italic]", soft_wrap=True, highlight=False)


def _files(finding: Finding) -> str:
    if not finding.files:
        return ""
    more = f" and {len(finding.files) - SHOWN} more" if len(finding.files) > SHOWN else ""
    return f"{', '.join(finding.files[:SHOWN])}{more}: "
