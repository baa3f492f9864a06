"""A site's cases: MONAI's datalist, read into paths and written from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...transforms.errors import DataError

TRAINING, VALIDATION, TESTING = "training", "validation", "testing"
SECTIONS = (TRAINING, VALIDATION, TESTING)

_KEYS = ("image", "label", "clean_label", "group", "source")


@dataclass(frozen=True)
class Case:
    """The files of one case.

    Attributes:
        image: the image.
        label: the given annotation.
        clean_label: the annotation without noise, where it is known; for evaluation only.
        group: volume or patient that the case belongs to.
        source: where the case comes from.
    """

    image: Path
    label: Path
    clean_label: Path | None = None
    group: str | None = None
    source: str | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the case."""
        return tuple(file for file in (self.image, self.label, self.clean_label) if file is not None)


def read_datalist(file: Path) -> dict[str, list[Case]]:
    """Read a datalist; its paths are relative to its folder.

    Returns:
        The cases of the sections ``training``, ``validation`` and ``testing`` that the file has, in the file's order.

    Raises:
        DataError: if the file is missing, is not JSON, or an item lacks its image or label.
    """
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected a datalist with a list 'training' or 'testing'.")
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: is not JSON ({error}).") from error
    if not isinstance(content, dict) or not any(section in content for section in SECTIONS):
        found = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        raise DataError(
            f"{file}: found {found or 'no keys'}; expected at least one of the lists {', '.join(SECTIONS)}."
        )
    return {
        section: [
            _read_case(item, file, f"{section}[{index}]") for index, item in enumerate(_items(content, section, file))
        ]
        for section in SECTIONS
        if section in content
    }


def write_datalist(file: Path, sections: Mapping[str, Sequence[Case]]) -> None:
    """Write a datalist with paths relative to its folder.

    Raises:
        ValueError: if a file of a case does not lie in the datalist's folder.
    """
    content = {section: [_as_item(case, file.parent) for case in cases] for section, cases in sections.items()}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _items(content: Mapping[str, Any], section: str, file: Path) -> list[Any]:
    items = content[section]
    if not isinstance(items, list):
        raise DataError(f"{file}: key {section!r} is {items!r}; expected a list of cases.")
    return items


def _read_case(item: Any, file: Path, place: str) -> Case:
    if not isinstance(item, dict):
        raise DataError(f"{file}: {place} is {item!r}; expected the keys {', '.join(_KEYS)}.")
    for key in ("image", "label"):
        if not isinstance(item.get(key), str):
            raise DataError(
                f"{file}: {place} has {key!r} = {item.get(key)!r}; expected a path relative to {file.parent}."
            )
    clean = item.get("clean_label")
    return Case(
        image=file.parent / item["image"],
        label=file.parent / item["label"],
        clean_label=None if clean is None else file.parent / str(clean),
        group=_text(item.get("group")),
        source=_text(item.get("source")),
    )


def _as_item(case: Case, folder: Path) -> dict[str, str]:
    paths = {"image": case.image, "label": case.label, "clean_label": case.clean_label}
    item = {key: path.relative_to(folder).as_posix() for key, path in paths.items() if path is not None}
    return item | {key: text for key, text in (("group", case.group), ("source", case.source)) if text is not None}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
