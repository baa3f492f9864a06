"""Specks: objects of a few pixels among objects that are typically much larger, such as a slip of the brush leaves."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from ....transforms.array_types import Classes
from ....transforms.connected_lesions import label_lesions
from ....transforms.surfaces import grown_box
from ..examined import ExaminedCase
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion
from .objects import without_object

# So near another object it is a piece of it, such as a thin part leaves on the coarser grid of a network.
_GAP = 3


class Specks(Kind[dict[int, float]]):
    """Tiny objects; what is typical is the median size of a class's objects in pixels."""

    name = "specks"

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the size of every annotated object, but for tiny ones that another object of the class is near."""
        part, result = case.part, []
        if part is None:
            return []
        for label in range(1, case.num_classes + 1):
            labelled, _ = label_lesions(part.predicted.annotated_as(label))
            for number, box in enumerate(ndimage.find_objects(labelled), start=1):
                around = labelled[grown_box(box, (_GAP,) * labelled.ndim, labelled.shape)]
                if (
                    np.any((around != 0) & (around != number))
                    and np.count_nonzero(labelled[box] == number) <= THRESHOLDS.max_speck_pixels
                ):
                    continue
                place = part.place(box)
                pixels = float(np.count_nonzero(labelled[box] == number))
                result.append(
                    Suspicion(
                        case.index, None, place, (place.sample, *place.start, *place.stop), (label,), pixels=pixels
                    )
                )
        return result

    def typical(self, given: Sequence[Suspicion]) -> dict[int, float]:
        """Return the median size of the objects of each class."""
        sizes: dict[int, list[float]] = {}
        for item in given:
            sizes.setdefault(item.labels[0], []).append(item.pixels or 0.0)
        return {label: float(np.median(of_label)) for label, of_label in sizes.items()}

    def score(self, suspicion: Suspicion, typical: dict[int, float]) -> float:
        """Return 1 less half of its size over the largest one of a speck, not below 0."""
        largest = min(THRESHOLDS.max_speck_pixels, THRESHOLDS.speck_fraction * typical.get(suspicion.labels[0], 0.0))
        return max(0.0, 1 - 0.5 * (suspicion.pixels or 0.0) / largest) if largest > 0 else 0.0

    def figures(self, suspicion: Suspicion, typical: dict[int, float]) -> dict[str, float]:
        """Return ``pixels``: of the speck."""
        return {"pixels": round(suspicion.pixels or 0)}

    def suggestion(self, suspicion: Suspicion, typical: dict[int, float], masks: CaseMasks) -> Classes | None:
        """Leave it out."""
        return without_object(masks.annotation, suspicion)
