"""A local datastore of MONAI Label: ``datastore_v2.json``, images next to it, final annotations in ``labels/final``."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from ....transforms.errors import DataError
from ....transforms.natural_order import natural_order
from ....transforms.strict_files import read_json
from ..source import LeftOut, SourceCase, SourceDataset
from .listing import Listing, checked, is_volume, list_files

EXPECTED = (
    "datastore_v2.json with CASE.nii.gz beside it and labels/final/CASE.nii.gz, as a local datastore of MONAI Label is"
)

DATASTORE_FILE = "datastore_v2.json"
_CONTENT = "MONAI Label's datastore with 'objects'"
_FINAL = "final"
_FOLDERS = {"images_dir": ".", "labels_dir": "labels"}


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the cases of a datastore that have a final annotation; those of a model alone are left out by name.

    Classes are those that the clients have written with the annotations; without any, masks of two values explain
    themselves.

    Raises:
        DataError: if there is no datastore, it has another form or names files outside, a value has two names, or it
            has volumes and pictures.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    files = [file for file in listing.files if file.name == DATASTORE_FILE]
    if not files:
        return checked(SourceDataset("monailabel", "segmentation", True, ()), listing, EXPECTED)
    if len(files) > 1:
        result = ", ".join(map(listing.shown, files))
        raise DataError(f"{folder}: found {result}; expected the folder of one datastore.")
    file = files[0]
    content: Any = read_json(file, _CONTENT)
    if not isinstance(content, Mapping) or not isinstance(content.get("objects"), Mapping):
        raise DataError(f"{file}: found another content; expected {_CONTENT}.")
    cases, skipped = _cases(listing, file, content)
    names = _names(content["objects"], {str(case.name) for case in cases}, file)
    volumes = {is_volume(case.image) for case in cases}
    if len(volumes) > 1:
        raise DataError(f"{file}: found volumes and pictures; expected one kind. Import each with --images.")
    is_of_volumes = volumes != {False}
    dataset = SourceDataset(
        "monailabel", "segmentation", is_of_volumes, cases, channels=1 if is_of_volumes else None, skipped=skipped
    )
    if names:
        labels = {0: 0} | {value: index for index, value in enumerate(names, 1)}
        dataset = replace(dataset, classes=tuple(names.values()), labels=labels)
    return checked(dataset, listing, EXPECTED)


def _cases(
    listing: Listing, file: Path, content: Mapping[str, Any]
) -> tuple[tuple[SourceCase, ...], tuple[LeftOut, ...]]:
    images, labels = (_folder(content, key, default, file) for key, default in _FOLDERS.items())
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for name in sorted(content["objects"], key=natural_order):
        entry = content["objects"][name]
        annotations = entry.get("labels", {}) if isinstance(entry, Mapping) else None
        if not isinstance(annotations, Mapping):
            raise DataError(f"{file}: found {name} as {entry!r:.80}; expected 'image' and 'labels'.")
        image, final = entry.get("image"), annotations.get(_FINAL)
        if final is None:
            skipped.append(LeftOut(name, "no final annotation"))
            continue
        paths = [images / f"{name}{_ending(image, file)}", labels / _FINAL / f"{name}{_ending(final, file)}"]
        found = [listing.named(file.parent, path.as_posix(), file) for path in paths]
        if found[0] is None or found[1] is None:
            missing = paths[found.index(None)]
            skipped.append(LeftOut(name, "a file is missing", f"{name}: there is no {missing}"))
        else:
            cases.append(SourceCase(found[0], found[1], name=name))
    return tuple(cases), tuple(skipped)


def _folder(content: Mapping[str, Any], key: str, default: str, file: Path) -> PurePosixPath:
    value = content.get(key, default)
    if not isinstance(value, str):
        raise DataError(f"{file}: key {key!r} is {value!r}; expected a folder beside it.")
    return PurePosixPath(value or ".")


def _ending(entry: Any, file: Path) -> str:
    ending = entry.get("ext", "") if isinstance(entry, Mapping) else None
    if not isinstance(ending, str):
        raise DataError(f"{file}: found an image or label without 'ext'; expected {_CONTENT}.")
    return ending


def _names(objects: Mapping[str, Any], used: Collection[str], file: Path) -> dict[int, str]:
    """The name of each value in the masks, in their order, as far as clients have written it."""
    names: dict[int, str] = {}
    for case in sorted(used, key=natural_order):
        info = objects[case]["labels"][_FINAL].get("info")
        entries = info.get("label_info") if isinstance(info, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            name, value = (entry.get("name"), entry.get("idx")) if isinstance(entry, Mapping) else (None, None)
            if not isinstance(name, str) or not isinstance(value, int) or value == 0:
                continue
            if names.setdefault(value, name) != name:
                raise DataError(
                    f"{file}: found the value {value} as {names[value]!r} and, in {case}, as {name!r}; expected one "
                    "name. Say it by --images, --labels and --label-map."
                )
    return dict(sorted(names.items()))
