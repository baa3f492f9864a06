"""What a site's parent process answers to: NVFlare's requests without those that read, remove or reconfigure.

NVFlare asks for rights only where a request itself says that they are to be asked for, and forwards requests of any
participant. What nobody is to ask of a site is therefore taken out, and a job is looked at before it is unpacked.
"""

from pathlib import Path
from typing import Any

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.workspace import Workspace
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client.admin import RequestProcessor
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.client.shell_cmd import ShellCommandProcessor
from nvflare.private.fed.client.sys_cmd import ConfigureSiteLogProcessor, ReportEnvProcessor
from nvflare.private.fed.client.training_cmds import (
    ConfigureJobLogProcessor,
    DeleteRunNumberProcessor,
    DeployProcessor,
)

from ..approval.configuration import JobRefusedError
from ..data.path_names import is_job_id
from .approved_jobs import refusal, refusal_of_job
from .start_check import check_start

# Reading files, removing folders, changing what logs hold, telling the site's environment.
_TAKEN_OUT = (
    ShellCommandProcessor,
    DeleteRunNumberProcessor,
    ConfigureJobLogProcessor,
    ConfigureSiteLogProcessor,
    ReportEnvProcessor,
)


class SiteGate(FLComponent):  # type: ignore[misc]
    """Narrows what the site's parent process answers to, in this process alone, once the kit's policies are in force.

    Raises:
        RuntimeError: if this NVFlare has other requests than are expected here; the site does not start then.
        SystemExit: see :func:`fedannot.custom.flare.start_check.check_start`.
    """

    def __init__(self) -> None:
        super().__init__()
        check_start()
        processors = ClientRequestProcessors.request_processors
        missing = {*_TAKEN_OUT, DeployProcessor} - {type(processor) for processor in processors}
        if missing:
            names = ", ".join(sorted(kind.__name__ for kind in missing))
            raise RuntimeError(f"Expected NVFlare's sites to answer to {names}, but found no such classes.")
        processors[:] = [
            _CheckedProcessor(_GatedDeployProcessor() if isinstance(processor, DeployProcessor) else processor)
            for processor in processors
            if not isinstance(processor, _TAKEN_OUT)
        ]


class _CheckedProcessor(RequestProcessor):  # type: ignore[misc]
    """Hands on a request unless the job that it is about has a name that leads elsewhere."""

    def __init__(self, processor: RequestProcessor) -> None:
        self._processor = processor

    def get_topics(self) -> list[str]:
        return list(self._processor.get_topics())

    def process(self, req: Message, app_ctx: Any) -> Message:
        job_id = req.get_header(RequestHeader.JOB_ID, "")
        if job_id and not (isinstance(job_id, str) and is_job_id(job_id)):
            return error_reply(refusal("a request", JobRefusedError("The job's id is not one of NVFlare's.")))
        return self._processor.process(req, app_ctx)


class _GatedDeployProcessor(DeployProcessor):  # type: ignore[misc]
    """Deploys a job that is approved; NVFlare's unpacks it before it asks."""

    def process(self, req: Message, app_ctx: Any) -> Message:
        workspace = Workspace(root_dir=app_ctx.args.workspace, site_name=app_ctx.get_client_name())
        job_id, meta = req.get_header(RequestHeader.JOB_ID), req.get_header(RequestHeader.JOB_META)
        reason = refusal_of_job(job_id, meta, req.body, Path(workspace.get_site_config_dir()))
        return error_reply(reason) if reason else super().process(req, app_ctx)
