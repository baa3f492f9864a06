"""The images below a folder, however deep: pictures, volumes and folders with a DICOM series; all others by name."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..natural_order import natural_order
from .dicom_header import DICOM_SUFFIX, dicom_files, has_one_frame, is_dicom_picture, stands_alone
from .dicom_kind import is_structure_set
from .image_files import IMAGE_SUFFIXES
from .volume_suffixes import VOLUME_FILE_SUFFIXES

_READ = (*IMAGE_SUFFIXES, *VOLUME_FILE_SUFFIXES)
# Headers whose voxels lie in another file, and how that file may end.
_HEADERS = (".mhd", ".nhdr")
_VOXELS = (".raw", ".zraw", ".raw.gz", ".gz", ".img", ".bin")
_OTHER_IMAGES = frozenset(
    f".{ending}"
    for endings in (
        ("webp", "gif", "heic", "jp2", "svs", "ndpi", "psd", "pdf", "svg", "avi", "mp4"),
        ("img", "hdr", "mgz", "mgh", "mnc", "par", "rec", "vtk", "ima", "raw", "zraw"),
        ("npy", "npz", "h5", "hdf5", "mat"),
    )
    for ending in endings
)
_OF_SYSTEMS = frozenset({"__macosx", "thumbs.db", "desktop.ini"})


class Reason(StrEnum):
    """Why a file or folder is no image that can be read."""

    LINK = "a link to a folder, which is not followed"
    LOOSE_SLICE = "a DICOM file that is not in the folder of its series"
    OTHER_FORMAT = "an image format that is not read"
    NO_IMAGE = "not an image"
    HIDDEN = "a hidden file"


@dataclass(frozen=True)
class FoundFile:
    """A picture, a volume, a DICOM series or a structure set below a folder.

    Attributes:
        file: where it lies; of a series its folder.
        folders: the names of the folders between.
        name: its own, without suffix; of an image or a mask what it shares with its counterpart.
        shown: its path, as messages have it.
        is_structure_set: whether it is DICOM RTSTRUCT, which is never an image.
    """

    file: Path
    folders: tuple[str, ...]
    name: str
    shown: str
    is_structure_set: bool = False

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture, not a volume."""
        return self.file.is_file() and (self.file.name.lower().endswith(IMAGE_SUFFIXES) or is_dicom_picture(self.file))


@dataclass(frozen=True)
class OtherFile:
    """What is no image that can be read.

    Attributes:
        file: where it lies.
        shown: its path, as messages have it.
        reason: why.
        suffix: its own, where the reason is the format; else empty.
    """

    file: Path
    shown: str
    reason: Reason
    suffix: str = ""


@dataclass(frozen=True)
class FolderContent:
    """What lies below a folder.

    Attributes:
        usable: the images and structure sets, in the order of their paths.
        others: everything else, but what operating systems add.
    """

    usable: tuple[FoundFile, ...]
    others: tuple[OtherFile, ...]


def search_folder(root: Path, *, without: Path | None = None) -> FolderContent:
    """Find the images below a folder. Links to folders are not followed, hidden folders passed over.

    Args:
        root: the folder.
        without: a folder below it that belongs to something else.
    """
    usable: list[FoundFile] = []
    others: list[OtherFile] = []
    title = root.resolve().name
    for parent, subfolders, names in os.walk(root):
        folder = Path(parent)
        place = folder.relative_to(root).parts
        shown = "/".join((title, *place))
        links = [name for name in filter(_is_visible, subfolders) if (folder / name).is_symlink()]
        others += [OtherFile(folder / name, f"{shown}/{name}", Reason.LINK) for name in links]
        skipped = None if without is None else without.resolve()
        subfolders[:] = sorted(
            name
            for name in subfolders
            if _is_visible(name) and name not in links and (folder / name).resolve() != skipped
        )
        hidden = [name for name in names if name.startswith(".") and known_suffix(Path(name)) is not None]
        others += [OtherFile(folder / name, f"{shown}/{name}", Reason.HIDDEN) for name in sorted(hidden)]
        files = [folder / name for name in sorted(names) if _is_visible(name)]
        # Slices next to other images of the topmost folder are nobody's series.
        slices = dicom_files([file for file in files if known_suffix(file) is None])
        contours = {file for file in slices if is_structure_set(file)}
        slices -= contours
        alone = _standing_alone(slices, in_folder=bool(place))
        slices -= alone
        if slices and place:
            usable.append(FoundFile(folder, place[:-1], place[-1], shown))
        for file in files:
            suffix = DICOM_SUFFIX if file in alone else known_suffix(file)
            if file in contours:
                name = file.name.removesuffix(DICOM_SUFFIX)
                usable.append(FoundFile(file, place, name, f"{shown}/{file.name}", is_structure_set=True))
            elif suffix is not None:
                usable.append(FoundFile(file, place, file.name[: -len(suffix)], f"{shown}/{file.name}"))
            elif file not in slices:
                if (reason := reason_of(file, files)) is not None:
                    others.append(other_file(file, f"{shown}/{file.name}", reason))
            elif not place:
                others.append(OtherFile(file, f"{shown}/{file.name}", Reason.LOOSE_SLICE))
    usable.sort(key=lambda found: natural_order(found.shown))
    return FolderContent(tuple(usable), tuple(others))


def known_suffix(file: Path) -> str | None:
    """Return the suffix of a picture or a volume in lower case, None of another file."""
    name = file.name.lower()
    return next((suffix for suffix in _READ if name.endswith(suffix)), None)


def other_file(file: Path, shown: str, reason: Reason) -> OtherFile:
    """Return what is no image, with its suffix where the reason is the format."""
    return OtherFile(file, shown, reason, file.suffix.lower() if reason is Reason.OTHER_FORMAT else "")


def reason_of(file: Path, beside: Sequence[Path]) -> Reason | None:
    """Return why a file of an unknown suffix is no image that can be read; None of a file with another's voxels."""
    if file.name.lower().endswith(_VOXELS) and _holds_voxels(
        file.name.lower(), {other.name.lower() for other in beside if known_suffix(other) in _HEADERS}
    ):
        return None
    return Reason.OTHER_FORMAT if file.suffix.lower() in _OTHER_IMAGES else Reason.NO_IMAGE


def _standing_alone(files: Collection[Path], *, in_folder: bool) -> set[Path]:
    """DICOM files that are images of their own; of a folder all or none, by its first file with one frame.

    What cannot be read among X-rays is an image of its own, too: it alone is refused, by its name.
    """
    if not in_folder:
        return {file for file in files if stands_alone(file)}
    first = next(filter(has_one_frame, sorted(files)), None)
    if first is None or not stands_alone(first):
        return set()
    return {file for file in files if file.name.lower().endswith(DICOM_SUFFIX)}


def _holds_voxels(name: str, beside: Collection[str]) -> bool:
    stems = [name.removesuffix(suffix) for suffix in _VOXELS if name.endswith(suffix)]
    return any(f"{stem}{header}" in beside for stem in stems for header in _HEADERS)


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in _OF_SYSTEMS
