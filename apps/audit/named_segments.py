"""Segments that other tools name, as the classes of a site: by their name, and by the ID that an export gave them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask
from ...transforms.array_types import Booleans, Classes, Floats, Labels
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.volume_files import Volume
from ...transforms.loading.volume_geometry import millimetres, voxel_spacing
from ...transforms.printable import printable
from ..importing.mask_grid import is_on_grid, on_grid

# The name of the segment of pixels that count nowhere.
IGNORED_NAME = "ignored"


@dataclass(frozen=True)
class NamedSegment:
    """What a file says of a segment.

    Attributes:
        name: what a person reads.
        identity: its ID, or code; empty where it has none.
    """

    name: str
    identity: str = ""


def segments_of_site(description: SegmentationDescription) -> dict[int, NamedSegment]:
    """Return the segment of each class that a site annotates, and of pixels that it ignores, by the class."""
    names = {label: description.classes[label - 1] for label in description.annotated_labels}
    if description.ignore:
        names[IGNORED_LABEL] = IGNORED_NAME
    return {label: NamedSegment(_plain(name), identity_of(label)) for label, name in names.items()}


def identity_of(label: int) -> str:
    """Return the ID that an export gives to the segment of a class."""
    return f"fedannot_{label}"


def class_of(file: Path, segment: NamedSegment, known: dict[int, NamedSegment]) -> int:
    """Return the class of a segment: that of its name, and of the ID of an export if no class has the name.

    Args:
        file: to name in an error.
        segment: the segment.
        known: those of the site, see :func:`segments_of_site`.

    Raises:
        DataError: if no class has the name, or name and ID are those of two classes.
    """
    by_name = [label for label, one in known.items() if one.name == segment.name] or [
        label for label, one in known.items() if folded(one.name) == folded(segment.name.strip())
    ]
    by_identity = [label for label, one in known.items() if one.identity == segment.identity]
    shown = printable(segment.name)
    if not by_name and not by_identity:
        names = ", ".join(repr(one.name) for one in known.values())
        raise DataError(
            f"{file}: found a segment {shown!r}; expected only segments of this site's classes: {names}. Rename the "
            "segment, or remove it."
        )
    if by_name and by_identity and by_identity[0] not in by_name:
        raise DataError(
            f"{file}: found a segment {shown!r} that was exported as {known[by_identity[0]].name!r}; expected one "
            "class. Give it its name back, and move its voxels to the other segment."
        )
    if len(by_name) > 1 and not by_identity:
        raise DataError(f"{file}: found a segment {shown!r}, a name that {len(by_name)} classes have; expected one.")
    return (by_identity or by_name)[0]


def united_segments(
    file: Path, shape: Sequence[int], segments: Iterable[tuple[int, Booleans]], known: dict[int, NamedSegment]
) -> Classes:
    """Return one mask ``(I, J, K)`` of segments, uint8; 0 where none is.

    Args:
        file: to name in an error.
        shape: of the mask.
        segments: class and voxels of each; several may be of one class.
        known: those of the site.

    Raises:
        DataError: if a voxel lies in segments of two classes.
    """
    result = np.zeros(tuple(shape), dtype=np.uint8)
    for label, where in segments:
        both = where & (result != 0) & (result != label)
        if both.any():
            other = known[int(result[both][0])].name
            raise DataError(
                f"{file}: found {np.count_nonzero(both)} voxels in the segments {known[label].name!r} and {other!r}; "
                "expected every voxel in one. Edit with 'Allow overlap' off, and save again."
            )
        result[where] = label
    return result


def check_none_is_lost(file: Path, present: Iterable[int], given: Mask, known: dict[int, NamedSegment]) -> None:
    """Check that each class of the given mask has a segment, be it an empty one.

    Raises:
        DataError: if one has none: nobody has said that its voxels are to go.
    """
    for label in sorted(set(np.unique(given.classes).tolist()) - {0} - set(present)):
        count = np.count_nonzero(given.classes == label)
        raise DataError(
            f"{file}: found no segment {known[label].name!r}, of which the given mask has {count} voxels; expected one "
            "for each class. Leave a segment empty where nothing is to stay of it."
        )


def placed_on(file: Path, classes: Classes, affine: Floats, given: Mask, places: Sequence[Floats]) -> Classes:
    """Return classes of a part of a volume on the voxels of the given mask, 0 where they do not reach.

    Args:
        file: to name in an error.
        classes: ``(I, J, K)``, whose axes may run otherwise than those of the given mask.
        affine: ``(4, 4)`` to millimetres, axes to the right, front and top.
        given: the given mask.
        places: where the voxels of the given mask lie for whoever may have written the file; the first that fits.

    Raises:
        DataError: if it has another grid, or something is annotated outside of the given mask.
    """
    for place in places:
        volume = Volume(given.classes, place)
        if is_on_grid(classes.shape, affine, volume):
            return _as_classes(on_grid(file, classes, affine, volume))
    raise DataError(
        f"{file}: found voxels of {millimetres(voxel_spacing(affine))} that do not lie on those of the given mask, "
        f"{millimetres(voxel_spacing(places[0]))}; expected its grid, cropped or turned. Take the exported image as "
        "the source geometry, and save again."
    )


def _as_classes(values: Labels) -> Classes:
    return np.asarray(values).astype(np.uint8)


def _plain(name: str) -> str:
    """A name that stands in a line of its own, and between quotation marks."""
    return printable(name).replace('"', "'")
