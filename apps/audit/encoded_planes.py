"""Planes of an image and of its annotations as a review sends them: small types, means of squares, run lengths."""

import numpy as np
from PIL import Image

from ...transforms.array_types import Array, Classes

_LONGEST_RUN = 2**24 - 1
_TYPES = ("uint8", "int16", "uint16")


def encoded_classes(plane: Classes) -> bytes:
    """Return the classes of a plane, in whichever form is shorter; all numbers are little-endian.

    Returns:
        The number 1 in four bytes, and four bytes for each run over the rows, the class in the highest of them and the
        length in the others; or the number 0 in four bytes, and one byte for each pixel.
    """
    flat = plane.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(np.concatenate([starts, [flat.size]]))
    classes = flat[starts].astype(np.uint32)
    pieces = -(-lengths // _LONGEST_RUN)
    if 4 * int(pieces.sum()) >= flat.size:
        return bytes(4) + flat.tobytes()
    if (pieces > 1).any():
        ends = np.cumsum(pieces) - 1
        last = lengths - (pieces - 1) * _LONGEST_RUN
        lengths = np.full(int(pieces.sum()), _LONGEST_RUN)
        lengths[ends] = last
        classes = np.repeat(classes, pieces)
    runs = (classes << np.uint32(24)) | lengths.astype(np.uint32)
    return np.concatenate([np.array([1], np.uint32), runs]).astype("<u4").tobytes()


def in_small_type(values: Array) -> Array:
    """Return whole numbers in the smallest type of up to 16 bits that holds them, where one does; else float32."""
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu" or bool((np.rint(values) == values).all()):
        for name in _TYPES:
            if np.iinfo(name).min <= low and high <= np.iinfo(name).max:
                return values.astype(name)
    return values.astype(np.float32)


def reduced(part: Array, scale: int) -> Array:
    """Return the means of squares of pixels, smaller ones at the end; whole numbers are rounded."""
    if scale == 1:
        return np.ascontiguousarray(part)
    if part.dtype == np.uint8:
        return np.asarray(Image.fromarray(np.ascontiguousarray(part)).reduce(scale))
    means = np.asarray(Image.fromarray(part.astype(np.float32)).reduce(scale))
    return means if part.dtype.kind == "f" else np.rint(means).astype(part.dtype)
