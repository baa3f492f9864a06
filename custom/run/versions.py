"""What a run was made with: versions of the packages that decide its bits, and the commit of fedannot's own source."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..records.round_records import Record

_PACKAGES = ("fedannot", "torch", "monai", "nvflare", "numpy", "scipy")
_SECONDS = 5.0


class SourceCommit(Record):
    """The commit of the repository that fedannot runs from.

    Attributes:
        commit: its hash.
        is_changed: whether files differ from it.
    """

    commit: str
    is_changed: bool


@cache
def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a run's bits, by name.

    >>> sorted(installed_versions())
    ['fedannot', 'monai', 'numpy', 'nvflare', 'python', 'scipy', 'torch']
    """
    result = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "unknown"
    return result


@cache
def source_commit(file: Path = Path(__file__)) -> SourceCommit | None:
    """Return the commit of the repository that a file of fedannot lies in; None outside one, or without git.

    Args:
        file: the file; a link counts as what it leads to, as in an editable installation.
    """
    folder = file.resolve().parent
    root = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    # A repository may hold a virtual environment with fedannot in it, of which it knows nothing.
    if root is None or _git(root, "ls-files", "--error-unmatch", str(file.resolve())) is None:
        return None
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return SourceCommit(commit=commit, is_changed=bool(changes))


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
