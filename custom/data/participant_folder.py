"""A participant's own folder of a job, outside the job's workspace, which NVFlare stores, returns and removes."""

from pathlib import Path

from ...transforms.errors import DataError
from .path_names import is_plain_name
from .whole_files import make_private_part

# In a participant's workspace (a kit's folder, a simulator's folder of a site); in it a folder for each job.
PRIVATE_FOLDER = "private"
# In that of a job at the server: models of single sites that wait for their weights.
WAITING_FOLDER = "waiting_models"


def participant_folder(workspace: Path, job_id: str = "") -> Path:
    """Return a participant's own folder of a job, made if need be, which nobody but the participant's user can enter.

    What names or shows a patient's file lies here: logs, corrected masks, findings, personal models, phantoms. Nothing
    of it leaves the participant.

    Args:
        workspace: root folder of the participant's workspace.
        job_id: the job; empty for what belongs to no job.

    Raises:
        DataError: if a symbolic link, a file or another user's folder is in its place, or the job's id leads elsewhere.
    """
    if job_id and not is_plain_name(job_id):
        raise DataError(f"{workspace}: {job_id!r} is no job's id; expected a name without a folder in it.")
    owners = frozenset({workspace.stat().st_uid})
    folder = make_private_part(workspace / PRIVATE_FOLDER, owners)
    return make_private_part(folder / job_id, owners) if job_id else folder


def participant_folder_beside(job_folder: Path) -> Path:
    """Return the participant's own folder of a job whose workspace is given; it is not made.

    >>> participant_folder_beside(Path("kit/job-1")).as_posix()
    'kit/private/job-1'
    """
    return job_folder.parent / PRIVATE_FOLDER / job_folder.name


def job_folder_of(folder: Path) -> Path | None:
    """Return the workspace of the job whose own folder is given, None if it is no such folder.

    >>> str(job_folder_of(Path("kit/private/job-1"))), job_folder_of(Path("kit/job-1"))
    ('kit/job-1', None)
    """
    return folder.parent.parent / folder.name if folder.parent.name == PRIVATE_FOLDER else None


def with_private_folder(folder: Path) -> list[Path]:
    """Return where to look for what a participant keeps: in a folder and, of a job's, in the own one of that job."""
    beside = participant_folder_beside(folder.resolve())
    return [folder, beside] if beside.is_dir() else [folder]
