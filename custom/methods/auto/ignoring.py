"""Missing objects at a site: the surest ones that the model sees and nobody has annotated are ignored."""

from collections.abc import Mapping, Sequence

import numpy as np

from ....transforms.array_types import Booleans, Classes, Floats
from ....transforms.connected_lesions import label_lesions, largest_in_lesions
from ....transforms.ignore_unannotated import IgnoreUnannotated
from ....transforms.ignored_label import IGNORED_LABEL
from ...channel.cases import JudgedCase
from ...channel.detections import unannotated_sureness

# A model that has seen few lesions finds their middle; what is around it is as little background as that.
_MARGIN = 2


class UnannotatedObjects:
    """Collects what a model sees of a site's samples, and chooses what is ignored.

    Of a class of which the share m is left out the surest unannotated objects are ignored: m / (1 − m) times as many as
    are annotated.

    Args:
        unannotated: by class, share m of the objects.
    """

    def __init__(self, unannotated: Mapping[int, float]) -> None:
        self._unannotated = unannotated
        self._sureness: dict[int, list[Floats]] = {label: [] for label in unannotated}
        self._annotated = dict.fromkeys(unannotated, 0)

    def see(self, judged: JudgedCase) -> None:
        """Take the next sample."""
        for label in self._unannotated:
            self._sureness[label].append(unannotated_sureness(judged, label))
            self._annotated[label] += label_lesions(judged.annotated_as(label))[1]

    def ignored(self, samples: Sequence[Classes]) -> list[tuple[Booleans, int]]:
        """Return of every sample the pixels that are ignored ``(H, W[, D])``, and of how many objects they are.

        Args:
            samples: the given annotations of all samples, in the order in which they were seen.
        """
        pixels = [np.zeros(given.shape, dtype=np.bool_) for given in samples]
        objects = [0] * len(samples)
        for label, share in self._unannotated.items():
            wanted = round(self._annotated[label] * share / (1 - share)) if share < 1 else len(samples) ** 2
            for index, least in _surest(self._sureness[label], wanted).items():
                ignore = IgnoreUnannotated(most=len(least), sureness=min(least), margin=_MARGIN)
                marked = np.asarray(ignore(samples[index], self._sureness[label][index]))
                pixels[index] |= (marked == IGNORED_LABEL) & (samples[index] == 0)
                objects[index] += len(least)
        return list(zip(pixels, objects, strict=True))


def _surest(maps: Sequence[Floats], wanted: int) -> dict[int, list[float]]:
    """How sure each of the surest objects of all samples is, by the index of the sample."""
    found: list[tuple[float, int]] = []
    for index, sureness in enumerate(maps):
        labelled, count = label_lesions(sureness > 0)
        found += [(value, index) for value in largest_in_lesions(sureness, labelled, count).tolist()]
    found.sort(key=lambda one: (-one[0], one[1]))
    chosen: dict[int, list[float]] = {}
    for value, index in found[:wanted]:
        chosen.setdefault(index, []).append(value)
    return chosen
