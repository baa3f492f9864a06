"""The layout of the Medical Segmentation Decathlon: volumes listed in ``dataset.json``."""

from pathlib import Path
from typing import Any

from ....transforms.errors import DataError
from ....transforms.loading.image_channels import MAX_CHANNELS
from ....transforms.strict_files import JsonObject, read_json
from ..channel_files import named_channels, names_in
from ..source import LeftOut, SourceCase, SourceDataset
from .listing import Listing, checked, list_files, stem_of

EXPECTED = "dataset.json with imagesTr/NAME.nii.gz and labelsTr/NAME.nii.gz as it lists them"

_CONTENT = "the Decathlon's dataset.json with 'modality', 'labels' and the list 'training'"


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the volumes and masks that ``dataset.json`` lists for training; its test images have no masks.

    Raises:
        DataError: if there is no ``dataset.json``, or it has another form, lists files outside its folder, or
            describes images of no modality or more than 16.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    files = [file for file in listing.files if file.name == "dataset.json"]
    if not files:
        return checked(SourceDataset("msd", "segmentation", True, ()), listing, EXPECTED)
    if len(files) > 1:
        result = ", ".join(listing.shown(file) for file in files)
        raise DataError(f"{folder}: found {result}; expected the folder of one task, with one dataset.json.")
    content = read_json(files[0], _CONTENT)
    labels, classes = _classes(content, files[0])
    cases, skipped = _cases(content, files[0], listing)
    number = len(content["modality"])
    channels = 1 if number == 1 else named_channels(names_in(content), number, pictures=False)
    dataset = SourceDataset("msd", "segmentation", True, cases, classes, labels, channels, skipped=skipped)
    return checked(dataset, listing, EXPECTED)


def _classes(content: Any, file: Path) -> tuple[dict[int, int], tuple[str, ...]]:
    """Value in a mask → class, and the classes' names, in the order of the values."""
    if not isinstance(content, dict) or not all(
        isinstance(content.get(key), kind) for key, kind in (("modality", dict), ("labels", dict), ("training", list))
    ):
        raise DataError(f"{file}: found another content; expected {_CONTENT}.")
    if not 1 <= len(content["modality"]) <= MAX_CHANNELS:
        raise DataError(f"{file}: found images of {len(content['modality'])} modalities; expected 1 to {MAX_CHANNELS}.")
    try:
        names_of = {int(value): str(name) for value, name in content["labels"].items()}
    except ValueError:
        raise DataError(f"{file}: key 'labels' is {content['labels']!r}; expected value: name.") from None
    values = sorted(value for value in names_of if value != 0)
    if not values:
        raise DataError(f"{file}: key 'labels' is {content['labels']!r}; expected a value besides 0, the background.")
    return {0: 0} | {value: index for index, value in enumerate(values, 1)}, tuple(names_of[value] for value in values)


def _cases(content: JsonObject, file: Path, listing: Listing) -> tuple[tuple[SourceCase, ...], tuple[LeftOut, ...]]:
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    for index, item in enumerate(content["training"]):
        names = [item.get(key) if isinstance(item, dict) else None for key in ("image", "label")]
        if not all(isinstance(name, str) for name in names):
            what = f"{listing.shown(file)}: training[{index}] names no image and label"
            skipped.append(LeftOut(f"training[{index}]", "names no image and label", what))
            continue
        image, label = (listing.named(file.parent, str(name), file) for name in names)
        if image is None or label is None:
            name, lost = str(names[0]), f"{names[0]}: no mask, {names[1]} is missing"
            skipped.append(LeftOut(name, "no such file") if image is None else LeftOut(name, "no mask", lost))
        else:
            cases.append(SourceCase(image, label, group=stem_of(image)))
    tests = content.get("test")
    skipped += [
        LeftOut(str(name), "a test image without a mask") for name in (tests if isinstance(tests, list) else [])
    ]
    return tuple(cases), tuple(skipped)
