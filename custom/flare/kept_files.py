"""Where models and states lie that a job's settings name: as paths in a simulator, as plain names in a kit."""

import json
import shutil
import zipfile
import zlib
from pathlib import Path

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import ALL_SITES, SERVER_SITE_NAME

from ..data.participant_folder import job_folder_of, participant_folder, participant_folder_beside
from ..data.path_names import is_job_id, is_plain_name
from ..data.whole_files import private_file, private_folder
from ..run.reading import METRICS_FILE
from ..run.state import STATE_FILE, ResumeError

# In a kit: models that the operator offers to jobs, each under its name.
MODELS_FOLDER = "models"
# Where NVFlare's job store has jobs (site_configs/server.yaml), and in a job's folder the archive of its workspace.
JOB_STORE = Path("storage") / "jobs"
STORED_WORKSPACE = "workspace"
# In the folder of a run: the state of the one that it continues, with its records, as the job store has them.
RESUMED_FOLDER = "resumed"


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
    has ended, in the job store, whence it is copied into the folder of this run with its records. Elsewhere it is a
    path.

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
        copies = private_folder(Path(workspace.get_run_dir(fl_ctx.get_job_id())) / RESUMED_FOLDER)
        try:
            with zipfile.ZipFile(archive) as files:
                _copy(files, STATE_FILE, copies)
                # That of an earlier version needs none.
                if METRICS_FILE in files.namelist():
                    _copy(files, METRICS_FILE, copies)
        except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise ResumeError(f"The job store has no state of job {named} ({type(error).__name__}).") from error
        return copies / STATE_FILE
    raise ResumeError(f"Expected the state of job {named} in its folder or in the job store, but found none.")


def _copy(files: zipfile.ZipFile, name: str, folder: Path) -> None:
    with files.open(name) as source, private_file(folder / name).open("wb") as target:
        shutil.copyfileobj(source, target)


def own_folder(fl_ctx: FLContext) -> Path:
    """Return the participant's own folder of the run, outside the job's workspace, which NVFlare stores and returns.

    Raises:
        DataError: if something else is in its place.
    """
    return participant_folder(_workspace_root(fl_ctx), fl_ctx.get_job_id())


def earlier_run_folders(job_id: str, resume_from: str, fl_ctx: FLContext) -> list[Path]:
    """Return where a site's part of an earlier job may lie: in its own workspace, or in one next to that of a state.

    In a workspace it lies in the site's own folder of the job, of earlier versions in the job's folder.

    Args:
        job_id: the earlier job, as the server names it; what is no plain name, or another account's, leads nowhere.
        resume_from: the state that is continued, ``WORKSPACE/PARTICIPANT/JOB/fedannot_state.pt``, of a swarm's site
            ``WORKSPACE/SITE/private/JOB/fedannot_state.pt``, or in a kit the job itself; empty for none.
        fl_ctx: NVFlare's context.
    """
    workspace, site = fl_ctx.get_engine().get_workspace(), fl_ctx.get_identity_name()
    job_folders = []
    own = fl_ctx.get_job_id()
    if is_plain_name(job_id) and job_id != own and submitter(job_id, fl_ctx) == submitter(own, fl_ctx):
        job_folders.append(Path(workspace.get_run_dir(job_id)))
    if resume_from and not is_job_id(resume_from):
        folder = Path(resume_from).parent
        job_folder = job_folder_of(folder) or folder
        job_folders.append(job_folder.parent.parent / site / job_folder.name)
    return [place for folder in job_folders for place in (participant_folder_beside(folder), folder)]


def config_folder(fl_ctx: FLContext) -> Path:
    """Return the site's own configuration folder, in a kit ``local``."""
    return Path(fl_ctx.get_engine().get_workspace().get_site_config_dir())


def submitter(job_id: str, fl_ctx: FLContext) -> str | None:
    """Return whose a job is, by what this participant keeps of it; None in simulators, which submit nothing."""
    return _submitter(Path(fl_ctx.get_engine().get_workspace().get_job_meta_path(job_id)))


def _submitter(meta: Path) -> str | None:
    """Who has submitted a job, by what NVFlare keeps of it; None if there is no such file."""
    try:
        return str(json.loads(meta.read_text(encoding="utf-8"))["submitter_name"])
    except FileNotFoundError:
        return None


def _workspace_root(fl_ctx: FLContext) -> Path:
    return Path(fl_ctx.get_engine().get_workspace().get_root_dir())


def sites_of_job(meta_file: Path) -> set[str]:
    """Return the sites that a job names; empty where it names none, or was not submitted but simulated.

    Args:
        meta_file: ``meta.json`` of the job in a participant's workspace.
    """
    if not meta_file.is_file():
        return set()
    deploy_map = json.loads(meta_file.read_text(encoding="utf-8")).get("deploy_map") or {}
    named = {site for sites in deploy_map.values() for site in sites if isinstance(site, str)}
    return {site for site in named if site not in (SERVER_SITE_NAME, ALL_SITES)}
