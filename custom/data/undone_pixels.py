"""The pixels of annotations that count otherwise than they were given where a site has undone something, as a file."""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...transforms.errors import DataError
from .site_data import LoadedCase
from .whole_files import replaced

_NAMES = "annotations"
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class CasePixels:
    """What counts otherwise in one annotation ``(S, H, W[, D])``; contours are moved by themselves.

    Attributes:
        ignored: pixels of which training learns nothing; None where there are none.
        relabelled: the classes of objects that get another one, 0 elsewhere; None likewise.
    """

    ignored: NDArray[np.bool_] | None = None
    relabelled: NDArray[np.uint8] | None = None

    def __bool__(self) -> bool:
        return self.ignored is not None or self.relabelled is not None

    def fits(self, case: LoadedCase) -> bool:
        """Return whether these pixels are those of a case's annotation as it is now."""
        known = [pixels for pixels in (self.ignored, self.relabelled) if pixels is not None]
        return all(pixels.shape == tuple(case.label.shape) for pixels in known)


def write_pixels(folder: Path, what: str, pixels: Mapping[str, NDArray[Any]]) -> str:
    """Write pixels by the name of their annotation, and return the file's name; empty, and no file, without any.

    Args:
        folder: where the file is written.
        what: the first part of its name; the rest is its hash.
        pixels: by given annotation ``(S, H, W[, D])``.
    """
    if not pixels:
        return ""
    arrays = {_key(index): of_case for index, of_case in enumerate(pixels.values())}
    content = io.BytesIO()
    # Names of annotations can be any text, those of arrays cannot.
    np.savez_compressed(content, allow_pickle=False, **{_NAMES: np.array(list(pixels))}, **arrays)
    name = _name(what, content.getvalue())
    with replaced(folder / name) as temporary:
        temporary.write_bytes(content.getvalue())
    return name


def read_pixels(file: Path, dtype: DTypeLike) -> dict[str, NDArray[Any]]:
    """Return by given annotation the pixels of a file.

    Args:
        file: named as :func:`write_pixels` does.
        dtype: of the pixels.

    Raises:
        DataError: if it cannot be read, or its hash is another than its name says.
    """
    what = file.name.partition("-")[0]
    try:
        content = file.read_bytes()
        if _name(what, content) != file.name:
            raise ValueError("its hash is another than its name says")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            names = arrays[_NAMES].tolist()
            return {str(one): arrays[_key(index)].astype(dtype) for index, one in enumerate(names)}
    except _UNREADABLE as error:
        raise DataError(f"{file}: cannot be read ({error}); expected the pixels that a site {_USES[what]}.") from error


_USES = {"ignored": "ignores", "relabelled": "gives another class"}


def _name(what: str, content: bytes) -> str:
    return f"{what}-{hashlib.sha256(content).hexdigest()[:16]}.npz"


def _key(index: int) -> str:
    return f"pixels_{index}"
