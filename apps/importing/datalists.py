"""A data set from a datalist: MONAI's, the Medical Segmentation Decathlon's, or any JSON file with a list of cases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ...custom.data.annotations import UNDECIDED, Annotation
from ...custom.data.datalist import SECTIONS, TRAINING, Case, cases_of
from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import DICOM_SUFFIX, is_dicom_picture
from ...transforms.loading.volume_files import is_volume
from ...transforms.loading.volume_suffixes import VOLUME_FILE_SUFFIXES
from ...transforms.strict_files import read_json
from .channel_files import names_in
from .source import GivenLabel, LeftOut, Section, SourceCase, SourceDataset

# Classes are stored in a byte.
_LARGEST_CLASS = 255


def read_source_datalist(file: Path, *, key: str | None = None) -> SourceDataset:
    """Read the cases of a datalist, whose paths are relative to it and may not lead out of its folder.

    An item has ``image`` and ``label`` (a mask's path, or the index of a class) or ``labels`` of several annotators,
    and as far as they are known ``clean_label``, ``group`` (volume or patient) and ``source`` (centre). Names of
    classes are taken from the file's ``labels``, ``{"0": "background", "1": "lesion"}``, or ``classes``, a list or
    ``{"benign": 0, …}``.

    Args:
        file: the datalist.
        key: name of the list; None takes ``training``, ``validation`` and ``testing``, or else the only list.

    Raises:
        DataError: if the file cannot be read, has no such list, no case, or masks and classes mixed.
    """
    content = read_json(file, "a datalist", any_number=True)
    lists = _lists(content, file, key)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for section, items in lists.items():
        result, refused = cases_of(items, file, section)
        skipped += [LeftOut(item.name, "an item that is no case", item.reason) for item in refused]
        cases += [
            SourceCase(
                image=case.image,
                label=case.label if case.annotator is None else UNDECIDED,
                clean_label=case.clean_label,
                group=case.group or None,
                source=case.source or None,
                section=cast(Section, section) if len(lists) > 1 else None,
                channels=case.channels,
                annotations=case.annotations or _single(case),
            )
            for case in result
        ]
    if not cases:
        reason = f" First reason: {skipped[0]}" if skipped else ""
        raise DataError(f"{file}: found no case in {', '.join(map(repr, lists))}.{reason}")
    are_classes = {isinstance(label, int) for case in cases for label in _own_labels(case)}
    if len(are_classes) > 1:
        raise DataError(f"{file}: found labels that are paths and labels that are numbers; expected one kind.")
    volumes = {_is_any_volume(case.image) for case in cases}
    if len(volumes) > 1:
        raise DataError(f"{file}: found pictures and volumes; expected one kind. Choose a list with --key.")
    names = names_in(content) if isinstance(content, Mapping) else ()
    dataset = SourceDataset(
        name=str(content.get("name", file.resolve().parent.name)) if isinstance(content, Mapping) else file.stem,
        task="classification" if are_classes.pop() else "segmentation",
        volumes=volumes.pop(),
        cases=tuple(cases),
        channels=names if len(names) > 1 and len(set(names)) == len(names) else None,
        skipped=tuple(skipped),
    )
    return _with_classes(dataset, content if isinstance(content, Mapping) else {}, file)


def _single(case: Case) -> tuple[Annotation, ...]:
    """The annotation of a case with one, whose annotator is known."""
    return () if case.annotator is None else (Annotation(case.label, case.annotator),)


def _own_labels(case: SourceCase) -> list[GivenLabel]:
    """The labels of all annotators of a case, or its single one."""
    return [annotation.file for annotation in case.annotations] or [case.label]


def _is_any_volume(image: Path) -> bool:
    if image.name.lower().endswith(DICOM_SUFFIX) and image.is_file():
        return not is_dicom_picture(image)
    return is_volume(image) or image.is_dir() or image.name.lower().endswith(VOLUME_FILE_SUFFIXES)


def _lists(content: Any, file: Path, key: str | None) -> dict[str, list[Any]]:
    """The lists to take, by name."""
    if isinstance(content, list) and key is None:
        return {TRAINING: content}
    if not isinstance(content, dict):
        raise DataError(f"{file}: found {type(content).__name__}; expected keys with lists of cases.")
    result = [name for name, items in content.items() if _is_list_of_cases(items)]
    if key is not None:
        if key not in result:
            raise DataError(f"{file}: found no list {key!r} of cases; it has {', '.join(map(repr, result)) or 'none'}.")
        return {key: content[key]}
    if TRAINING in result:
        return {section: content[section] for section in SECTIONS if section in result}
    if len(result) != 1:
        raise DataError(
            f"{file}: found {'the lists ' + ', '.join(map(repr, result)) if result else 'no list of cases'}; expected "
            f"{TRAINING!r} or a single one. Choose one with --key."
        )
    return {result[0]: content[result[0]]}


def _is_list_of_cases(items: Any) -> bool:
    return isinstance(items, list) and any(isinstance(item, dict) and "image" in item for item in items)


def _with_classes(dataset: SourceDataset, content: Mapping[str, Any], file: Path) -> SourceDataset:
    """The data set with the classes and label values that the datalist names."""
    if dataset.task == "classification":
        return replace(dataset, classes=_names_of_classes(content.get("classes"), dataset.cases, file))
    labels = content.get("labels")
    if not isinstance(labels, Mapping):
        return dataset
    try:
        values = sorted((int(value), str(name)) for value, name in labels.items() if int(value) != 0)
    except ValueError as error:
        raise DataError(f"{file}: key 'labels' is {labels!r}; expected label values with names.") from error
    if not values:
        return dataset
    mapping = {0: 0} | {value: index + 1 for index, (value, _) in enumerate(values)}
    return replace(dataset, labels=mapping, classes=tuple(name for _, name in values))


def _names_of_classes(names: Any, cases: Sequence[SourceCase], file: Path) -> tuple[str, ...]:
    """The names of the classes 0, 1, …: as the datalist has them, else numbers up to the largest class."""
    if names is None:
        last = max(label for case in cases for label in _own_labels(case) if isinstance(label, int))
        return tuple(f"class {index}" for index in range(min(last, _LARGEST_CLASS) + 1))
    if isinstance(names, Mapping):
        by_index = {index: name for name, index in names.items() if isinstance(index, int)}
        if len(by_index) == len(names) and set(by_index) == set(range(len(names))):
            names = [by_index[index] for index in range(len(names))]
    if not isinstance(names, list) or not names:
        raise DataError(
            f"{file}: key 'classes' is {names!r}; expected the names of the classes 0, 1, … in a list, or name: index."
        )
    return tuple(str(name) for name in names)
