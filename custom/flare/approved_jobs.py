"""Refusing jobs that a participant has not approved, in its parent process, before anything of a job is parsed.

NVFlare looks at the classes that a job names only when it builds them, in the process of the job, and parses the job's
configuration before that, in the parent process too. What stands here comes first; :mod:`.site_gate` asks it at a site
before anything is unpacked, :mod:`.job_gate` at the server before anything is stored.
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.private.fed.utils.app_deployer import AppDeployer

# Loaded when the parent process starts: a deployment has a few seconds.
from ..approval.approved import check_job
from ..approval.configuration import JobRefusedError
from ..approval.submission import check_meta, read_app
from ..data.path_names import is_job_id

_LOGGER = logging.getLogger(__name__)


def refusal(what: str, error: Exception) -> str:
    """Log why something is refused, and return what others learn of it.

    Args:
        what: what is refused.
        error: the reason; if it is none that was foreseen, its text stays here.
    """
    if isinstance(error, JobRefusedError):
        _LOGGER.warning("Refused %s: %s", what, error)
        return f"Refused: {error}"
    _LOGGER.error("Refused %s, which could not be looked at.", what, exc_info=error)
    unread = JobRefusedError("it could not be looked at; see the participant's log.")
    return f"Refused: {unread}"


def refusal_of_job(job_id: Any, job_meta: Any, app_data: Any, config_folder: Path) -> str:
    """Return why a participant does not take part in a job, empty if it does.

    Args:
        job_id: the job's id, which becomes a folder.
        job_meta: what the server says of the job.
        app_data: the archive of its app.
        config_folder: the kit's folder ``local``.
    """
    try:
        if not (isinstance(job_id, str) and is_job_id(job_id)):
            raise JobRefusedError("The job's id is not one of NVFlare's.")
        sites = check_meta(job_meta)
        check_job(replace(read_app(app_data), sites=sites), config_folder)
    except Exception as error:
        return refusal(f"job {job_id!a:.100}", error)
    return ""


class ApprovedDeployer(AppDeployer):  # type: ignore[misc]
    """Deploys a job's app only if the participant has approved it; see :mod:`fedannot.custom.approval`.

    It is the component ``app_deployer`` of a site's kit. A refusal goes to the server, which shows it to the
    researcher; it says what was found in the job and nothing of the site's files. Nothing is written for such a job.
    """

    def deploy(
        self,
        workspace: Workspace,
        job_id: str,
        job_meta: dict[str, Any],
        app_name: str,
        app_data: bytes,
        fl_ctx: FLContext,
    ) -> str:
        """Deploy an app; return why not, empty if it was deployed."""
        if reason := refusal_of_job(job_id, job_meta, app_data, Path(workspace.get_site_config_dir())):
            return reason
        return str(super().deploy(workspace, job_id, job_meta, app_name, app_data, fl_ctx) or "")
