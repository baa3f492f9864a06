"""Writing a folder or a file as a whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...transforms.errors import DataError


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside the wanted one that takes its place when everything went well.

    Args:
        folder: the wanted folder; must be absent or empty. Its parents are made.

    Raises:
        DataError: if there is a file, or a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "a folder with files in it" if folder.is_dir() else "a file"
        raise DataError(
            f"{folder}: found {found}; expected an empty or absent output folder. Remove it or choose another."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    workplace = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-unfinished-"))
    try:
        # A folder of tempfile's can be read by its owner alone, the result need not be.
        unfinished = workplace / folder.name
        unfinished.mkdir()
        yield unfinished
        unfinished.rename(folder)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
