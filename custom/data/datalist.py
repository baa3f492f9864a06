"""A site's cases: MONAI's datalist, read into paths and written from them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...transforms.errors import DataError, shown
from ...transforms.folded_names import composed
from ...transforms.loading.image_channels import MAX_CHANNELS, ImageFiles
from ...transforms.strict_files import JsonObject, read_json
from .annotations import UNDECIDED, Annotation, annotator_name, checked_annotations, read_annotations
from .contained_paths import ContainedPaths
from .whole_files import write_text

TRAINING, VALIDATION, TESTING = "training", "validation", "testing"
# Cases whose annotations somebody has reviewed; images of other lists may be among them.
REFERENCE = "reference"
SECTIONS = (TRAINING, VALIDATION, TESTING, REFERENCE)

_TEXTS = ("group", "source", "annotator")
# Keys whose value is always the path of a file; a label may be the index of a class instead.
_FILES = ("image", "given_label")
_KEYS = ("image", "label", "given_label", "clean_label", *_TEXTS, "labels")
_SHOWN_CHARACTERS = 200
_SHOWN_ANNOTATORS = 4


@dataclass(frozen=True)
class Case:
    """The files of one case.

    Attributes:
        image: the image; of one with a file for each channel the first of them that is there, which gives the grid.
        label: the annotation that counts, a mask file; for classification the index of the class. Of a case with
            several annotations and no label of its own it is :data:`.annotations.UNDECIDED`, which no reader of masks
            or classes takes: a rule has to make the label.
        clean_label: the annotation without noise, as above, where it is known; for evaluation only.
        group: volume or patient that the case belongs to.
        source: where the case comes from.
        annotator: who made `label`.
        given_label: the mask or class that the site had given before `label` took its place in a review. The same as
            `label` if the review has kept it; None if no review is known.
        channels: the file of every channel in order, None for one that is missing; empty of an image in one file.
        annotations: the annotations of a case that has several, with their annotators.
        is_reference: whether the list of reviewed cases has the image with this label.
    """

    image: Path
    label: Path | int
    clean_label: Path | int | None = None
    group: str | None = None
    source: str | None = None
    annotator: str | None = None
    given_label: Path | int | None = None
    channels: tuple[Path | None, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    is_reference: bool = False

    @property
    def is_reviewed(self) -> bool:
        """Whether a review has decided the label, by changing or by keeping it."""
        return self.is_reference or self.given_label is not None

    @property
    def is_undecided(self) -> bool:
        """Whether a rule has to make the label of several annotations."""
        return bool(self.annotations) and self.label == UNDECIDED

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
        annotations = tuple(annotation.file for annotation in self.annotations)
        return tuple(file for file in (*others, *annotations) if isinstance(file, Path))

    @property
    def unit(self) -> str:
        """What stands for one patient when cases are counted: source and group, else the image, however written.

        Two sources may each have a patient 1.
        """
        if self.group is None:
            return os.path.normpath(self.image)
        return self.group if self.source is None else f"{self.source}/{self.group}"


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
    reviewed = {_label_key(case) for case in datalist.section(REFERENCE)}
    for section, cases in datalist.cases.items():
        datalist.cases[section] = [
            replace(case, is_reference=True) if _label_key(case) in reviewed else case for case in cases
        ]
    return datalist


def cases_of(items: Any, file: Path, section: str) -> tuple[list[Case], list[ExcludedCase]]:
    """Make the items of a list into cases; those that cannot be are returned with the reason.

    Items of one image that name annotators are one case with several annotations, where the first of them is.

    Raises:
        DataError: if it is no list.
    """
    if not isinstance(items, list):
        raise DataError(f"{file}: key {section!r} is {shown(items)}; expected a list of cases.")
    paths = ContainedPaths(file.parent)
    placed: list[tuple[str, Case]] = []
    refused: list[ExcludedCase] = []
    for index, item in enumerate(items):
        place = f"{section}[{index}]"
        try:
            placed.append((place, _read_case(item, file, paths, place)))
        except DataError as error:
            refused.append(ExcludedCase(_name_of(item) or f"{file.name}: {place}", str(error)))
    cases, conflicting = _with_repeated_joined(placed, file)
    return cases, refused + conflicting


def require_decided(cases: Sequence[Case], file: Path, expected: str) -> None:
    """Check that every case has one label, for what cannot work with several annotations of a case.

    Args:
        cases: of a datalist.
        file: the datalist, for the message.
        expected: what to do instead.

    Raises:
        DataError: if a rule would have to make the label of a case.
    """
    undecided = [case for case in cases if case.is_undecided]
    if undecided:
        first = undecided[0]
        names = ", ".join(shown(annotation.annotator) for annotation in first.annotations[:_SHOWN_ANNOTATORS])
        more = ", …" if len(first.annotations) > _SHOWN_ANNOTATORS else ""
        raise DataError(
            f"{file}: found {len(undecided)} of {len(cases)} cases with several annotations and no 'label', the first "
            f"{os.path.relpath(first.image, file.parent)} by {names}{more}; expected {expected}."
        )


def _with_repeated_joined(placed: Sequence[tuple[str, Case]], file: Path) -> tuple[list[Case], list[ExcludedCase]]:
    """The cases, those of one image by several annotators as one, and those that contradict each other."""
    by_image: dict[tuple[str, ...], list[tuple[str, Case]]] = {}
    for place, case in placed:
        by_image.setdefault(_image_key(case), []).append((place, case))
    cases: list[Case] = []
    refused: list[ExcludedCase] = []
    for _, case in placed:
        repeated = by_image[_image_key(case)]
        own = [one for _, one in repeated]
        # An image that is repeated without annotators is several cases.
        if len(own) == 1 or all(one.annotator is None and not one.annotations for one in own):
            cases.append(case)
        elif case is own[0]:
            places = ", ".join(place for place, _ in repeated)
            try:
                cases.append(_of_several(own, f"{file}: {places} have the image {_relative(case.image, file)}"))
            except DataError as error:
                refused.append(ExcludedCase(_relative(case.image, file), str(error)))
    return cases, refused


def _image_key(case: Case) -> tuple[str, ...]:
    return tuple("" if file is None else os.path.normpath(file) for file in case.channels or (case.image,))


def _label_key(case: Case) -> tuple[str | int, ...]:
    label = os.path.normpath(case.label) if isinstance(case.label, Path) else case.label
    return *_image_key(case), label


def _relative(path: Path, file: Path) -> str:
    return os.path.relpath(path, file.parent)


def _of_several(cases: Sequence[Case], named: str) -> Case:
    """One case of items that differ in label and annotator alone.

    Raises:
        DataError: if one has no annotator of its own, or they differ in something else.
    """
    for case in cases:
        if case.annotations or case.annotator is None:
            raise DataError(f"{named}; expected 'label' and 'annotator' in each, or 'labels' in a single one.")
        if case.given_label is not None:
            raise DataError(f"{named}, and one a 'given_label'; expected it only of a case with one annotation.")
    if len({(case.clean_label, case.group, case.source) for case in cases}) != 1:
        raise DataError(f"{named}; expected the same 'clean_label', 'group' and 'source' in each.")
    annotations = [Annotation(case.label, annotator_name(case.annotator, named)) for case in cases]
    return replace(cases[0], label=UNDECIDED, annotator=None, annotations=checked_annotations(annotations, named))


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
    for key in ("image",) if "labels" in item else ("image", "label"):
        if key not in item:
            raise DataError(f"{file}: {place} has no {key!r}; expected {_expected(file, key)}.")
    for key in _TEXTS:
        if not isinstance(item.get(key), str | int | None):
            raise _wrong_value(key, item[key], file, place)
    clean, given = item.get("clean_label"), item.get("given_label")
    image, channels = _image(item["image"], file, paths, place)
    annotations = _annotations(item, file, paths, place)
    if annotations and item.get("label") == UNDECIDED:
        raise _wrong_value("label", item["label"], file, place)
    if "label" not in item and len(annotations) == 1:
        # One annotation needs no rule.
        item, annotations = item | {"label": item["labels"][0]["file"], "annotator": annotations[0].annotator}, ()
    return Case(
        image=image,
        label=_path_or_class("label", item["label"], file, paths, place) if "label" in item else UNDECIDED,
        clean_label=None if clean is None else _path_or_class("clean_label", clean, file, paths, place),
        group=_text(item.get("group")),
        source=_text(item.get("source")),
        annotator=None if (annotator := _text(item.get("annotator"))) is None else composed(annotator),
        given_label=None if given is None else _given_label(given, item, file, paths, place),
        channels=channels,
        annotations=annotations,
    )


def _given_label(value: Any, item: JsonObject, file: Path, paths: ContainedPaths, place: str) -> Path | int:
    """What a case had before its review: a class where its label is one, else a mask."""
    if not isinstance(item.get("label"), int):
        return _path("given_label", value, file, paths, place)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"{file}: {place} has 'given_label' = {shown(value)}; expected a class index, as 'label' is.")
    return value


def _annotations(item: JsonObject, file: Path, paths: ContainedPaths, place: str) -> tuple[Annotation, ...]:
    """What an item says of several annotations."""
    if "labels" not in item:
        return ()

    def read_file(value: Any) -> Path | int:
        return _path_or_class("file", value, file, paths, place)

    return read_annotations(item["labels"], read_file, f"{file}: {place}")


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
    if case.is_undecided:
        del item["label"]
    if case.annotations:
        item["labels"] = [_as_annotation(annotation, folder) for annotation in case.annotations]
    return item | {key: text for key in _TEXTS if (text := getattr(case, key)) is not None}


def _as_annotation(annotation: Annotation, folder: Path) -> JsonObject:
    file = annotation.file
    named = file.relative_to(folder).as_posix() if isinstance(file, Path) else file
    return {"file": named, "annotator": annotation.annotator}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
