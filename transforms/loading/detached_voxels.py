"""Headers whose voxels lie in other files, NRRD and MetaImage: those files may not lead out of the header's folder."""

import os
import re
from pathlib import Path

from ..data_error import DataError

_NRRD = (".nrrd", ".nhdr")
_LONGEST_HEADER = 2**20
_NRRD_END = re.compile("\n\n|\r\n\r\n")
_NRRD_FILE = re.compile(r"(?:\A|[\r\n])[ \t]*data ?file[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_META_FILE = re.compile(r"(?:\A|[\r\n])[ \t]*ElementDataFile[ \t]*[=:][ \t]*([^\r\n]*)")


def check_voxels_beside(file: Path) -> None:
    """Check that the voxels of an NRRD or MetaImage header lie in the file itself, or in files below its folder.

    Else a header that others wrote could make an image of any file on this machine.

    Raises:
        DataError: if they lie elsewhere, or the header has no end.
    """
    with file.open("rb") as stream:
        head = stream.read(_LONGEST_HEADER).decode("latin-1")
    is_nrrd = file.name.lower().endswith(_NRRD)
    end = _NRRD_END.search(head) if is_nrrd else None
    header = head[: end.start()] if end else head
    known = list((_NRRD_FILE if is_nrrd else _META_FILE).finditer(header))
    if len(head) == _LONGEST_HEADER and (end is None if is_nrrd else not known):
        raise DataError(f"{file}: found a header without an end in {_LONGEST_HEADER} bytes; export the volume again.")
    folder = Path(os.path.normpath(file.parent.absolute()))
    for match in known:
        is_list = match[1].upper().startswith("LIST")
        for name in head[match.end() :].splitlines() if is_list else [match[1]]:
            if not Path(os.path.normpath(folder / name.strip())).is_relative_to(folder):
                raise DataError(
                    f"{file}: found a header whose voxels lie in {name.strip()!r}; expected a file below the header's "
                    "folder. Export the volume as one file."
                )
