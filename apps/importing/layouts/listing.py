"""What lies in a downloaded folder, and which of its files belong together."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath

from ....transforms.errors import DataError
from ....transforms.folded_names import folded
from ....transforms.loading.dicom_header import DICOM_SUFFIX
from ....transforms.natural_order import natural_order
from ..source import LeftOut, Section, SourceDataset

_SHOWN_FILES = 4
_IGNORED = frozenset({"__macosx", "thumbs.db", "desktop.ini"})
# Masks of one class: some publishers write 1, others 255, some both.
ONE_CLASS = {0: 0, 1: 1, 255: 1}

_VOLUME_SUFFIXES = (".nii.gz", ".nii", ".nrrd")
_SECTION = re.compile(r"(?<![a-z])(train|valid|test)")
_SECTIONS: Mapping[str, Section] = {"train": "training", "valid": "validation", "test": "testing"}


@dataclass(frozen=True)
class Listing:
    """The files below a folder, in natural order of their paths (2 before 10).

    Attributes:
        folder: the folder.
        files: its files, without hidden ones and what operating systems add.
        refused: links that lead out of the folder, with that reason; they were not followed.
    """

    folder: Path
    files: tuple[Path, ...]
    refused: tuple[LeftOut, ...]

    def shown(self, file: Path) -> str:
        """Return a file's path inside the folder, as texts name it."""
        return file.relative_to(self.folder).as_posix()

    def pictures(self) -> list[Path]:
        """Return the files that are pictures, or DICOM, by their suffix."""
        # The command's help names the data sets and reads no image.
        from ....transforms.loading.image_files import IMAGE_SUFFIXES  # noqa: PLC0415

        return [file for file in self.files if file.suffix.lower() in (*IMAGE_SUFFIXES, DICOM_SUFFIX)]

    def section(self, file: Path) -> Section | None:
        """Return the section that the nearest folder above a file names, such as ``Test`` or ``Training Set``."""
        for name in reversed(file.relative_to(self.folder).parts[:-1]):
            result = _SECTION.search(name.lower())
            if result:
                return _SECTIONS[result[1]]
        return None

    def named(self, root: Path, name: str, written_in: Path) -> Path | None:
        """Find a file that an annotation file names; upper and lower case count as the same.

        Args:
            root: folder that the name is relative to.
            name: path with slashes.
            written_in: the annotation file, for an error.

        Returns:
            The file, None if there is none.

        Raises:
            DataError: if the name leads out of the root.
        """
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or PureWindowsPath(name).drive or ".." in path.parts:
            raise DataError(f"{written_in}: found the file name {name!r}; expected one that stays inside {root}.")
        return self._by_folded_name.get(folded((root / path).relative_to(self.folder).as_posix()))

    @cached_property
    def _by_folded_name(self) -> dict[str, Path]:
        return {folded(self.shown(file)): file for file in reversed(self.files)}


@dataclass(frozen=True)
class Pair:
    """An image and the masks with the same key, in natural order."""

    image: Path
    masks: tuple[Path, ...]


def list_files(folder: Path) -> Listing:
    """List the files below a folder.

    Raises:
        DataError: if there is no such folder.
    """
    if not folder.is_dir():
        result = "a file; if it is an archive, unpack it" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: found {result}; expected the folder of a data set.")
    files: list[Path] = []
    refused: list[LeftOut] = []
    inside = folder.resolve()
    for parent, subfolders, names in os.walk(folder):
        links = [name for name in subfolders if _is_visible(name) and Path(parent, name).is_symlink()]
        subfolders[:] = [name for name in subfolders if _is_visible(name) and name not in links]
        for name in [*filter(_is_visible, names), *links]:
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                refused.append(LeftOut(path.relative_to(folder).as_posix(), "a link that leads out of the folder"))
            elif name not in links:
                files.append(path)
    files.sort(key=lambda file: natural_order(file.relative_to(folder).as_posix()))
    return Listing(folder, tuple(files), tuple(sorted(refused, key=lambda link: natural_order(link.name))))


def stem_of(file: Path) -> str:
    """Return a file's name without suffix; ``.nii.gz`` is one suffix."""
    for suffix in _VOLUME_SUFFIXES:
        if file.name.lower().endswith(suffix):
            return file.name[: -len(suffix)]
    return file.stem


def is_volume(file: Path) -> bool:
    """Return whether a file is a NIfTI or NRRD volume by its suffix."""
    return file.name.lower().endswith(_VOLUME_SUFFIXES)


def pair_files(
    listing: Listing, images: Iterable[tuple[str, Path]], masks: Iterable[tuple[str, Path]]
) -> tuple[list[Pair], list[LeftOut]]:
    """Bring images and masks together that have the same key.

    Args:
        listing: where they lie.
        images: key and file of every image.
        masks: key and file of every mask; several may have the same key.

    Returns:
        The pairs in natural order of their keys, and what was left out: images without a mask, masks without an
        image, and second images of a key.
    """
    image_of: dict[str, Path] = {}
    skipped: list[LeftOut] = []
    for key, file in images:
        if key in image_of:
            skipped.append(second_of(listing, file, image_of[key]))
        else:
            image_of[key] = file
    masks_of: defaultdict[str, list[Path]] = defaultdict(list)
    for key, file in masks:
        masks_of[key].append(file)
    pairs: list[Pair] = []
    for key in sorted(image_of.keys() | masks_of.keys(), key=natural_order):
        if key not in masks_of:
            skipped.append(LeftOut(listing.shown(image_of[key]), "no mask"))
        elif key not in image_of:
            skipped += [LeftOut(listing.shown(file), "no image") for file in masks_of[key]]
        else:
            pairs.append(Pair(image_of[key], tuple(masks_of[key])))
    return pairs, skipped


def single_mask(listing: Listing, pair: Pair, skipped: list[LeftOut]) -> Path:
    """Return a pair's first mask; further ones are added to what was left out."""
    first, *others = pair.masks
    skipped += [second_of(listing, file, first) for file in others]
    return first


def checked(dataset: SourceDataset, listing: Listing, expected: str) -> SourceDataset:
    """Finish what an importer found.

    A section that all cases share says nothing about where to train and where to test, so it is dropped: a data set of
    which only the training part has labels is free to be split.

    Args:
        dataset: what was found.
        listing: where it was found.
        expected: the layout in one line.

    Raises:
        DataError: if no case was found; the text says what was found and what was expected.
    """
    skipped = (*dataset.skipped, *listing.refused)
    if not dataset.cases:
        shown = ", ".join(listing.shown(file) for file in listing.files[:_SHOWN_FILES])
        more = ", …" if len(listing.files) > _SHOWN_FILES else ""
        result = f"{len(listing.files)} files: {shown}{more}" if listing.files else "no files"
        first = f" Left out first: {skipped[0]}." if skipped else ""
        raise DataError(
            f"{listing.folder}: found no case of {dataset.name} ({result}); expected {expected}. "
            f"If there are archives, unpack them.{first}"
        )
    cases = dataset.cases
    if len({case.section for case in cases}) == 1:
        cases = tuple(replace(case, section=None) for case in cases)
    return replace(dataset, cases=cases, skipped=skipped)


def second_of(listing: Listing, file: Path, first: Path) -> LeftOut:
    """Return that a file is left out, since there is another one of its name already."""
    text = f"{listing.shown(file)}: there is {listing.shown(first)} already"
    return LeftOut(listing.shown(file), "there is another file of its name", text)


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in _IGNORED
