"""Missing objects at a site: the most confident ones that the model sees and nobody has annotated are ignored."""

from collections.abc import Mapping, Sequence

import numpy as np

from ....transforms.array_types import Booleans, Classes, Floats
from ....transforms.connected_lesions import label_lesions, largest_in_lesions
from ....transforms.ignore_unannotated import IgnoreUnannotated
from ....transforms.ignored_label import IGNORED_LABEL
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.detections import unannotated_confidence

# A model that has seen few lesions finds their middle; what is around it is as little background as that.
_MARGIN = 2


class UnannotatedObjects:
    """Collects what a model sees of a site's samples, and chooses what is ignored.

    Of a class of which the share m is left out the most confident unannotated objects are ignored: m / (1 − m) times as
    many as are annotated.

    Args:
        unannotated: by class, share m of the objects.
    """

    def __init__(self, unannotated: Mapping[int, float]) -> None:
        self._unannotated = unannotated
        self._confidence: dict[int, list[Floats]] = {label: [] for label in unannotated}
        self._annotated = dict.fromkeys(unannotated, 0)

    def see(self, predicted: PredictedCase) -> None:
        """Take the next sample."""
        for label in self._unannotated:
            self._confidence[label].append(unannotated_confidence(predicted, label))
            self._annotated[label] += label_lesions(predicted.annotated_as(label))[1]

    def ignored(self, samples: Sequence[Classes]) -> list[tuple[Booleans, int]]:
        """Return of every sample the pixels that are ignored ``(H, W[, D])``, and of how many objects they are.

        Args:
            samples: the given annotations of all samples, in the order in which they were seen.
        """
        pixels = [np.zeros(given.shape, dtype=np.bool_) for given in samples]
        objects = [0] * len(samples)
        for label, share in self._unannotated.items():
            wanted = round(self._annotated[label] * share / (1 - share)) if share < 1 else len(samples) ** 2
            for index, least in _most_confident(self._confidence[label], wanted).items():
                ignore = IgnoreUnannotated(most=len(least), confidence=min(least), margin=_MARGIN)
                marked = np.asarray(ignore(samples[index], self._confidence[label][index]))
                pixels[index] |= (marked == IGNORED_LABEL) & (samples[index] == 0)
                objects[index] += len(least)
        return list(zip(pixels, objects, strict=True))


def _most_confident(maps: Sequence[Floats], wanted: int) -> dict[int, list[float]]:
    """How sure each of the most confident objects of all samples is, by the index of the sample."""
    result: list[tuple[float, int]] = []
    for index, confidence in enumerate(maps):
        labelled, count = label_lesions(confidence > 0)
        result += [(value, index) for value in largest_in_lesions(confidence, labelled, count).tolist()]
    result.sort(key=lambda one: (-one[0], one[1]))
    chosen: dict[int, list[float]] = {}
    for value, index in result[:wanted]:
        chosen.setdefault(index, []).append(value)
    return chosen
