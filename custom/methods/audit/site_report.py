"""What a site's audit leaves: its findings in the run's folder, and the shares over patients that alone leave it."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...annotation_bias.annotators.records import AnnotatorsAudit
from ...annotation_bias.statuses import Unit
from ...audit.decisions import DECISIONS_FILE, read_decisions, write_decisions
from ...audit.findings import AUDIT_FOLDER, AuditedCase, KindResult, ReferenceModelKind, SiteAudit, write_audit
from ...data.site_data import SiteData
from ...data.whole_files import private_folder
from ...interface.views import Answer, SiteView
from ...networks.hashing import model_hash
from .outbound import AUROC, FLAGGED
from .settings import FoldsSettings

if TYPE_CHECKING:
    from .reference_models import ReferenceModels

_DIGITS = 3


def site_report(
    site: SiteView,
    data: SiteData,
    models: "ReferenceModels",
    settings: FoldsSettings,
    found: tuple[Sequence[AuditedCase], Sequence[KindResult]],
    *,
    kinds: Sequence[str],
    unit: Unit | None,
    annotators: AnnotatorsAudit | None = None,
) -> Answer:
    """Write what was found into the run's folder, and return shares; these alone leave.

    Decisions that somebody has made in the folder, or in that of a run that goes on, stay.

    Args:
        site: the site.
        data: what was audited.
        models: the reference models.
        settings: the job's.
        found: the cases, the worst first, and what was looked for.
        kinds: of which shares leave, in their order.
        unit: of lengths; None of labels.
        annotators: what is known of them; None where fewer than two are named.
    """
    cases, results = found
    folder, patients = site.run_folder / AUDIT_FOLDER, sorted(set(data.units))
    private_folder(folder)
    write_audit(
        folder,
        SiteAudit(
            site=site.name,
            data=str(site.locate().folder.resolve()),
            method=settings.method,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            model_sha256=model_hash(models.last.state_dict()),
            predicted_by=ReferenceModelKind(folds=models.num_models, num_absent=models.num_absent),
            task=settings.task,
            classes=data.classes,
            unit=unit,
            num_cases=len(data.cases),
            num_patients=len(patients),
            left_out=tuple((item.name, item.reason) for item in data.excluded),
            kinds=tuple(results),
            cases=tuple(cases),
            annotators=annotators,
        ),
    )
    _keep_decisions(site)
    site.info(f"Audited {len(data.cases)} cases; what is found lies in {folder}.")
    return Answer(
        {
            "num_patients": len(patients),
            FLAGGED: [_share(kind, cases, len(patients)) for kind in kinds],
            AUROC: [_auroc(kind, results) for kind in kinds],
        }
    )


def _keep_decisions(site: SiteView) -> None:
    """Take over the decisions of the run that is continued, where this one has none."""
    folder = site.run_folder / AUDIT_FOLDER
    if (folder / DECISIONS_FILE).is_file():
        return
    for earlier in site.earlier_folders:
        if (earlier / AUDIT_FOLDER / DECISIONS_FILE).is_file():
            write_decisions(folder, read_decisions(earlier / AUDIT_FOLDER, site.name))
            return


def _share(kind: str, cases: Sequence[AuditedCase], num_patients: int) -> float:
    """Fraction of the patients with a finding of a kind."""
    flagged = {case.unit for case in cases if any(finding.kind == kind for finding in case.findings)}
    return round(len(flagged) / num_patients, _DIGITS)


def _auroc(kind: str, results: Sequence[KindResult]) -> float:
    result = [item.auroc for item in results if item.kind == kind and item.auroc is not None]
    return round(result[0], _DIGITS) if result else math.nan
