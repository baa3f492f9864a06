"""Everything that pages say of what was measured, as lines: of a run's summary, and of a site's audit."""

from collections.abc import Iterator
from io import StringIO

from fedannot.apps.audit.federation_report import ParameterTable, federation_report
from fedannot.apps.reports.bias_text import bias_entries, print_channels, print_rollback
from fedannot.apps.reports.noise_level_text import noise_level_entries, print_noise_levels
from fedannot.apps.reports.run_page import _channels
from fedannot.apps.terminal import Terminal
from fedannot.apps.wording.detection import detection_sentence
from fedannot.apps.wording.findings import finding_in_words, reference_model_in_words
from fedannot.apps.wording.headline import headline
from fedannot.apps.wording.site_audit import shown_conclusions
from fedannot.apps.wording.steps import next_steps
from fedannot.custom.audit.findings import SiteAudit
from fedannot.custom.methods.auto.records import BiasFindings, RollbackFindings
from fedannot.custom.methods.auto_classification.records import ConfusionFindings
from fedannot.custom.run.summary_record import Summary


def lines_of_summary(summary: Summary) -> list[str]:
    """What terminal, run page and federation page say."""
    text = StringIO()
    console = Terminal(file=text, width=1000)
    channels, levels = summary.added(BiasFindings), summary.added(ConfusionFindings)
    print_channels(channels, summary.rounds_finished, console)
    print_rollback(summary.added(RollbackFindings), console)
    print_noise_levels(levels, console)
    lines = text.getvalue().splitlines()
    for site in summary.sites:
        lines.append(f"{site} {bias_entries(channels, site)} {noise_level_entries(levels, site)}")
    lines += _rows(_channels(summary))
    if summary.method.startswith("audit"):
        report = federation_report(summary)
        lines += [report.headline, report.decision, f"{report.kinds} {report.shares}", *_rows(report.tables)]
    return lines


def _rows(tables: tuple[ParameterTable, ...]) -> Iterator[str]:
    for table in tables:
        yield f"{table.title}: {table.reference}"
        for row in table.rows:
            yield f"{row.site}: {row.shown}, {row.interval}. {row.words}; {row.would}. {row.reason} {row.patients}"


def lines_of_audit(audit: SiteAudit) -> list[str]:
    """What the site's page says."""
    reported = [" | ".join((item.words, item.sentence, item.figures, item.reason)) for item in shown_conclusions(audit)]
    lines = [headline(audit), *reported, *next_steps(audit, None), detection_sentence(audit)]
    lines.append(reference_model_in_words(audit.predicted_by))
    findings = [finding_in_words(finding) for case in audit.cases for finding in case.findings]
    return [*lines, *dict.fromkeys(findings)]
