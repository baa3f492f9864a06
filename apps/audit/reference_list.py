"""Reviewed cases as a datalist's list ``reference``, whose annotations give the reference level."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.corrections.model import CaseCorrection
from ...custom.data.contained_paths import relative_name
from ...custom.data.datalist import REFERENCE, TRAINING, VALIDATION, Case, first_image
from ...custom.data.whole_files import write_text
from ...transforms.strict_files import JsonObject, read_json
from .case_files import CaseReader

REFERENCE_FILE = "reference.json"


def write_reference(folder: Path, out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection]) -> Path | None:
    """Write the reviewed cases as the part of a datalist that has them; None where there are none.

    Paths are relative to the folder of the site's datalist. Where the new files lie elsewhere, the list counts once
    their folder is put there, by its own name. Each case names what the site had given, as far as it is known.

    Args:
        folder: where to write.
        out: what the folder will be called.
        reader: of the audit.
        annotations: those that somebody has decided about.
    """
    content = read_json(reader.datalist, "a datalist", any_number=True)
    items = _reference_items(out, reader, annotations, content)
    if not items:
        return None
    file = folder / REFERENCE_FILE
    write_text(file, json.dumps({REFERENCE: items}, indent=1) + "\n")
    return file


def updated_content(out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection]) -> JsonObject:
    """Return the site's datalist with the new annotations, and the reviewed cases as a reference.

    Cases that are in the reference already, and were not reviewed again, stay there. All other keys stay as they are.
    The key ``given_label`` of a case with a new mask or class names the one that the site had given: it goes on to say
    how the site annotates, and that no rule for several annotations replaces the reviewed one.

    Args:
        out: the folder of the new annotations, in the folder of the datalist.
        reader: of the audit.
        annotations: those that somebody has decided about.

    Raises:
        DataError: if the datalist cannot be read.
    """
    content: JsonObject = read_json(reader.datalist, "a datalist", any_number=True)
    items = _reference_items(out, reader, annotations, content)
    changed = {
        _key(annotation, reader): _new_label(annotation, out, reader)
        for annotation in annotations
        if has_new_label(annotation)
    }
    given = {key: _given_label(key, content) for key in changed}
    for section in (TRAINING, VALIDATION):
        for item in content.get(section, []):
            if isinstance(item, dict) and (key := _key_of_item(item)) in changed:
                item.update({"label": changed[key]} | given[key])
    images = {_image_of_item(item) for item in items}
    earlier = [
        one for one in content.get(REFERENCE, []) if not isinstance(one, dict) or _image_of_item(one) not in images
    ]
    return content | {REFERENCE: [*earlier, *items]}


def _reference_items(
    out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection], before: Mapping[str, Any]
) -> list[JsonObject]:
    cases = {(case.image, case.label): case for case in reader.audit.cases}
    items = []
    for item in annotations:
        if item.review is None or not item.review.is_reviewed:
            continue
        files, key = reader.files(cases[(item.image, _given(item))]), _key(item, reader)
        label = _new_label(item, out, reader) if has_new_label(item) else key[1]
        texts = {"group": files.group, "source": files.source, "annotator": files.annotator}
        labels: JsonObject = {"image": _image_of(files, reader), "label": label} | _given_label(key, before)
        items.append(labels | {name: text for name, text in texts.items() if text is not None})
    return items


def _image_of(files: Case, reader: CaseReader) -> str | list[str | None]:
    """What a datalist calls an image: its file, or that of every channel."""
    folder = reader.datalist.parent
    if not files.channels:
        return relative_name(files.image, folder)
    return [None if file is None else relative_name(file, folder) for file in files.channels]


def _given_label(key: tuple[str, str | int], content: Mapping[str, Any]) -> dict[str, str | int]:
    """The mask or class that the site had given of a case, as an item of a datalist names it.

    Empty where an earlier review may have replaced it and nothing says what was there before.
    """
    items = [
        (section, item)
        for section in (TRAINING, VALIDATION, REFERENCE)
        for item in content.get(section, [])
        if isinstance(item, dict) and _key_of_item(item) == key
    ]
    known = next((item["given_label"] for _, item in items if isinstance(item.get("given_label"), str | int)), None)
    if known is None and all(section != REFERENCE for section, _ in items):
        known = key[1]
    return {} if known is None else {"given_label": known}


def has_new_label(one: CaseCorrection) -> bool:
    """Return whether a reviewed case has another mask or class than it was given."""
    return one.mask is not None or (one.new_class is not None and one.new_class.becomes != one.new_class.given)


def _given(one: CaseCorrection) -> str:
    """The given annotation, or class, as the audit names it."""
    return one.label if one.new_class is None else one.new_class.given


def _new_label(one: CaseCorrection, out: Path, reader: CaseReader) -> str | int:
    """What a datalist calls a new annotation."""
    if one.new_class is not None:
        return reader.description.classes.index(one.new_class.becomes)
    assert one.mask is not None
    folder, start = out.resolve(), reader.datalist.parent.resolve()
    inside = folder.relative_to(start).as_posix() if folder.is_relative_to(start) else folder.name
    return f"{inside}/{one.mask.file}"


def _key(one: CaseCorrection, reader: CaseReader) -> tuple[str, str | int]:
    """How a datalist names the image and the given annotation of a case."""
    if one.new_class is not None:
        label: str | int = reader.description.classes.index(one.new_class.given)
    else:
        label = os.path.normpath(relative_name(reader.data / one.label, reader.datalist.parent))
    return os.path.normpath(relative_name(reader.data / one.image, reader.datalist.parent)), label


def _key_of_item(item: Mapping[str, Any]) -> tuple[str, str | int]:
    label = item.get("label")
    return _image_of_item(item), label if isinstance(label, int) else os.path.normpath(str(label))


def _image_of_item(item: Mapping[str, Any]) -> str:
    return os.path.normpath(str(first_image(item)))
