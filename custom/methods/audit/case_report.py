"""A site scores its cases, and says what leaves of that: shares over patients, by kind of problem."""

import math
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...audit.auditing import audit_site
from ...audit.findings import AUDIT_FOLDER, AuditedCase, KindResult, SiteAudit, write_audit
from ...audit.kind_names import SEGMENTATION_KINDS
from ...data.datalist import TRAINING
from ...networks.hashing import model_hash
from ...seeding import derive_seed
from ..views import Answer, SiteView
from .outbound import AUROC, FLAGGED
from .settings import AuditSettings

if TYPE_CHECKING:
    from .judges import Judges

_DIGITS = 3


def case_report(judges: "Judges", site: SiteView, settings: AuditSettings) -> Answer:
    """Audit a site's cases, write what is found into the run's folder, and return shares; these alone leave.

    Args:
        judges: the models that judge.
        site: the site.
        settings: the job's.
    """
    data, data_folder, folder = site.load(TRAINING), site.locate().folder, site.run_folder / AUDIT_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    seed = derive_seed(site.seed, site.name, "audit")
    cases, kinds = audit_site(data, judges.network_of, judges.inference, data_folder, folder, seed=seed)
    patients = sorted(set(data.units))
    write_audit(
        folder,
        SiteAudit(
            site=site.name,
            data=str(data_folder.resolve()),
            method=settings.method,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            model_sha256=model_hash(judges.last.state_dict()),
            judged_by=judges.in_words(),
            task=settings.task,
            classes=data.classes,
            unit="px" if data.cases[0].spacing is None else "mm",
            num_cases=len(data.cases),
            num_patients=len(patients),
            left_out=tuple((one.name, one.reason) for one in data.excluded),
            kinds=kinds,
            cases=cases,
        ),
    )
    site.info(f"Audited {len(data.cases)} cases; what is found lies in {folder}.")
    return Answer(
        {
            "num_patients": len(patients),
            FLAGGED: [_share(kind, cases, len(patients)) for kind in SEGMENTATION_KINDS],
            AUROC: [_auroc(kind, kinds) for kind in SEGMENTATION_KINDS],
        }
    )


def _share(kind: str, cases: tuple[AuditedCase, ...], num_patients: int) -> float:
    """Share of the patients with a finding of a kind."""
    flagged = {case.unit for case in cases if any(one.kind == kind for one in case.findings)}
    return round(len(flagged) / num_patients, _DIGITS)


def _auroc(kind: str, kinds: tuple[KindResult, ...]) -> float:
    found = [one.auroc for one in kinds if one.kind == kind and one.auroc is not None]
    return round(found[0], _DIGITS) if found else math.nan
