"""Keys, and what decides which jobs run: for the user alone to whom a kit belongs."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ...custom.approval.approved import APPROVED_FILE
from ...custom.approval.limits import LIMITS_FILE
from ...custom.flare.privacy_ledger import LEDGER_FILE
from ..wording.shell_words import shell_word
from .check_points import Point, State

# Rights of everybody but the owner.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# In the folder that `nvflare provision` writes, by the project's name: with its key further kits are made.
_ROOT_KEY = Path("state") / "cert.json"
_ACCOUNT_FILE = Path("startup") / "fed_admin.json"


def check_kits_files(kit: Path) -> Point:
    """Do a kit, its key and its decisions belong to this user, and can others not enter it?

    Args:
        kit: the folder of a participant's kit.
    """
    decisions = (kit / "local" / APPROVED_FILE, kit / "local" / LIMITS_FILE, kit / LEDGER_FILE)
    return _point("private files", kit, [kit, *_keys(kit), *decisions])


def check_other_folder(folder: Path) -> list[Point] | None:
    """Check a folder with keys that is no participant's kit: an account's kit, or what was provisioned.

    Args:
        folder: the kit of an administrator or a researcher, or the folder that ``nvflare provision`` wrote.

    Returns:
        The points; None if it is neither.
    """
    if (folder / _ACCOUNT_FILE).is_file():
        return [_point("private files", folder, [folder, *_keys(folder)])]
    if not (roots := sorted({*folder.glob(str(_ROOT_KEY)), *folder.glob(f"*/{_ROOT_KEY}")})):
        return None
    points = [_point("root key", root.parent, [root.parent, root]) for root in roots]
    kits = sorted({key.parent.parent for root in roots for key in root.parent.parent.glob("prod_*/*/startup/*.key")})
    return points + [_point(f"kit of {kit.name}", kit, [kit, *_keys(kit)]) for kit in kits]


def _keys(kit: Path) -> list[Path]:
    return sorted(file for form in ("*.key", "*.pfx") for file in (kit / "startup").glob(form))


def _point(what: str, folder: Path, paths: Iterable[Path]) -> Point:
    """Check what is there of some paths, and say how to close the folder."""
    result = [path for path in paths if path.exists()]
    if others := [path for path in result if path.stat().st_uid != _owner(folder)]:
        said = f"{others[0]} belongs to another user ({others[0].stat().st_uid})"
        return Point(what, State.PROBLEM, said, f"chown -R {_owner(folder)} {shell_word(folder)}, as root")
    if is_open := [path for path in result if path.stat().st_mode & _OTHERS]:
        modes = ", ".join(f"{path} ({stat.S_IMODE(path.stat().st_mode):o})" for path in is_open[:3])
        return Point(
            what,
            State.PROBLEM,
            f"other users of this machine have rights on {modes}",
            f"chmod -R go= {shell_word(folder)}",
        )
    return Point(what, State.READY, f"{folder} is this user's alone")


def _owner(folder: Path) -> int:
    """Who files should belong to; root may look at somebody's folder."""
    return os.getuid() or folder.stat().st_uid


def close_to_others(folder: Path) -> None:
    """Take all rights on a kit from everybody but its owner: on the folder, and on what lies in it before it is used.

    Links are left as they are.

    Args:
        folder: the kit.

    Raises:
        OSError: if the files are another user's.
    """
    for part in (folder / "startup", folder / "local"):
        for path in (part, *part.rglob("*")):
            _close(path)
    _close(folder / LEDGER_FILE)
    _close(folder)


def _close(path: Path) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
