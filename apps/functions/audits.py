"""An audit of annotations, and a finished one as a value that a notebook shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ...custom.audit.findings import SiteAudit
from ...custom.run.summary_record import Summary
from ..audit.federation_page import FEDERATION_PAGE, write_federation_page
from ..audit.federation_report import FederationReport, federation_report
from ..audit.found import FoundAudit, find_audits
from ..audit.running import run_audit
from ..audit.site_page import PAGE_FILE, write_site_page
from ..reports.html import html_paragraphs, html_table
from ..reports.output import read_summary
from ..runs.progress import OnProgress, Progress, progress_of
from ..wording.headline import headline


@dataclass(frozen=True)
class Audit:
    """A finished audit; a notebook shows the sites side by side, without a case.

    Attributes:
        folder: its output folder.
        summary: of its run.
    """

    folder: Path
    summary: Summary

    @cached_property
    def _found(self) -> list[FoundAudit]:
        return find_audits(self.folder)

    @property
    def sites(self) -> dict[str, SiteAudit]:
        """What was found at each site, which names its cases."""
        return {found.site: found.audit for found in self._found}

    @property
    def report(self) -> FederationReport:
        """What is known of all sites, without a case."""
        return federation_report(self.summary)

    @property
    def pages(self) -> dict[str, Path]:
        """The page of each site, which shows its cases."""
        return {found.site: found.folder / PAGE_FILE for found in self._found}

    @property
    def federation_page(self) -> Path:
        """The page with all sites side by side, without a case."""
        return self.folder / FEDERATION_PAGE

    def __str__(self) -> str:
        return "\n".join(f"{site}: {headline(found)}" for site, found in self.sites.items())

    def _repr_html_(self) -> str:
        report = self.report
        tables = [
            html_paragraphs(table.title, table.reference)
            + html_table(
                {
                    "site": [row.site for row in table.rows],
                    "from reference level": [row.shown for row in table.rows],
                    "90 % interval": [row.interval for row in table.rows],
                    "known": [row.words for row in table.rows],
                    "auto would": [row.would for row in table.rows],
                },
                left=("known", "auto would"),
            )
            for table in report.tables
        ]
        pages = [f"{site}, with its cases: {page}" for site, page in self.pages.items()]
        return "".join([html_paragraphs(report.headline, report.decision), *tables, html_paragraphs(*pages)])


def audit(
    data: str | Path | None,
    out: str | Path,
    *,
    profile: Literal["quick", "thorough"] = "quick",
    changes: Mapping[str, Any] | None = None,
    seed: int | None = None,
    resume: bool = False,
    jobs: str | Path | None = None,
    on_progress: OnProgress | Progress | None = None,
) -> Audit:
    """Audit annotations: a short federation trains reference models them; given files are never changed.

    Every site gets a page, which shows patients' images and stays there; the federation gets one without any case.

    Args:
        data: a federation's folder, or one site's; None for generated images.
        out: output folder.
        profile: ``thorough`` has contours predicted by models that have not learnt them, in twice the rounds.
        changes: settings that replace the job's.
        seed: of everything random; None for the job's.
        resume: go on with the audit in `out`.
        jobs: a folder of jobs; None for those that are installed.
        on_progress: is given every step.

    Raises:
        DataError: if the data are neither a federation's nor a site's, or cannot be used.
        JobError, SettingsError, RunError: see :func:`fedannot.apps.runs.simulate.simulate`.

    >>> import fedannot
    >>> fedannot.audit("nowhere", "runs/audit")
    Traceback (most recent call last):
    ...
    fedannot.transforms.data_error.DataError: nowhere: found neither federation.yaml nor data.yaml; expected a \
federation's folder or a site's.
    """
    progress, folder = progress_of(on_progress), Path(out)
    summary = run_audit(
        folder,
        jobs=None if jobs is None else Path(jobs),
        data=None if data is None else Path(data),
        profile=profile,
        overrides=dict(changes or {}) | ({} if seed is None else {"seed": seed}),
        resume=resume,
        progress=progress,
    )
    progress.state("Writing the pages.")
    made = Audit(folder, summary)
    for result in made._found:
        write_site_page(result, result.folder / PAGE_FILE)
    write_federation_page(summary, made.federation_page)
    return made


def read_audit(folder: str | Path) -> Audit:
    """Return an audit that is finished already.

    Raises:
        OutputError: if there is none.

    >>> from fedannot.apps import read_audit
    >>> read_audit("nowhere")
    Traceback (most recent call last):
    ...
    fedannot.apps.reports.output.OutputError: Expected the output of a run in nowhere, but there is no summary.json.
    """
    return Audit(Path(folder), read_summary(Path(folder)))
