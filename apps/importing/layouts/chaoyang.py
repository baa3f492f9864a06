"""Chaoyang: patches of colon slides, labelled by three pathologists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....custom.seeding import derive_seed
from ....transforms.errors import DataError
from ....transforms.strict_files import read_json
from ..source import LeftOut, Section, SourceCase, SourceDataset
from .listing import checked, list_files

EXPECTED = (
    "train.json and test.json with the images that they name, such as train/535940-IMG009x024-2.JPG; for the three "
    "pathologists' opinions also train_label.json"
)

CLASSES = ("Normal", "Serrated", "Adenocarcinoma", "Adenoma")

_PATHOLOGISTS = ("label_A", "label_B", "label_C")
_TRAIN, _TEST, _OPINIONS = "train.json", "test.json", "train_label.json"


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the patches; where three opinions are known, the label is one of them, drawn for each image by the seed.

    Without them the label is the one that ``train.json`` gives. The label of a test image is the one on which all
    three agree. Patches of a slide stay together.

    Raises:
        DataError: if the folder does not have the layout, or a list names a file outside the folder.
    """
    listing = list_files(folder)
    lists = {file.name.lower(): file for file in reversed(listing.files)}
    # Names are relative to the folder of the published lists; the opinions are had from another place.
    root = next((lists[name].parent for name in (_TRAIN, _TEST, _OPINIONS) if name in lists), folder)
    cases: list[SourceCase] = []
    skipped: list[LeftOut] = []
    unlisted = dict.fromkeys(listing.pictures())
    for section, file, item in _items(lists):
        name, label = _name_and_label(item, seed)
        image = listing.named(root, name, file) if name else None
        if image is not None:
            unlisted.pop(image, None)
        if label is None:
            reason = f"no name and label from 0 to {len(CLASSES) - 1}"
            skipped.append(LeftOut(listing.shown(file), reason, f"{listing.shown(file)}: {reason} in {item!r}"))
        elif image is None:
            skipped.append(LeftOut(str(name), "no such file"))
        else:
            slide, separator, _ = image.stem.partition("-IMG")
            cases.append(SourceCase(image, label, group=slide if separator else None, section=section))
    skipped += [LeftOut(listing.shown(file), "in no list") for file in unlisted]
    dataset = SourceDataset(
        "chaoyang", "classification", False, tuple(cases), CLASSES, channels=3, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)


def _items(lists: dict[str, Path]) -> Iterator[tuple[Section, Path, Any]]:
    """Section, file and content of every item; of the two lists for training the one with the opinions is taken."""
    wanted: tuple[tuple[Section, tuple[str, ...]], ...] = (("training", (_OPINIONS, _TRAIN)), ("testing", (_TEST,)))
    for section, names in wanted:
        for file in [lists[name] for name in names if name in lists][:1]:
            items = read_json(file, "a list of images with their labels")
            if not isinstance(items, list):
                raise DataError(f"{file}: found {type(items).__name__}; expected a list of images with their labels.")
            yield from ((section, file, item) for item in items)


def _name_and_label(item: Any, seed: int) -> tuple[str | None, int | None]:
    """An item's image and label, the opinion of a pathologist drawn at random where there are several."""
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str):
        return None, None
    opinions = [item[key] for key in _PATHOLOGISTS if key in item] or [item.get("label")]
    label = opinions[derive_seed(seed, "pathologist", name) % len(opinions)]
    return name, label if isinstance(label, int) and 0 <= label < len(CLASSES) else None
