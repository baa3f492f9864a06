"""Reviewed cases as a datalist's list ``reference``, whose annotations give the reference level."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.corrections.model import CaseCorrection
from ...custom.data.contained_paths import relative_name
from ...custom.data.datalist import REFERENCE, TRAINING, VALIDATION
from ...custom.data.whole_files import write_text
from ...transforms.errors import DataError
from ...transforms.strict_files import read_json
from .case_files import CaseReader

REFERENCE_FILE = "reference.json"
UPDATED = "reviewed"


def write_reference(folder: Path, out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection]) -> Path | None:
    """Write the reviewed cases as the part of a datalist that has them; None where there are none.

    Paths are relative to the folder of the site's datalist. Where the new files lie elsewhere, the list counts once
    their folder is put there, by its own name.

    Args:
        folder: where to write.
        out: what the folder will be called.
        reader: of the audit.
        annotations: those that somebody has decided about.
    """
    items = _reference_items(out, reader, annotations)
    if not items:
        return None
    file = folder / REFERENCE_FILE
    write_text(file, json.dumps({REFERENCE: items}, indent=1) + "\n")
    return file


def write_updated_datalist(out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection]) -> Path:
    """Write a copy of the site's datalist beside it: with the new annotations, and the reviewed cases as a reference.

    The datalist itself stays as it is; ``data.yaml`` names the one that counts. Cases that are in the reference
    already, and were not reviewed again, stay there. All other keys stay as they are.

    Args:
        out: the folder of the new annotations, in the folder of the datalist.
        reader: of the audit.
        annotations: those that somebody has decided about.

    Returns:
        The copy.

    Raises:
        DataError: if the datalist cannot be read.
    """
    content = read_json(reader.datalist, "a datalist", any_number=True)
    changed = {
        _key(annotation, reader): _new_label(annotation, out, reader)
        for annotation in annotations
        if has_new_label(annotation)
    }
    for section in (TRAINING, VALIDATION):
        for item in content.get(section, []):
            if isinstance(item, dict) and (key := _key_of_item(item)) in changed:
                item["label"] = changed[key]
    items = _reference_items(out, reader, annotations)
    images = {item["image"] for item in items}
    earlier = [one for one in content.get(REFERENCE, []) if not isinstance(one, dict) or one.get("image") not in images]
    file = _updated_file(reader)
    write_text(file, json.dumps(content | {REFERENCE: [*earlier, *items]}, indent=1) + "\n")
    return file


def check_can_update(out: Path, reader: CaseReader) -> None:
    """Check that a copy of the site's datalist can be written that names files of a folder.

    Raises:
        DataError: if the folder lies elsewhere, or there is such a copy already.
    """
    folder, file = reader.datalist.parent, _updated_file(reader)
    if not out.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{out}: a datalist may not lead out of its folder; expected with --update-datalist a folder in {folder}."
        )
    if file.exists():
        raise DataError(f"{file}: found an earlier copy; expected none. Remove it, or let data.yaml name it.")


def _updated_file(reader: CaseReader) -> Path:
    source = reader.datalist
    return source.with_name(f"{source.stem}.{UPDATED}{source.suffix}")


def _reference_items(
    out: Path, reader: CaseReader, annotations: Sequence[CaseCorrection]
) -> list[dict[str, str | int]]:
    cases = {(case.image, case.label): case for case in reader.audit.cases}
    items = []
    for item in annotations:
        if item.review is None or not item.review.is_reviewed:
            continue
        files = reader.files(cases[(item.image, _given(item))])
        label = _new_label(item, out, reader) if has_new_label(item) else _key(item, reader)[1]
        texts = {"group": files.group, "source": files.source, "annotator": files.annotator}
        image = relative_name(files.image, reader.datalist.parent)
        items.append({"image": image, "label": label} | {key: text for key, text in texts.items() if text is not None})
    return items


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
        label = relative_name(reader.data / one.label, reader.datalist.parent)
    return os.path.normpath(relative_name(reader.data / one.image, reader.datalist.parent)), label


def _key_of_item(item: Mapping[str, Any]) -> tuple[str, str | int]:
    image, label = str(item.get("image")), item.get("label")
    return os.path.normpath(image), label if isinstance(label, int) else str(label)
