"""Arrays of a file that may be damaged or forged."""

import io
import zipfile
from pathlib import Path

import numpy as np

from ...transforms.array_types import Array

# What is unpacked has to fit into memory; masks take a small part of that when they are packed.
MAX_PACKED_BYTES = 2**32
MAX_UNPACKED_BYTES = 2**35

# The methods of which Python's reader unpacks no more than it is asked for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_content(file: Path) -> bytes:
    """Return the content of a file of arrays, unless it has more than :data:`MAX_PACKED_BYTES`.

    Raises:
        OSError: if there is no such file, or it cannot be opened.
        ValueError: if it is too large.
    """
    # Whoever opens a pipe waits for somebody who writes.
    if not file.is_file():
        raise FileNotFoundError(f"{file} is no file")
    if (length := file.stat().st_size) > MAX_PACKED_BYTES:
        raise ValueError(f"it has {length} bytes, expected at most {MAX_PACKED_BYTES}")
    return file.read_bytes()


def read_arrays(source: Path | bytes) -> dict[str, Array]:
    """Return the arrays of an ``npz`` archive by name; objects are not unpickled.

    Nothing is unpacked of one whose arrays claim more than :data:`MAX_UNPACKED_BYTES` together.

    Args:
        source: the file, or its content.

    Raises:
        OSError: if the file is not there or cannot be opened.
        ValueError: if its content is no such archive, whatever is wrong with it.
    """
    content = read_content(source) if isinstance(source, Path) else source
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            _check_entries(archive.zip.infolist(), archive.files)
            return {name: np.asarray(archive[name]) for name in archive.files}
    # Headers are Python expressions in a zip archive: there is no list of what bytes of others can make them raise.
    except Exception as error:
        raise ValueError(f"it is no archive of arrays: {error}") from error


def _check_entries(entries: list[zipfile.ZipInfo], names: list[str]) -> None:
    """Refuse what would take too much memory, or means two things.

    An array takes no more memory than its entry unpacked: numpy reads no further, and touches no memory that it reads
    nothing into.
    """
    if (length := sum(entry.file_size for entry in entries)) > MAX_UNPACKED_BYTES:
        raise ValueError(f"it would take {length} bytes, expected at most {MAX_UNPACKED_BYTES}")
    if any(entry.compress_type not in _METHODS for entry in entries):
        raise ValueError("it is packed otherwise than numpy does")
    if len(set(names)) != len(names):
        raise ValueError("a name stands there twice")
