"""Which files are the channels of one image: numbered as nnU-Net does, named by a data set, or counted in a header."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...transforms.data_error import DataError
from ...transforms.folded_names import folded
from ...transforms.loading.image_channels import MAX_CHANNELS
from ...transforms.loading.volume_suffixes import VOLUME_SUFFIXES
from .source import SourceDataset

if TYPE_CHECKING:
    from ...transforms.loading.folder_search import FoundFile

# A name with the number of its channel behind.
NUMBERED = re.compile(r"(.+)_(\d{4})", re.DOTALL)

ChannelFiles = tuple[Path | None, ...]


def channel_name(name: str, number: int) -> str:
    """Return the name of a channel's file, from the name of its case; both without suffix."""
    return f"{name}_{number:04d}"


def grouped_channels(
    images: "Sequence[FoundFile]", masks: "Sequence[FoundFile]"
) -> "tuple[list[FoundFile], dict[Path, ChannelFiles]]":
    """Group images called ``CASE_0000``, ``CASE_0001``, … whose masks are called ``CASE``.

    Nothing is grouped if an image has another name, or a mask has the number of its image: then numbers count frames or
    patients.

    Returns:
        The images, those of a group as the first of them with the name of the case; and the channels of each group by
        the file of this first one, None for a number that is missing.
    """
    matches = [NUMBERED.fullmatch(image.name) for image in images]
    own, cases = {folded(image.name) for image in images}, {folded(mask.name) for mask in masks}
    named = [match for match in matches if match is not None and int(match[2]) < MAX_CHANNELS]
    if len(named) != len(images) or cases & own or not cases & {folded(match[1]) for match in named}:
        return list(images), {}
    groups: dict[tuple[tuple[str, ...], str], dict[int, FoundFile]] = {}
    for image, match in zip(images, named, strict=True):
        groups.setdefault((image.folders, match[1]), {})[int(match[2])] = image
    count = max(max(group) for group in groups.values()) + 1
    if count == 1:
        return list(images), {}
    entries, channels = [], {}
    for (_, name), group in groups.items():
        first = group[min(group)]
        entries.append(replace(first, name=name))
        channels[first.file] = tuple(group[number].file if number in group else None for number in range(count))
    return entries, channels


def named_channels(names: Sequence[str], count: int, *, pictures: bool) -> int | tuple[str, ...]:
    """Return what ``channels`` of a description says: names if there are so many that differ, else their number.

    Args:
        names: as a data set gives them, empty if it does not.
        count: how many channels there are.
        pictures: whether the channels are of pictures, whose numbers 1 and 3 stand for grey and RGB from one file.
    """
    usable = [name.strip() for name in names]
    if len(usable) == count and all(usable) and len(set(usable)) == count:
        return tuple(usable)
    return tuple(f"channel {number}" for number in range(1, count + 1)) if pictures else count


def names_in(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of channels that a data set's JSON file gives, by number; empty if it gives none."""
    names = content.get("channel_names", content.get("modality"))
    if not isinstance(names, Mapping) or not all(str(number).isdecimal() for number in names):
        return ()
    return tuple(str(names[number]) for number in sorted(names, key=int))


def with_channels(dataset: SourceDataset) -> SourceDataset:
    """Return a data set with the channels that its cases have, where it does not say so itself.

    Those of cases with a file for each are counted, and of volumes in one file those of the first header that can be
    read. A note says so.
    """
    if dataset.channels not in (None, 1):
        return dataset
    counts = [len(case.channels) for case in dataset.cases if case.channels]
    if counts:
        return _with_count(dataset, max(counts), "files")
    # The registry of data sets is imported without the readers of images.
    from ...transforms.loading.volume_files import count_channels  # noqa: PLC0415

    for case in dataset.cases if dataset.volumes else ():
        if case.image.name.lower().endswith(VOLUME_SUFFIXES):
            try:
                count = count_channels(case.image)
            except (DataError, OSError):
                continue
            # More are no channels but points in time, and are refused by file.
            return _with_count(dataset, count, "one file") if 1 < count <= MAX_CHANNELS else dataset
    return dataset


def _with_count(dataset: SourceDataset, count: int, where: str) -> SourceDataset:
    channels = named_channels((), count, pictures=not dataset.volumes)
    note = f"Channels: {count} of each image, in {where}; --channels NAME,NAME,… names them."
    return replace(dataset, channels=channels, notes=(*dataset.notes, note))
