"""What a site's model predicted of every pixel or image so far: moving averages of probabilities, in a mapped file."""

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ....transforms.errors import DataError
from ...data.whole_files import private_folder

# Visits beyond so many count as this number.
_MOST_VISITS = 2**16 - 1

# A probability of 1 in 16 bits.
_WHOLE = 2**16 - 1

_CASES, _OUTPUTS, _VALUES = "cases", "outputs", "values"


class RememberedCase(NamedTuple):
    """Of which case averages are.

    Attributes:
        name: of its image, relative to the site's data.
        samples: how many it has: slices, or 1.
        extents: of a sample; ``(1,)`` in classification.
    """

    name: str
    samples: int
    extents: tuple[int, ...]


class PredictionMemory:
    """Moving averages t of predicted probabilities, one for each pixel of every sample as it is on disk.

    t = 0 before the first visit, and a visit makes it β t + (1 − β) p. After m visits the entries of t add up to
    1 − β^m. So a pixel has one number for each class but the first, the average t / (1 − β^m), and m.

    In 16 bits these averages are fixed-point numbers in steps of 1/65535: half a step is lost at a visit, and never
    more than half a step / (1 − β) in all, 0.0008 of β = 0.99. (Floating-point numbers of 16 bits would come to a halt
    0.02 away.) With `exact` they are float32. The file is mapped and has no name, so a process that is killed leaves
    nothing.

    Args:
        cases: of the site, in the order of their samples.
        num_outputs: number of classes C, in segmentation with the background.
        momentum: β, from 0 to below 1.
        folder: on the disk where the file lies.
        exact: whether numbers are float32.

    Raises:
        DataError: if the disk has no room for it.
    """

    def __init__(
        self,
        cases: Sequence[RememberedCase],
        num_outputs: int,
        *,
        momentum: float,
        folder: Path,
        exact: bool = False,
    ) -> None:
        self._cases, self._outputs = tuple(cases), num_outputs
        self._starts: list[int] = []
        self._extents: list[tuple[int, ...]] = []
        length = 0
        for case in self._cases:
            for _ in range(case.samples):
                self._starts.append(length)
                self._extents.append(case.extents)
                length += num_outputs * math.prod(case.extents)
        self._scale = 1 if exact else _WHOLE
        self._values = _mapped(folder, length, np.dtype(np.float32 if exact else np.uint16))
        # 1 − β^m of the number of visits, and how far a visit after so many moves the average to p.
        with np.errstate(divide="ignore"):
            after_visits = -np.expm1(np.arange(1, _MOST_VISITS + 2) * np.log(momentum))
        self._sums = np.concatenate([[0.0], after_visits])
        self._gains = (1 - momentum) / after_visits

    def visit(self, sample: int, places: NDArray[np.int32], predicted: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add a prediction of some pixels of a sample, and return their t after it, ``(C, n)`` float32.

        A pixel that is shown several times is visited once, with the mean. What is not shown stays as it is.

        Args:
            sample: its index.
            places: of the pixels in the sample, ``(d, n)`` from 0 on.
            predicted: p, ``(C, n)``; every column adds up to 1.

        Raises:
            DataError: if a place is outside the sample.
        """
        low, high = places.min(axis=1), places.max(axis=1) + 1
        if (low < 0).any() or (high > self._extents[sample]).any():
            raise DataError(
                f"Sample {sample}: found places from {low.tolist()} to {(high - 1).tolist()} in a sample of the size "
                f"{list(self._extents[sample])}; expected places in it. Let no transform change the values of labels."
            )
        box = self._maps(sample)[(slice(None), *map(slice, low, high))]
        flat = np.ravel_multi_index(tuple(places - low[:, None]), box.shape[1:])
        shown = np.bincount(flat, minlength=box[-1].size).reshape(box.shape[1:])
        seen = shown > 0
        sums = [np.bincount(flat, weights=column, minlength=shown.size) for column in predicted[1:]]
        means = np.stack(sums).reshape(-1, *shown.shape) / np.maximum(shown, 1)
        visits, averages = box[-1].astype(np.int64), self._moved(box, means)
        box[:-1, seen] = self._stored(averages[:, seen])
        box[-1, seen] = np.minimum(visits[seen] + 1, _MOST_VISITS)
        return self._targets(averages, visits + 1).reshape(self._outputs, -1)[:, flat]

    def visit_images(self, samples: NDArray[np.int64], predicted: NDArray[np.float32]) -> NDArray[np.float32]:
        """As :meth:`visit` of images with one prediction each, all extents being ``(1,)``.

        Args:
            samples: which, ``(B,)``, each once.
            predicted: p, ``(C, B)``.
        """
        of_images = self._values.reshape(-1, self._outputs)
        maps = of_images[samples].T
        visits, averages = maps[-1].astype(np.int64), self._moved(maps, predicted[1:])
        visited = np.minimum(visits + 1, _MOST_VISITS)
        of_images[samples] = np.concatenate([self._stored(averages), visited[None]]).T
        return self._targets(averages, visits + 1)

    def targets(self, sample: int) -> NDArray[np.float32]:
        """Return t of all pixels of a sample, ``(C, *extents)``."""
        maps = self._maps(sample)
        return self._targets(maps[:-1] / self._scale, maps[-1].astype(np.int64))

    def visits(self, sample: int) -> NDArray[np.int64]:
        """Return how often each pixel of a sample was visited."""
        return np.asarray(self._maps(sample)[-1], dtype=np.int64)

    def content(self) -> dict[str, Any]:
        """Return what is kept, as tensors and plain values; tensors are views."""
        cases = [[case.name, case.samples, list(case.extents)] for case in self._cases]
        return {_CASES: cases, _OUTPUTS: self._outputs, _VALUES: torch.from_numpy(self._values)}

    def restore(self, content: Mapping[str, Any]) -> int:
        """Take over what was kept of cases that are still there with the same sizes; return of how many.

        Raises:
            ValueError: if it is of other classes, or was kept in another form.
        """
        values = content[_VALUES].numpy()
        if content[_OUTPUTS] != self._outputs or values.dtype != self._values.dtype:
            raise ValueError(f"{content[_OUTPUTS]} classes in {values.dtype}")
        # An image may be of several cases, then in their order.
        kept: dict[RememberedCase, list[int]] = {}
        start = 0
        for name, samples, extents in content[_CASES]:
            case = RememberedCase(name, samples, tuple(extents))
            kept.setdefault(case, []).append(start)
            start += self._length(case)
        if start != len(values):
            raise ValueError(f"{len(values)} numbers, expected {start}")
        start = taken = 0
        for case in self._cases:
            length = self._length(case)
            if earlier := kept.get(case):
                first = earlier.pop(0)
                self._values[start : start + length] = values[first : first + length]
                taken += 1
            start += length
        return taken

    def _length(self, case: RememberedCase) -> int:
        return case.samples * self._outputs * math.prod(case.extents)

    def _maps(self, sample: int) -> NDArray[Any]:
        """Averages of the classes from the second on, and visits, ``(C, *extents)``; a view."""
        start, extents = self._starts[sample], self._extents[sample]
        return self._values[start : start + self._outputs * math.prod(extents)].reshape(self._outputs, *extents)

    def _moved(self, maps: NDArray[Any], means: NDArray[Any]) -> NDArray[np.float64]:
        """The averages of the classes from the second on after a visit, ``(C - 1, …)``."""
        averages: NDArray[np.float64] = np.divide(maps[:-1], self._scale, dtype=np.float64)
        averages += self._gains[maps[-1].astype(np.int64)] * (means - averages)
        return averages

    def _targets(self, averages: NDArray[np.float64], visits: NDArray[np.int64]) -> NDArray[np.float32]:
        """t of all classes, ``(C, …)``, after a number of visits."""
        first = np.maximum(1 - averages.sum(axis=0), 0)
        every = np.concatenate([first[None], averages])
        result: NDArray[np.float32] = (every / every.sum(axis=0) * self._sums[visits]).astype(np.float32)
        return result

    def _stored(self, averages: NDArray[np.float64]) -> NDArray[np.float64]:
        return averages if self._scale == 1 else np.rint(averages * self._scale)


def _mapped(folder: Path, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros in a mapped file that has a place on the disk but no name."""
    # A disk that fills up while pages are written would end the process: room is taken first.
    num_bytes = length * dtype.itemsize
    with tempfile.TemporaryFile(dir=private_folder(folder)) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
        except OSError as error:
            raise DataError(
                f"{folder}: found no room for averages of predictions ({error.strerror}); expected "
                f"{num_bytes / 2**20:.0f} MiB. Free it, or train on smaller images."
            ) from error
        return np.memmap(file, dtype=dtype, mode="r+", shape=(length,))
