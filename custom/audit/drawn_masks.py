"""Masks that a reviewer has drawn in the page of an audit: each a new file with where it comes from."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ...transforms.errors import DataError
from ..data.json_record import JsonRecord, read_record
from .decisions import HexName

# In the folder of an audit; in it a folder for each mask.
DRAWN_FOLDER = "drawn"
DRAWN_FILE = "provenance.json"
MAX_DRAWN_TOOLS = 16

Tool = Literal["brush", "eraser", "lasso", "offset", "shift", "object", "suggestion"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_ID = re.compile(r"[0-9a-f]{32}")


class DrawnMask(JsonRecord):
    """The content of a drawn mask's ``provenance.json``; it stays at the site.

    Args:
        version: of this form.
        id: names the mask in decisions.
        site: the site's name.
        image: the case's image, relative to the site's data.
        label: the given annotation, as above.
        finding: the finding that was marked when it was drawn; empty of a case without any.
        given_sha256: hash of the given file that was shown.
        file: the mask next to this record.
        mask_sha256: its hash.
        tools: what it was drawn with, in the order of their first use.
        changed: pixels or voxels of another class than in the given annotation.
        reviewer: who drew it.
        time: when it was stored, ISO 8601 with the time zone.
    """

    version: Literal[1] = 1
    id: HexName
    site: str
    image: str
    label: str
    finding: str
    given_sha256: Sha256
    file: Literal["mask.png", "mask.nii.gz"]
    mask_sha256: Sha256
    tools: tuple[Tool, ...]
    changed: Annotated[int, Field(ge=1)]
    reviewer: str
    time: str


def drawn_folder(audit_folder: Path, mask: str) -> Path:
    """Return the folder of a drawn mask.

    Raises:
        DataError: if the id is none; it never leads elsewhere.
    """
    if not _ID.fullmatch(mask):
        raise DataError(f"{audit_folder}: found {mask!r} as the id of a drawn mask; expected 32 hexadecimal digits.")
    return audit_folder / DRAWN_FOLDER / mask


def check_drawn_inside(audit_folder: Path) -> None:
    """Check that drawn masks lie in the folder of an audit, before one is written there.

    Raises:
        DataError: if their folder is a link: whoever made it would get what is drawn.
    """
    folder = audit_folder / DRAWN_FOLDER
    if folder.is_symlink():
        raise DataError(f"{folder}: is a link to {folder.resolve()}; expected a folder of the audit.")


def drawn_file(audit_folder: Path, record: DrawnMask) -> Path:
    """Return the file of a drawn mask.

    Raises:
        DataError: if it is no file, or it or a folder on the way to it is a link.
    """
    check_drawn_inside(audit_folder)
    folder = drawn_folder(audit_folder, record.id)
    file = folder / record.file
    if folder.is_symlink() or file.is_symlink() or not file.is_file():
        raise DataError(f"{file}: found a link, or no file; expected the mask that the review has stored.")
    return file


def read_drawn(audit_folder: Path, mask: str) -> DrawnMask:
    """Read where a drawn mask comes from.

    Raises:
        DataError: if there is no such mask, or its record cannot be read.
    """
    folder = drawn_folder(audit_folder, mask)
    record = read_record(folder / DRAWN_FILE, DrawnMask)
    if record is None or record.id != mask:
        raise DataError(f"{folder}: found no mask of this id; expected one that the page of the review has stored.")
    return record
