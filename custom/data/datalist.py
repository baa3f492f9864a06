"""A site's cases: MONAI's datalist, read into paths and written from them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...transforms.errors import DataError, shown
from ...transforms.loading.image_channels import MAX_CHANNELS, ImageFiles
from ...transforms.strict_files import JsonObject, read_json
from .contained_paths import ContainedPaths
from .whole_files import write_text

TRAINING, VALIDATION, TESTING = "training", "validation", "testing"
# Cases whose annotations somebody has reviewed; images of other lists may be among them.
REFERENCE = "reference"
SECTIONS = (TRAINING, VALIDATION, TESTING, REFERENCE)

_TEXTS = ("group", "source", "annotator")
# Keys whose value is always the path of a file; a label may be the index of a class instead.
_FILES = ("image", "given_label")
_KEYS = ("image", "label", "given_label", "clean_label", *_TEXTS)
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Case:
    """The files of one case.

    Attributes:
        image: the image; of one with a file for each channel the first of them that is there, which gives the grid.
        label: the given annotation, a mask file; for classification the index of the class.
        clean_label: the annotation without noise, as above, where it is known; for evaluation only.
        group: volume or patient that the case belongs to.
        source: where the case comes from.
        annotator: who annotated it.
        given_label: the mask that the site had given before `label` took its place in a review. The same file as
            `label` if the review has kept it; None if no review is known.
        channels: the file of every channel in order, None for one that is missing; empty of an image in one file.
    """

    image: Path
    label: Path | int
    clean_label: Path | int | None = None
    group: str | None = None
    source: str | None = None
    annotator: str | None = None
    given_label: Path | None = None
    channels: tuple[Path | None, ...] = ()

    @property
    def image_files(self) -> ImageFiles:
        """The image's file, or that of every channel."""
        return self.channels or self.image

    @property
    def num_missing_channels(self) -> int:
        """How many channels have no file."""
        return self.channels.count(None)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the case."""
        others = (*(self.channels or (self.image,)), self.label, self.clean_label, self.given_label)
        return tuple(file for file in others if isinstance(file, Path))

    @property
    def unit(self) -> str:
        """What stands for one patient when cases are counted: the group, else the image itself."""
        return str(self.image) if self.group is None else self.group


@dataclass(frozen=True)
class ExcludedCase:
    """A case that cannot be used, by its image or its place in the datalist, and why; stays at the site."""

    name: str
    reason: str


@dataclass(frozen=True)
class Datalist:
    """The lists ``training``, ``validation`` and ``testing`` that a datalist has, in its order.

    Attributes:
        cases: the cases of each list.
        refused: the items of each list that cannot be cases; nothing that they name has been touched.
    """

    cases: dict[str, list[Case]]
    refused: dict[str, list[ExcludedCase]]

    def section(self, name: str) -> list[Case]:
        """Return the cases of a list, none if there is no such list."""
        return self.cases.get(name, [])


def read_datalist(file: Path) -> Datalist:
    """Read a datalist; its paths are relative to its folder and may not lead out of it.

    Raises:
        DataError: if the file is missing, is not JSON, or has none of the lists.
    """
    content = read_json(file, "a datalist", any_number=True)
    if not isinstance(content, dict) or not any(section in content for section in SECTIONS):
        result = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        raise DataError(
            f"{file}: found {result or 'no keys'}; expected at least one of the lists {', '.join(SECTIONS)}."
        )
    datalist = Datalist({}, {})
    for section in SECTIONS:
        if section not in content:
            continue
        datalist.cases[section], datalist.refused[section] = cases_of(content[section], file, section)
    return datalist


def cases_of(items: Any, file: Path, section: str) -> tuple[list[Case], list[ExcludedCase]]:
    """Make the items of a list into cases; those that cannot be are returned with the reason.

    Raises:
        DataError: if it is no list.
    """
    if not isinstance(items, list):
        raise DataError(f"{file}: key {section!r} is {shown(items)}; expected a list of cases.")
    paths = ContainedPaths(file.parent)
    cases: list[Case] = []
    refused: list[ExcludedCase] = []
    for index, item in enumerate(items):
        place = f"{section}[{index}]"
        try:
            cases.append(_read_case(item, file, paths, place))
        except DataError as error:
            refused.append(ExcludedCase(_name_of(item) or f"{file.name}: {place}", str(error)))
    return cases, refused


def write_datalist(file: Path, sections: Mapping[str, Sequence[Case]]) -> None:
    """Write a datalist with paths relative to its folder.

    Raises:
        ValueError: if a file of a case does not lie in the datalist's folder.
    """
    content = {section: [_as_item(case, file.parent) for case in cases] for section, cases in sections.items()}
    write_text(file, json.dumps(content, indent=1) + "\n")


def _read_case(item: Any, file: Path, paths: ContainedPaths, place: str) -> Case:
    if not isinstance(item, dict):
        raise DataError(f"{file}: {place} is {shown(item)}; expected the keys {', '.join(_KEYS)}.")
    for key in ("image", "label"):
        if key not in item:
            raise DataError(f"{file}: {place} has no {key!r}; expected {_expected(file, key)}.")
    for key in _TEXTS:
        if not isinstance(item.get(key), str | int | None):
            raise _wrong_value(key, item[key], file, place)
    clean, given = item.get("clean_label"), item.get("given_label")
    image, channels = _image(item["image"], file, paths, place)
    return Case(
        image=image,
        label=_path_or_class("label", item["label"], file, paths, place),
        clean_label=None if clean is None else _path_or_class("clean_label", clean, file, paths, place),
        group=_text(item.get("group")),
        source=_text(item.get("source")),
        annotator=_text(item.get("annotator")),
        given_label=None if given is None else _path("given_label", given, file, paths, place),
        channels=channels,
    )


def _image(value: Any, file: Path, paths: ContainedPaths, place: str) -> tuple[Path, tuple[Path | None, ...]]:
    """The image's file, and those of its channels where it is a list; a list of one file is that file."""
    if not isinstance(value, list):
        return _path("image", value, file, paths, place), ()
    channels = tuple(None if one is None else _path("image", one, file, paths, place) for one in value[:MAX_CHANNELS])
    first = next((channel for channel in channels if channel is not None), None)
    if first is None or len(value) > MAX_CHANNELS:
        raise _wrong_value("image", value, file, place)
    named = [channel for channel in channels if channel is not None]
    if len(set(named)) != len(named):
        raise DataError(f"{file}: {place} has 'image' = {shown(value)}; expected a file of its own for each channel.")
    return first, () if len(channels) == 1 else channels


def first_image(item: Mapping[str, Any]) -> Any:
    """Return what an item of a datalist calls its image, of several channels the first one that has a file."""
    image = item.get("image")
    return next((name for name in image if name is not None), None) if isinstance(image, list) else image


def _name_of(item: Any) -> str | None:
    """What an item calls its image, if that can be shown."""
    image = first_image(item) if isinstance(item, dict) else None
    usable = isinstance(image, str) and image.isprintable() and len(image) <= _SHOWN_CHARACTERS
    return image if usable else None


def _path(key: str, value: Any, file: Path, paths: ContainedPaths, place: str) -> Path:
    path = _path_or_class(key, value, file, paths, place)
    if not isinstance(path, Path):
        raise _wrong_value(key, path, file, place)
    return path


def _path_or_class(key: str, value: Any, file: Path, paths: ContainedPaths, place: str) -> Path | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not value or not _can_be_a_path(value):
        raise _wrong_value(key, value, file, place)
    named = f"{file}: {place} has {key!r} = {shown(value)}"
    try:
        leads_out = paths.leads_out(value)
    except OSError as error:
        raise DataError(f"{named}, which is no usable path ({error.strerror}).") from error
    except RuntimeError as error:
        raise DataError(f"{named}, which is no usable path (a link that leads to itself).") from error
    if leads_out:
        raise DataError(
            f"{named}, which leads out of {file.parent}; it is not read. Put the file into that folder, or the "
            "datalist into a folder that holds all files."
        )
    return paths.folder / value


def _can_be_a_path(value: str) -> bool:
    """Return whether the disk can have the name: no zero in it, and characters that can be encoded."""
    try:
        return "\0" not in value and (value.isascii() or bool(os.fsencode(value)))
    except UnicodeEncodeError:
        return False


def _wrong_value(key: str, value: Any, file: Path, place: str) -> DataError:
    return DataError(f"{file}: {place} has {key!r} = {shown(value)}; expected {_expected(file, key)}.")


def _expected(file: Path, key: str) -> str:
    if key in _TEXTS:
        return "a text or a number"
    path = f"a path relative to {file.parent}"
    if key == "image":
        return f"{path} or a list of 1 to {MAX_CHANNELS} such paths with null for a missing channel"
    return f"{path}{'' if key in _FILES else ' or, for classification, a class index'}"


def _as_item(case: Case, folder: Path) -> JsonObject:
    files = {
        "image": case.image,
        "label": case.label,
        "given_label": case.given_label,
        "clean_label": case.clean_label,
    }
    item: JsonObject = {
        key: value.relative_to(folder).as_posix() if isinstance(value, Path) else value
        for key, value in files.items()
        if value is not None
    }
    if case.channels:
        item["image"] = [None if one is None else one.relative_to(folder).as_posix() for one in case.channels]
    return item | {key: text for key in _TEXTS if (text := getattr(case, key)) is not None}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
