"""The server's refusal of jobs that it has not approved, before NVFlare parses or stores them."""

import shutil
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.private.fed.server import admin, job_cmds, job_runner
from nvflare.private.fed.server.job_meta_validator import JobMetaValidator

from ..approval.approved import check_job
from ..approval.submission import read_job
from ..data.participant_folder import PRIVATE_FOLDER, WAITING_FOLDER
from .approved_jobs import ApprovedDeployer, refusal
from .kit_files import own_folder
from .server_commands import OperatorsCommands
from .start_check import check_start


class JobGate(FLComponent):  # type: ignore[misc]
    """The server's part: it refuses submitted jobs before NVFlare parses them, and stored ones before it deploys them.

    Commands that ask for no right are the project administrator's; see :mod:`.server_commands`.

    NVFlare has no place for a validator of one's own at the server, hence its classes are exchanged, in this process
    alone. The process does not start if they are not where they are expected.

    Args:
        config_folder: the kit's folder ``local``, as seen from the kit.

    Raises:
        RuntimeError: if this NVFlare has no such classes.
        SystemExit: see :func:`fedannot.custom.flare.start_check.check_start`.
    """

    def __init__(self, config_folder: str = "local") -> None:
        super().__init__()
        check_start()
        for module, name in ((job_cmds, "JobMetaValidator"), (job_runner, "AppDeployer"), (admin, "AuthzFilter")):
            if not hasattr(module, name):
                raise RuntimeError(f"Expected {module.__name__}.{name} in this version of NVFlare, but found none.")
        folder = own_folder() / config_folder
        self._private = folder.parent / PRIVATE_FOLDER
        job_cmds.JobMetaValidator = lambda: _ApprovedValidator(folder)
        job_runner.AppDeployer = ApprovedDeployer
        admin.AuthzFilter = OperatorsCommands

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Say in the server's log that jobs are looked at, and remove what killed jobs have left of sites' models."""
        if event_type == EventType.SYSTEM_START:
            # No job runs yet.
            for waiting in self._private.glob(f"*/{WAITING_FOLDER}"):
                shutil.rmtree(waiting, ignore_errors=True)
            self.log_info(fl_ctx, "Jobs run only if their configuration is approved here.")


class _ApprovedValidator(JobMetaValidator):  # type: ignore[misc]
    def __init__(self, config_folder: Path) -> None:
        self._config_folder = config_folder

    def validate(self, job_name: str, job_data: bytes | str) -> tuple[bool, str, dict[str, Any]]:
        """Return whether a submitted job is one, why not, and what it says about itself."""
        try:
            check_job(
                read_job(Path(job_data) if isinstance(job_data, str) else job_data, job_name), self._config_folder
            )
        except Exception as error:
            return False, refusal("a submitted job", error), {}
        valid, reason, meta = super().validate(job_name, job_data)
        return bool(valid), str(reason), dict(meta)
