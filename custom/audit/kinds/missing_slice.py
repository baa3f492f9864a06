"""Slices left out inside an object of a volume: above and below it is annotated, in between it is not."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import ndimage

from ....transforms.array_types import Booleans, Classes
from ....transforms.connected_lesions import label_lesions
from ....transforms.surfaces import bounding_box
from ..examined import ExaminedCase, as_samples, as_volume
from ..findings import Place
from ..object_errors import SliceLeftOut
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion
from .objects import annotated_reference_level

# Objects that are interrupted for so many slices are two.
_MOST_SLICES = 3


class MissingSlice(Kind[None]):
    """Gaps of up to three slices, along the last axis of volumes or across slices, in which an object is not annotated.

    The only feature is the fraction of the gap's pixels in its slice that are not annotated.
    """

    name = "missing_slice"
    threshold = 0.9
    error = SliceLeftOut()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every slice in which an object of the slices next to it is not annotated throughout."""
        volume = as_volume(case.annotation)
        if volume.ndim != 3:
            return []
        is_sliced = case.annotation.ndim == 3
        result = []
        for label in range(1, case.num_classes + 1):
            for index, inside, share in _gaps(volume == label):
                plane = bounding_box(inside)
                if is_sliced:
                    place = Place(
                        sample=index,
                        start=tuple(side.start for side in plane),
                        stop=tuple(side.stop for side in plane),
                    )
                else:
                    start, stop = zip(*((side.start, side.stop) for side in plane), strict=True)
                    place = Place(sample=0, start=(*start, index), stop=(*stop, index + 1))
                pixels = float(np.count_nonzero(inside))
                result.append(
                    Suspicion(case.index, share, place, (label, *annotated_reference_level(place)), (label,), pixels)
                )
        return result

    def typical(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: a gap is a gap."""

    def score(self, suspicion: Suspicion, typical: None) -> float:
        """Return the share that is not annotated."""
        return float(suspicion.features)

    def suggestion(self, suspicion: Suspicion, typical: None, masks: CaseMasks) -> Classes | None:
        """Return the slice with the gap filled."""
        assert suspicion.place is not None
        label = suspicion.labels[0]
        closed = as_samples(_closed(as_volume(masks.annotation) == label), len(masks.annotation))
        given = suspicion.place.of(masks.annotation)
        return np.where((given == 0) & suspicion.place.of(closed), np.uint8(label), given)


def _gaps(inside: Booleans) -> Iterator[tuple[int, Booleans, float]]:
    """Yield the slices of gaps: index, the gap's pixels ``(H, W)``, and the fraction of them that is not annotated."""
    if not inside.any():
        return
    filled = _closed(inside) & ~inside
    for index in np.flatnonzero(filled.any(axis=(0, 1))):
        labelled, _ = label_lesions(filled[..., index] | inside[..., index])
        for number in range(1, int(labelled.max()) + 1):
            gap = labelled == number
            share = np.count_nonzero(filled[..., index] & gap) / np.count_nonzero(gap)
            if np.count_nonzero(gap) >= THRESHOLDS.min_object_pixels and share > 0:
                yield int(index), gap, float(share)


def _closed(inside: Booleans) -> Booleans:
    """What is annotated, and what lies between slices that are."""
    return np.asarray(inside | ndimage.binary_closing(inside, np.ones((1, 1, _MOST_SLICES + 1), dtype=bool)))
