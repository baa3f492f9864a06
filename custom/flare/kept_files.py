"""Where models and states lie that a job's settings name: as paths in a simulator, as plain names in a kit."""

import json
import zipfile
from pathlib import Path

from nvflare.apis.fl_context import FLContext

from ..approval.names import is_job_id, is_plain_name
from ..data.whole_files import private_file
from ..run.state import STATE_FILE, ResumeError
from .messages import WAITING_MODELS

# In a kit: models that the operator offers to jobs, each under its name.
MODELS_FOLDER = "models"
# Where NVFlare's job store has jobs (site_configs/server.yaml), and in a job's folder the archive of its workspace.
JOB_STORE = Path("storage") / "jobs"
STORED_WORKSPACE = "workspace"


def model_file(named: str, fl_ctx: FLContext) -> Path:
    """Return the file or bundle with start weights that the settings name.

    In a kit it is the name of one that lies in the kit's folder ``models``; elsewhere a path.

    Args:
        named: the setting's value.
        fl_ctx: NVFlare's context at the server.
    """
    offered = _workspace_root(fl_ctx) / MODELS_FOLDER
    return offered / named if offered.is_dir() and is_plain_name(named) else Path(named)


def state_file(named: str, fl_ctx: FLContext) -> Path:
    """Return the state of the run that the settings continue.

    In a kit it is named by its job, which the same account has submitted. It lies in the job's folder or, when the job
    has ended, in the job store, whence it is copied into the folder of this run. Elsewhere it is a path.

    Args:
        named: the setting's value.
        fl_ctx: NVFlare's context at the server.

    Raises:
        ResumeError: if there is no state of the named job, or the job is another account's.
    """
    if not is_job_id(named):
        return Path(named)
    root, workspace = _workspace_root(fl_ctx), fl_ctx.get_engine().get_workspace()
    stored = root / JOB_STORE / named
    own = submitter(fl_ctx.get_job_id(), fl_ctx)
    if own not in {submitter(named, fl_ctx), _submitter(stored / "meta")}:
        raise ResumeError(f"Expected the state of an own job, but {named} is none that this account has submitted.")
    if (kept := root / named / STATE_FILE).is_file():
        return kept
    if (archive := stored / STORED_WORKSPACE).is_file():
        copy = Path(workspace.get_run_dir(fl_ctx.get_job_id())) / f"resumed_{STATE_FILE}"
        try:
            with (
                zipfile.ZipFile(archive) as files,
                files.open(STATE_FILE) as source,
                private_file(copy).open("wb") as target,
            ):
                while block := source.read(1 << 20):
                    target.write(block)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise ResumeError(f"The job store has no state of job {named} ({type(error).__name__}).") from error
        return copy
    raise ResumeError(f"Expected the state of job {named} in its folder or in the job store, but found none.")


def submitter(job_id: str, fl_ctx: FLContext) -> str | None:
    """Return whose a job is, by what this participant keeps of it; None in simulators, which submit nothing."""
    return _submitter(Path(fl_ctx.get_engine().get_workspace().get_job_meta_path(job_id)))


def _submitter(meta: Path) -> str | None:
    """Who has submitted a job, by what NVFlare keeps of it; None if there is no such file."""
    try:
        return str(json.loads(meta.read_text(encoding="utf-8"))["submitter_name"])
    except FileNotFoundError:
        return None


def waiting_folder(fl_ctx: FLContext) -> Path:
    """Return where models of single sites wait for their weights: not in the job's folder, which is downloaded."""
    return _workspace_root(fl_ctx) / WAITING_MODELS / str(fl_ctx.get_job_id())


def _workspace_root(fl_ctx: FLContext) -> Path:
    return Path(fl_ctx.get_engine().get_workspace().get_root_dir())
