"""What is installed with fedannot besides its modules: jobs, found by their names, and site configurations."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ...custom.data.whole_files import new_folder
from ...transforms.errors import did_you_mean
from ...transforms.strict_files import read_json

# Modules, jobs and site configurations lie side by side in the package.
_PACKAGE = Path(__file__).parents[2]
META_FILE = "meta.json"
# Another name of an installed job → its folder.
JOB_ALIASES = {"feda3i": "fedaaai"}


class UnknownJobError(ValueError):
    """A job was asked for that is neither a folder nor installed; the text says which one may have been meant."""


@dataclass(frozen=True)
class InstalledJob:
    """A job that is installed with fedannot.

    Attributes:
        name: what it is called on the command line, and in NVFlare.
        title: its method, as papers call it.
        purpose: for which annotations.
        folder: where it lies.
    """

    name: str
    title: str
    purpose: str
    folder: Path


def installed_jobs() -> dict[str, InstalledJob]:
    """Return the jobs that are installed with fedannot, by name.

    >>> from fedannot.apps.runs.installed import installed_jobs
    >>> installed_jobs()["fedaaai"].title
    'FedA³I'
    """
    return {name: _described(folder) for name, folder in sorted(_job_folders().items())}


def _job_folders() -> dict[str, Path]:
    # Where the package links to a working tree, the job's folder is the tree's.
    return {file.parent.name: file.resolve().parent for file in (_PACKAGE / "jobs").glob(f"*/{META_FILE}")}


def _described(folder: Path) -> InstalledJob:
    about = read_json(folder / META_FILE, "what the job says of itself").get("about", {})
    return InstalledJob(folder.name, str(about.get("title", folder.name)), str(about.get("for", "")), folder)


def find_job(name_or_folder: str | Path) -> Path:
    """Return a job's folder, of a path or of the name of an installed job; a folder that is a job counts first.

    A job may have another name, as that of its method: ``feda3i`` is ``fedaaai``.

    Raises:
        UnknownJobError: if it is neither.

    >>> find_job("fedavg").name, find_job("feda3i").name
    ('fedavg', 'fedaaai')
    >>> find_job("fedavgg")
    Traceback (most recent call last):
    ...
    fedannot.apps.runs.installed.UnknownJobError: Found no job 'fedavgg'; did you mean 'fedavg'? Expected a folder \
with a meta.json, or a name that `fedannot jobs` lists.
    """
    folder, known = Path(name_or_folder), _job_folders()
    if (folder / META_FILE).is_file():
        return folder
    name = JOB_ALIASES.get(str(name_or_folder), str(name_or_folder))
    if name in known:
        return known[name]
    # Out of the project's folder jobs/fedavg is meant to be fedavg.
    wanted = folder.name
    hint = f"; did you mean {wanted!r}?" if wanted in known else did_you_mean(wanted, list(known))
    raise UnknownJobError(
        f"Found no job {str(name_or_folder)!r}{hint} Expected a folder with a {META_FILE}, or a name that "
        "`fedannot jobs` lists."
    )


def jobs_folder(chosen: Path | None = None) -> Path:
    """Return a folder of jobs: the one that a person has chosen, or that of the installed jobs.

    Args:
        chosen: a folder of jobs; None for those that are installed.
    """
    return chosen or next(iter(_job_folders().values())).parent


def copy_job(name: str | Path, out: Path) -> Path:
    """Copy an installed job, with its sets of settings, to change it; return the new folder.

    Args:
        name: the job's name.
        out: where the job's folder is made, under the job's name.

    Raises:
        UnknownJobError: if there is no such job.
        DataError: if there are files in the new folder.

    >>> from fedannot.apps import copy_job
    >>> (copy_job("fedaaai", Path("mine")) / "app" / "config" / "settings.conf").is_file()
    True
    """
    folder = find_job(name)
    return _copied(folder, out / folder.name)


def installed_configs() -> Path:
    """Return the folder of the site configurations that are installed: policies, descriptions of data, logs."""
    return _PACKAGE / "site_configs"


def copy_configs(out: Path) -> Path:
    """Copy the site configurations, for operator and sites to fill in; return the new folder.

    Raises:
        DataError: if there are files in the folder.
    """
    return _copied(installed_configs(), out)


def _copied(source: Path, out: Path) -> Path:
    with new_folder(out, shared=True) as unfinished:
        shutil.copytree(source, unfinished, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return out
