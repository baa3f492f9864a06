"""Paths that someone else wrote and that may not lead out of a folder."""

import os
import stat
from pathlib import Path

# Paths with more parts are resolved one by one, not part by part.
_MAX_PARTS = 32


class ContainedPaths:
    """Says of many paths whether they stay in a folder, links followed; a part that many paths share is looked at once.

    Args:
        folder: the folder, to which paths are relative; it may itself be reached through a link.

    Attributes:
        folder: the folder, as given.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder = str(folder)
        self._root = folder.resolve()
        # Folders as they are written → where they really are.
        self._real: dict[str, str] = {"": str(self._root).rstrip("/")}
        # Where folders really are → whether that is in the folder.
        self._inside: dict[str, bool] = {}

    def leads_out(self, path: str) -> bool:
        """Return whether a path leads out of the folder; of one that does not exist, whether it would.

        Raises:
            OSError: if the disk cannot have the path, as its name is too long.
            RuntimeError: if a link in it leads to itself.
        """
        parent, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return not self._resolved(path).is_relative_to(self._root)
        real_parent = self._real_folder(parent)
        # A link may lead back into the folder.
        if self._is_link(path):
            return not self._resolved(path).is_relative_to(self._root)
        if real_parent not in self._inside:
            self._inside[real_parent] = Path(real_parent).is_relative_to(self._root)
        return not self._inside[real_parent]

    def _real_folder(self, path: str) -> str:
        """Where a folder really is."""
        if (known := self._real.get(path)) is not None:
            return known
        parent, _, name = path.rpartition("/")
        by_parts = name not in ("", ".", "..") and not path.startswith("/") and path.count("/") < _MAX_PARTS
        if by_parts and not self._is_link(path):
            real = f"{self._real_folder(parent)}/{name}"
        else:
            real = str(self._resolved(path))
        self._real[path] = real
        return real

    def _is_link(self, path: str) -> bool:
        try:
            # A text, not a path: there are many.
            return stat.S_ISLNK(os.lstat(path if path.startswith("/") else f"{self._folder}/{path}").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _resolved(self, path: str) -> Path:
        return Path(self._folder, path).resolve()


def relative_name(file: Path, folder: Path) -> str:
    """Return a file's path relative to a folder, as ``os.path.relpath`` does, at once where it lies below it."""
    text, start = str(file), f"{folder}{os.sep}"
    if text.startswith(start) and os.pardir not in text:
        return text[len(start) :]
    return os.path.relpath(file, folder)
