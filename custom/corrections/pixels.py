"""The pixels of ignored and relabelled objects, and those that predictions replace, in memory and on disk."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...transforms.array_types import Array, Booleans, Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError, shown
from ..data.array_files import read_arrays, read_content
from ..data.site_data import LoadedCase
from ..data.whole_files import replaced

_NAMES = "annotations"

# What is decided on a pixel for a class: nothing is 0.
BACKGROUND, FOREGROUND = 1, 2


class OtherClasses(NamedTuple):
    """The decision which objects get another class, pixel by pixel, 0 elsewhere; arrays of one shape.

    Attributes:
        given: the class that an object had when it was assessed.
        becomes: the class that it gets.
    """

    given: Classes
    becomes: Classes


@dataclass(frozen=True)
class CasePixels:
    """The decisions on one annotation ``(S, H, W[, D])``, or on one of its samples ``(H, W[, D])``.

    Attributes:
        ignored: pixels of which training learns nothing; None where there are none.
        relabelled: the given and the new class of what gets another class, 0 elsewhere; None where nothing does.
        seen: pixels that training sees; None for all. It is not stored.
        replaced: for each class whose pixels are corrected, in their order, 1 for pixels that become background and 2
            for those that become the class, 0 elsewhere; ``(K, S, H, W[, D])`` or ``(K, H, W[, D])``. None where none
            are.
    """

    ignored: Booleans | None = None
    relabelled: OtherClasses | None = None
    seen: Booleans | None = None
    replaced: Classes | None = None

    def __bool__(self) -> bool:
        return self.ignored is not None or self.relabelled is not None or self.replaced is not None

    def fits(self, case: LoadedCase) -> bool:
        """Return whether these pixels are those of a case's annotation as it is now."""
        replaced = None if self.replaced is None else self.replaced[0]
        known = [pixels for pixels in (self.ignored, *(self.relabelled or ()), replaced) if pixels is not None]
        return all(pixels.shape == tuple(case.label.shape) for pixels in known)

    def of_sample(self, place: Any) -> "CasePixels":
        """Return the decisions on a part, such as a sample by its index or a slice of a volume."""
        relabelled = None if self.relabelled is None else OtherClasses(*(pixels[place] for pixels in self.relabelled))
        return CasePixels(
            None if self.ignored is None else self.ignored[place],
            relabelled,
            None if self.seen is None else self.seen[place],
            None if self.replaced is None else self.replaced[(slice(None), *np.index_exp[place])],
        )


def relabelled_objects(classes: Classes, other: OtherClasses, seen: Booleans | None = None) -> tuple[Classes, int]:
    """Return an annotation with the objects of another class that were decided on, and how many they are.

    An object gets the class that was decided for at least half of what training sees of it. Whoever has corrected its
    class since is not overruled: what was decided for another class than the object has does not count.

    Args:
        classes: the annotation as it is now, ``(H, W[, D])``.
        other: what was decided, of its shape.
        seen: what training sees, as above; all of it where it is not given.
    """
    relabelled, num_relabelled = classes.copy(), 0
    decided = np.where(other.given == classes, other.becomes, 0)
    width = int(decided.max(initial=0)) + 1
    counted = slice(None) if seen is None else seen.ravel()
    for value in set(np.unique(classes[decided != 0]).tolist()) - {0}:
        objects, count = label_lesions(classes == value)
        # Of every object the number of pixels by the class that they get, once over all of them.
        pairs = (objects.ravel().astype(np.intp) * width + decided.ravel())[counted]
        votes = np.bincount(pairs, minlength=(count + 1) * width).reshape(-1, width)
        most = votes[:, 1:].max(axis=1)
        is_decided = (most > 0) & (2 * most >= votes.sum(axis=1))
        num_relabelled += int(np.count_nonzero(is_decided[1:]))
        new = np.where(is_decided, votes[:, 1:].argmax(axis=1) + 1, value).astype(np.uint8)
        inside = objects != 0
        relabelled[inside] = new[objects[inside]]
    return relabelled, num_relabelled


def replaced_pixels(classes: Classes, labels: Sequence[int], decided: Classes) -> Classes:
    """Return an annotation with the pixels that predictions replace; background and the class alone, in turn.

    Args:
        classes: the annotation, of any shape; other classes and ignored pixels stay.
        labels: K classes, in the order in which they were corrected.
        decided: what is decided on each pixel for each of them, ``(K, …)``.

    Example:
        >>> given = np.array([0, 1, 1, 2, 255], dtype=np.uint8)
        >>> replaced_pixels(given, [1], np.array([[2, 1, 0, 1, 2]], dtype=np.uint8)).tolist()
        [1, 0, 1, 2, 255]

    Raises:
        ValueError: if they are of another number of classes.
    """
    for label, of_class in zip(labels, decided, strict=True):
        becomes = np.where(of_class == FOREGROUND, np.uint8(label), np.uint8(0))
        classes = np.where((of_class != 0) & ((classes == 0) | (classes == label)), becomes, classes)
    return classes


def write_pixels(folder: Path, what: str, pixels: Mapping[str, Array]) -> str:
    """Write pixels by the name of their annotation, and return the file's name; empty, and no file, without any.

    Args:
        folder: where the file is written.
        what: the first part of its name; the rest is its hash.
        pixels: by given annotation ``(..., S, H, W[, D])``.
    """
    if not pixels:
        return ""
    arrays = {_key(index): of_case for index, of_case in enumerate(pixels.values())}
    content = io.BytesIO()
    # Names of annotations can be any text, those of arrays cannot.
    np.savez_compressed(content, allow_pickle=False, **{_NAMES: np.array(list(pixels))}, **arrays)
    name = _name(what, content.getvalue())
    with replaced(folder / name) as temporary:
        temporary.write_bytes(content.getvalue())
    return name


def read_ignored(file: Path) -> dict[str, Booleans]:
    """Return by given annotation the pixels that are ignored.

    Args:
        file: named as :func:`write_pixels` does.

    Raises:
        DataError: if it cannot be read, its hash is another than its name says, or its arrays are of another kind.
    """
    return _read(file, np.bool_, (3, 4), largest=1)


def read_relabelled(file: Path, num_classes: int) -> dict[str, OtherClasses]:
    """Return by given annotation which objects get another class.

    Args:
        file: named as :func:`write_pixels` does.
        num_classes: foreground classes of the site; no other is given or becomes one.

    Raises:
        DataError: as :func:`read_ignored`.
    """
    arrays = _read(file, np.uint8, (4, 5), leading=2, largest=num_classes)
    return {name: OtherClasses(*of_case) for name, of_case in arrays.items()}


def read_replaced(file: Path, num_labels: int) -> dict[str, Classes]:
    """Return by given annotation what is decided on its pixels for each class.

    Args:
        file: named as :func:`write_pixels` does.
        num_labels: number of classes K whose pixels are corrected.

    Raises:
        DataError: as :func:`read_ignored`.
    """
    return _read(file, np.uint8, (4, 5), leading=num_labels, largest=FOREGROUND)


def _read(
    file: Path, dtype: DTypeLike, ndims: tuple[int, ...], *, leading: int | None = None, largest: int
) -> dict[str, Array]:
    """The arrays of a file by given annotation: of a type, of numbers of axes, of a length of the first, of values."""
    what = file.name.partition("-")[0]
    try:
        content = read_content(file)
        if _name(what, content) != file.name:
            raise ValueError("its hash is another than its name says")
        arrays = read_arrays(content)
        names = arrays[_NAMES]
        if names.ndim != 1 or names.dtype.kind != "U":
            raise ValueError("its names are no texts")
        if len(arrays) != len(names) + 1 or len(set(names.tolist())) != len(names):
            raise ValueError(f"it has {len(arrays) - 1} arrays for {len(names)} annotations")
        result = {str(name): arrays[_key(index)] for index, name in enumerate(names)}
        for name, array in result.items():
            if array.dtype != dtype or array.ndim not in ndims or leading not in (None, len(array)):
                raise ValueError(f"it has an array of shape {array.shape} and type {array.dtype} for {shown(name)}")
            # Truth values are bytes, too, and any byte may stand in a file.
            if (value := int(array.view(np.uint8).max(initial=0))) > largest:
                raise ValueError(f"it has the value {value} for {shown(name)}, where the largest is {largest}")
        return result
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file}: cannot be read ({error}); expected the pixels that a site {_USES[what]}.") from error


_USES = {"ignored": "ignores", "relabelled": "gives another class", "replaced": "replaces by predictions"}


def _name(what: str, content: bytes) -> str:
    return f"{what}-{hashlib.sha256(content).hexdigest()[:16]}.npz"


def _key(index: int) -> str:
    return f"pixels_{index}"
