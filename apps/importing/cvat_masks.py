"""The masks of an export of CVAT as files that an import takes: a PNG for each image, by its name."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from ...custom.data.whole_files import new_folder
from ...transforms.errors import DataError, shown
from ...transforms.folded_names import folded
from ...transforms.natural_order import natural_order
from .cvat import CvatImage, read_cvat
from .picture_masks import write_mask

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
# Of a file's name 255 are possible, of which a suffix takes some.
_MOST_BYTES_OF_NAME = 240


@dataclass(frozen=True)
class CvatMasks:
    """What was written.

    Attributes:
        count: masks.
        without: names of images on which nothing is drawn; they have no mask.
    """

    count: int
    without: tuple[str, ...]


def write_cvat_masks(source: Path, classes: Sequence[str], out: Path) -> CvatMasks:
    """Draw the annotations of an export as masks with 0 for background and the number of each class, from 1.

    Args:
        source: the export: a folder, ``.zip`` or ``.xml``.
        classes: names of the labels.
        out: folder of the masks, absent or empty.

    Raises:
        DataError: if the export cannot be read, has another label, or names an image outside of its folder or twice.
    """
    numbers = {folded(name): number for number, name in enumerate(classes, start=1)}
    without, written, folders = [], set[str](), set[str]()
    with new_folder(out) as folder:
        for image in read_cvat(source):
            mask = image.classes(numbers)
            if mask is None:
                without.append(image.name)
                continue
            name = _name_of_mask(image)
            parents = {parent.as_posix() for parent in PurePosixPath(name).parents}
            if name in written | folders or parents & written:
                raise DataError(f"{image.source}: found a second image or folder {name!r}; expected each once.")
            written.add(name)
            folders |= parents
            write_mask(folder / name, mask.astype(np.int64))
        if not written:
            raise DataError(f"{source}: found no image with a polygon or mask; expected annotations.")
    return CvatMasks(len(written), tuple(sorted(without, key=natural_order)))


def _name_of_mask(image: CvatImage) -> str:
    path = PurePosixPath(image.name)
    if path.is_absolute() or ".." in path.parts or "\0" in image.name or "\\" in image.name or not path.name:
        raise DataError(f"{image.source}: is called {shown(image.name)}; expected a path inside of the export.")
    if not path.stem.strip(".") or any(len(os.fsencode(part)) > _MOST_BYTES_OF_NAME for part in path.parts):
        raise DataError(f"{image.source}: is called {shown(image.name)}; expected a name that a file can have.")
    return f"{path.with_suffix('') if path.suffix.lower() in _PICTURES else path}.png"
