"""Corrected labels of large samples, kept from round to round until anything changes that they are made of."""

import hashlib
import json
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from ...transforms.array_types import Array, Classes
from .kinds import Purpose, Sample
from .model import Corrections

# Smaller samples are corrected in less time than it takes to recognise them.
LEAST_PIXELS = 2**18
# Of what is kept, compressed: a mask of 256³ voxels takes a tenth of a megabyte.
MOST_BYTES = 2**27


class KeptLabels:
    """Labels by all that they are made of; those that were not asked for the longest go where they are many.

    A label is recognised by a hash of the given one, of the decisions on its pixels and of the corrections, so that it
    is never one of an earlier state of them. It stays in this process.

    Args:
        most_bytes: that they take in memory, compressed.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._changing = threading.Lock()

    def label(self, corrections: Corrections, sample: Sample, purpose: Purpose, make: Callable[[], Classes]) -> Classes:
        """Return the corrected label of a sample; an array of the caller's own.

        Args:
            corrections: of the case.
            sample: with its given label.
            purpose: what it is for.
            make: makes it, where it is not known.
        """
        if sample.classes.size < LEAST_PIXELS:
            return make()
        key = _key(corrections, sample, purpose)
        with self._changing:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        if known is not None:
            found = np.frombuffer(zlib.decompress(known), dtype=np.uint8)
            return found.reshape(sample.classes.shape).copy()
        made = make()
        # What it is compressed to is small, however much time is spent on it.
        self._keep(key, zlib.compress(np.ascontiguousarray(made, dtype=np.uint8).data, level=1))
        return made

    def _keep(self, key: bytes, content: bytes) -> None:
        with self._changing:
            self._size += len(content) - len(self._kept.pop(key, b""))
            self._kept[key] = content
            while self._size > self._most_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)


def _key(corrections: Corrections, sample: Sample, purpose: Purpose) -> bytes:
    """A hash of all that a corrected label follows from."""
    result = hashlib.sha256()
    pixels = sample.pixels
    arrays: list[Array | None] = [sample.classes, pixels.ignored, *(pixels.relabelled or (None, None))]
    arrays += [pixels.seen, pixels.replaced]
    rules = [correction.model_dump(mode="json") for correction in corrections.corrections]
    forms = [None if array is None else [str(array.dtype), *array.shape] for array in arrays]
    # Classes are corrected in the order of their rule.
    result.update(json.dumps([rules, purpose, sample.spacing, sample.axes, forms]).encode())
    for array in arrays:
        if array is not None:
            result.update(np.ascontiguousarray(array).data)
    return result.digest()
