"""The images below a folder, however deep: pictures, volumes and folders with a DICOM series; all others by name."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from ...transforms.natural_order import natural_order
from .dicom_pictures import is_dicom_picture, stands_alone
from .layouts.listing import DICOM_SUFFIX, Listing
from .source import LeftOut
from .volumes import VOLUME_FILE_SUFFIXES, dicom_files

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
    """Find the images below a folder.

    Hidden files and what operating systems add are passed over. Links to folders are not followed.

    Args:
        root: the folder.
        without: a folder below it that belongs to something else.
    """
    usable: list[FoundFile] = []
    others: list[LeftOut] = []
    title = root.resolve().name
    for parent, subfolders, names in os.walk(root):
        folder = Path(parent)
        place = folder.relative_to(root).parts
        shown = "/".join((title, *place))
        links = [name for name in filter(_is_visible, subfolders) if (folder / name).is_symlink()]
        others += [LeftOut(f"{shown}/{name}", "a link to a folder, which is not followed") for name in links]
        skipped = None if without is None else without.resolve()
        subfolders[:] = sorted(
            name
            for name in subfolders
            if _is_visible(name) and name not in links and (folder / name).resolve() != skipped
        )
        files = [folder / name for name in sorted(names) if _is_visible(name)]
        # Slices beside other images of the topmost folder are nobody's series.
        slices = dicom_files([file for file in files if _known_suffix(file) is None])
        contours = {file for file in slices if is_structure_set(file)}
        slices -= contours
        alone = _standing_alone(slices, in_folder=bool(place))
        slices -= alone
        if slices and place:
            usable.append(FoundFile(folder, place[:-1], place[-1], shown))
        for file in files:
            suffix = DICOM_SUFFIX if file in alone else _known_suffix(file)
            if file in contours:
                name = file.name.removesuffix(DICOM_SUFFIX)
                usable.append(FoundFile(file, place, name, f"{shown}/{file.name}", is_structure_set=True))
            elif suffix is not None:
                usable.append(FoundFile(file, place, file.name[: -len(suffix)], f"{shown}/{file.name}"))
            elif file not in slices:
                if (reason := _reason(file, files)) is not None:
                    others.append(LeftOut(f"{shown}/{file.name}", reason))
            elif not place:
                others.append(LeftOut(f"{shown}/{file.name}", "a DICOM file that is not in the folder of its series"))
    usable.sort(key=lambda found: natural_order(found.shown))
    return FoundFiles(tuple(usable), tuple(others))


def _standing_alone(files: Collection[Path], *, in_folder: bool) -> set[Path]:
    """DICOM files that are images of their own; of a folder all or none, by its first file."""
    if in_folder and files and (not stands_alone(min(files)) or not is_dicom_picture(min(files))):
        return set()
    return {file for file in files if stands_alone(file)}


def other_files(listing: Listing, *known: Path) -> list[LeftOut]:
    """Return the files of a listing that are no pictures, but for those that are known."""
    pictures = (*IMAGE_SUFFIXES, DICOM_SUFFIX)
    others = [file for file in listing.files if file.suffix.lower() not in pictures and file not in known]
    reasons = {file: "a volume, not a picture" if _known_suffix(file) else _reason(file, ()) for file in others}
    return [LeftOut(listing.shown(file), reason) for file, reason in reasons.items() if reason is not None]


def _known_suffix(file: Path) -> str | None:
    name = file.name.lower()
    return next((suffix for suffix in _READ if name.endswith(suffix)), None)


def _reason(file: Path, beside: Sequence[Path]) -> str | None:
    """Why a file is no image that can be read; None of a file with another's voxels."""
    if file.name.lower().endswith(_VOXELS) and _holds_voxels(
        file.name.lower(), {other.name.lower() for other in beside if _known_suffix(other) in _HEADERS}
    ):
        return None
    suffix = file.suffix.lower()
    return f"an image format that is not read ({suffix})" if suffix in _OTHER_IMAGES else "not an image"


def _holds_voxels(name: str, beside: Collection[str]) -> bool:
    stems = [name.removesuffix(suffix) for suffix in _VOXELS if name.endswith(suffix)]
    return any(f"{stem}{header}" in beside for stem in stems for header in _HEADERS)


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in _OF_SYSTEMS
