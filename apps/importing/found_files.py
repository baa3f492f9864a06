"""What an import finds below a folder, and what it leaves out in words."""

from dataclasses import dataclass
from pathlib import Path

from ...transforms.loading.dicom_header import DICOM_SUFFIX
from ...transforms.loading.folder_search import (
    FoundFile,
    OtherFile,
    Reason,
    known_suffix,
    other_file,
    reason_of,
    search_folder,
)
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from .layouts.listing import Listing
from .source import LeftOut


@dataclass(frozen=True)
class FoundFiles:
    """What lies below a folder.

    Attributes:
        usable: the images, in the order of their paths.
        others: everything else, each with its reason.
    """

    usable: tuple[FoundFile, ...]
    others: tuple[LeftOut, ...]


def find_files(root: Path, *, without: Path | None = None) -> FoundFiles:
    """Find the images below a folder; hidden files are passed over.

    Args:
        root: the folder.
        without: a folder below it that belongs to something else.
    """
    content = search_folder(root, without=without)
    return FoundFiles(
        content.usable, tuple(_left_out(other) for other in content.others if other.reason is not Reason.HIDDEN)
    )


def other_files(listing: Listing, *known: Path) -> list[LeftOut]:
    """Return the files of a listing that are no pictures, but for those that are known."""
    pictures = (*IMAGE_SUFFIXES, DICOM_SUFFIX)
    result = []
    for file in listing.files:
        if file.suffix.lower() in pictures or file in known:
            continue
        shown = listing.shown(file)
        if known_suffix(file) is not None:
            result.append(LeftOut(shown, "a volume, not a picture"))
        elif (reason := reason_of(file, ())) is not None:
            result.append(_left_out(other_file(file, shown, reason)))
    return result


def _left_out(other: OtherFile) -> LeftOut:
    return LeftOut(other.shown, f"{other.reason} ({other.suffix})" if other.suffix else str(other.reason))
