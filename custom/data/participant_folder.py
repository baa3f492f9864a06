"""A participant's own folder of a job, outside the job's workspace, which NVFlare stores, returns and removes."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from ...transforms.errors import DataError
from .path_names import is_plain_name

# In a participant's workspace (a kit's folder, a simulator's folder of a site); in it a folder for each job.
PRIVATE_FOLDER = "private"
# In that of a job at the server: models of single sites that wait for their weights.
WAITING_FOLDER = "waiting_models"
_OWN_ALONE = 0o700


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
    folder = _made_private(workspace / PRIVATE_FOLDER, workspace)
    return _made_private(folder / job_id, workspace) if job_id else folder


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


def _made_private(folder: Path, workspace: Path) -> Path:
    """Make a folder with the rights of its owner alone, whatever the umask; what is there must be one already."""
    with suppress(FileExistsError):
        folder.mkdir(mode=_OWN_ALONE)
        folder.chmod(_OWN_ALONE)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        what = "a symbolic link" if folder.is_symlink() else "no folder that can be entered"
        raise DataError(
            f"{folder}: found {what}; expected a folder of this participant's own, or nothing. Remove it, after a look "
            "at who has put it there."
        ) from error
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in {os.geteuid(), workspace.stat().st_uid}:
            raise DataError(f"{folder}: belongs to the user {found.st_uid}; expected a folder of this user's own.")
        if stat.S_IMODE(found.st_mode) != _OWN_ALONE:
            os.fchmod(descriptor, _OWN_ALONE)
    finally:
        os.close(descriptor)
    return folder
