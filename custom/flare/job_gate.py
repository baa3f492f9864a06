"""The server's refusal of jobs that it has not approved, and of commands that accounts have no right to."""

import shutil
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.hci.conn import Connection
from nvflare.fuel.hci.proto import InternalCommands, MetaStatusValue, ReplyKeyword, make_meta
from nvflare.fuel.hci.server.authz import AuthzFilter
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.private.fed.server import admin, job_cmds, job_runner
from nvflare.private.fed.server.job_meta_validator import JobMetaValidator

from ..approval.approved import check_job
from ..approval.submission import read_job
from ..data.participant_folder import PRIVATE_FOLDER, WAITING_FOLDER
from .approved_jobs import ApprovedDeployer, refusal
from .kit_files import own_folder
from .start_check import check_start


class JobGate(FLComponent):  # type: ignore[misc]
    """The server's part: it refuses submitted jobs before NVFlare parses them, and stored ones before it deploys them.

    Commands that ask for no right are the project administrator's; see :class:`OperatorsCommands`.

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


_OPERATOR = "project_admin"
# Modules of NVFlare's whose commands everybody needs: the list of commands, and login.
_OPEN_MODULES = frozenset({"", "login"})
_OPEN_COMMANDS = frozenset({InternalCommands.CHECK_SESSION})


class OperatorsCommands(AuthzFilter):  # type: ignore[misc]
    """Refuses accounts but the project administrator's what NVFlare asks no right for.

    Such commands test the network with messages of any number and size, and tell the configuration, the processes and
    the sessions of server and sites. Whatever else asks for no right in a later NVFlare is refused, too.
    """

    def pre_command(self, conn: Connection, args: list[str]) -> bool:
        """Return whether a command goes on."""
        entry: Any = conn.get_prop(ConnProps.CMD_ENTRY)
        role = conn.get_prop(ConnProps.USER_ROLE, "")
        if entry is not None and not entry.authz_func and role != _OPERATOR and not _is_open(entry):
            said = f"This action is {ReplyKeyword.NOT_AUTHORIZED}"
            conn.append_error(said, meta=make_meta(MetaStatusValue.NOT_AUTHORIZED, ReplyKeyword.NOT_AUTHORIZED))
            return False
        return bool(super().pre_command(conn, args))


def _is_open(entry: Any) -> bool:
    return entry.scope.name in _OPEN_MODULES or entry.name in _OPEN_COMMANDS
