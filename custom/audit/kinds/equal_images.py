"""Equal images with different annotations."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import SingleFloats
from ..alignment import THUMBNAIL_SIDES, thumbnail, thumbnail_dice
from ..examined import ExaminedCase, as_volume
from .kind import Kind, Suspicion


@dataclass(frozen=True)
class ImageAndAnnotation:
    """What is kept of a case: a hash of its image, and its annotation as a small picture, or its labels."""

    image: str
    annotation: SingleFloats


class EqualImages(Kind[dict[str, list[Suspicion]]]):
    """Cases of one image that are annotated differently; what is typical are the cases of every image."""

    name = "equal_images"
    threshold = 0.55

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Keep the hash of the image, and the annotation."""
        image = hashlib.sha256(f"{case.image.shape}".encode() + case.image.tobytes()).hexdigest()
        whole = as_volume(case.annotation)
        annotation = thumbnail(((whole != 0) & (whole != 255)).astype(np.float32), THUMBNAIL_SIDES[whole.ndim])
        return [Suspicion(case.index, ImageAndAnnotation(image, annotation))]

    def typical(self, given: Sequence[Suspicion]) -> dict[str, list[Suspicion]]:
        """Return the cases of every image."""
        cases: dict[str, list[Suspicion]] = {}
        for item in given:
            cases.setdefault(item.features.image, []).append(item)
        return cases

    def score(self, suspicion: Suspicion, typical: dict[str, list[Suspicion]]) -> float:
        """Return one half and more for annotations that differ: 1 − Dice / 2."""
        return self._other(suspicion, typical)[1]

    def figures(self, suspicion: Suspicion, typical: dict[str, list[Suspicion]]) -> dict[str, float]:
        """Return ``other_case``: the number in the list, from 1, of the case with the same image."""
        return {"other_case": self._other(suspicion, typical)[0] + 1}

    @staticmethod
    def _other(suspicion: Suspicion, typical: dict[str, list[Suspicion]]) -> tuple[int, float]:
        """The case of the same image whose annotation differs most, and by how much."""
        own = suspicion.features.annotation
        differences = [(-1, 0.0)]
        for other in typical[suspicion.features.image]:
            theirs = other.features.annotation
            if other.case == suspicion.case or np.array_equal(own, theirs):
                continue
            differences.append((other.case, 1 - 0.5 * thumbnail_dice(own, theirs)))
        return max(differences, key=lambda one: one[1])
