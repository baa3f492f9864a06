"""nnU-Net's raw data sets: ``dataset.json``, images with a number for each channel, masks of the same names."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....transforms.errors import DataError
from ....transforms.strict_files import read_json
from ..channel_files import NUMBERED, named_channels, names_in
from ..source import LeftOut, Section, SourceCase, SourceDataset
from .listing import Listing, checked, list_files

EXPECTED = "dataset.json with imagesTr/CASE_0000.nii.gz and labelsTr/CASE.nii.gz, as nnU-Net's raw data sets are"

_CONTENT = "nnU-Net's dataset.json with 'channel_names' (or 'modality') and 'labels'"
_PARTS: tuple[tuple[str, str, Section], ...] = (
    ("imagesTr", "labelsTr", "training"),
    ("imagesTs", "labelsTs", "testing"),
)
_PICTURES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
_COLOURS = 3
# nnU-Net's name for pixels that count nowhere.
_IGNORED = "ignore"


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the cases of a raw data set; those for testing as far as ``labelsTs`` has their masks.

    Regions become exclusive classes, by the order in which nnU-Net itself draws them.

    Raises:
        DataError: if there is no ``dataset.json``, it has another form, or a case has more channels than it names.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    files = [file for file in listing.files if file.name == "dataset.json"]
    if not files:
        return checked(SourceDataset("nnunet", "segmentation", True, ()), listing, EXPECTED)
    if len(files) > 1:
        result = ", ".join(listing.shown(file) for file in files)
        raise DataError(f"{folder}: found {result}; expected the folder of one data set, with one dataset.json.")
    file = files[0]
    content: Any = read_json(file, _CONTENT)
    names = content.get("channel_names", content.get("modality")) if isinstance(content, Mapping) else None
    if not isinstance(names, Mapping) or not isinstance(content.get("labels"), Mapping):
        raise DataError(f"{file}: found another content; expected {_CONTENT}.")
    entries = _entries(content["labels"])
    ignore = tuple(_whole(entries.pop(_IGNORED, []), file))
    labels, classes, notes = _classes(entries, content.get("regions_class_order"), file)
    ending = str(content.get("file_ending", ".nii.gz")).lower()
    channel_names = names_in(content)
    cases, skipped = _cases(listing, file.parent, ending, channel_names)
    is_picture = ending in _PICTURES
    channels: int | tuple[str, ...] = 1
    if is_picture and len(names) == _COLOURS and not any(case.channels for case in cases):
        channels = _COLOURS
    elif len(names) > 1:
        channels = named_channels(channel_names, len(names), pictures=is_picture)
    dataset = SourceDataset(
        "nnunet",
        "segmentation",
        not is_picture,
        cases,
        classes,
        labels,
        channels,
        skipped=skipped,
        notes=notes,
        ignore=ignore,
    )
    return checked(dataset, listing, EXPECTED)


def _entries(given: Mapping[str, Any]) -> dict[str, Any]:
    """Names with their values; earlier versions have value: name."""
    return {str(value): int(key) for key, value in given.items()} if _is_numbered(given) else dict(given)


def _classes(
    entries: Mapping[str, Any], order: Any, file: Path
) -> tuple[dict[int, int], tuple[str, ...], tuple[str, ...]]:
    """Value in a mask → class, the classes' names, and what was decided on regions."""
    regions = {name: values for name, values in entries.items() if isinstance(values, list)}
    values_of = {name: [value for value in _whole(values, file) if value] for name, values in entries.items()}
    # What has no value but 0 is the background, whatever it is called.
    values_of = {name: values for name, values in values_of.items() if values and name != "background"}
    if not values_of:
        raise DataError(f"{file}: key 'labels' is {entries!r}; expected a value besides 0, the background.")
    if not regions:
        by_value = sorted((values[0], name) for name, values in values_of.items())
        names = tuple(name for _, name in by_value)
        return {0: 0} | {value: index for index, (value, _) in enumerate(by_value, 1)}, names, ()
    if not isinstance(order, Sequence) or len(order) != len(values_of):
        raise DataError(
            f"{file}: found regions, and 'regions_class_order' is {order!r}; expected a value for each of "
            f"{', '.join(values_of)}."
        )
    # A later region is drawn over the earlier ones.
    class_of = {value: index for index, name in enumerate(values_of, 1) for value in values_of[name]}
    shown = ", ".join(values_of)
    note = (
        f"Regions: {shown} became exclusive classes; where they overlap, the later one counts, as nnU-Net draws them."
    )
    return {0: 0} | dict(sorted(class_of.items())), tuple(values_of), (note,)


def _is_numbered(labels: Mapping[str, Any]) -> bool:
    return all(re.fullmatch(r"\d+", str(key)) for key in labels)


def _whole(values: Any, file: Path) -> Sequence[int]:
    numbers = values if isinstance(values, list) else [values]
    if not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in numbers):
        raise DataError(f"{file}: key 'labels' has {values!r}; expected whole numbers.")
    return numbers


def _cases(
    listing: Listing, root: Path, ending: str, channels: Sequence[str]
) -> tuple[tuple[SourceCase, ...], tuple[LeftOut, ...]]:
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for images, labels, section in _PARTS:
        files_of: dict[str, dict[int, Path]] = defaultdict(dict)
        masks: dict[str, Path] = {}
        for file in listing.files:
            if file.parent not in (root / labels, root / images):
                continue
            fits, stem = file.name.lower().endswith(ending), file.name[: len(file.name) - len(ending)]
            if fits and file.parent == root / labels:
                masks[stem] = file
            elif fits and (match := NUMBERED.fullmatch(stem)):
                files_of[match[1]][int(match[2])] = file
            else:
                skipped.append(
                    LeftOut(listing.shown(file), f"not called CASE_0000{ending}, or CASE{ending} for a mask")
                )
        for name, files in files_of.items():
            first = files[min(files)]
            if max(files) >= len(channels):
                raise DataError(
                    f"{files[max(files)]}: found channel {max(files)}; expected those of dataset.json, 0 to "
                    f"{len(channels) - 1} ({', '.join(channels)})."
                )
            # Colours lie in one file, whose number is 0.
            has_colours = ending in _PICTURES and len(channels) == _COLOURS and [*files] == [0]
            of_case = () if has_colours else tuple(files.get(number) for number in range(len(channels)))
            if name in masks:
                own = of_case if len(of_case) > 1 else ()
                cases.append(SourceCase(first, masks.pop(name), section=section, name=name, channels=own))
            else:
                skipped.append(LeftOut(listing.shown(first), "no mask"))
        skipped += [LeftOut(listing.shown(mask), "no image") for mask in masks.values()]
    return tuple(cases), tuple(skipped)
