"""Arrays of a file that may be damaged or forged."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_arrays(source: Path | bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``npz`` archive by name; objects are not unpickled.

    Args:
        source: the file, or its content.

    Raises:
        OSError: if the file is not there or cannot be opened.
        ValueError: if its content is no such archive, whatever is wrong with it.
    """
    content = source.read_bytes() if isinstance(source, Path) else source
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    # Headers are Python expressions in a zip archive: there is no list of what bytes of others can make them raise.
    except Exception as error:
        raise ValueError(f"it is no archive of arrays: {error}") from error
