"""Contour evolution: a clean mask becomes one that an annotator with a habit and an unsteady hand would draw."""

from __future__ import annotations

import math

import numpy as np
from monai.config import KeysCollection
from monai.transforms import Randomizable, Transform

from ..mask_arrays import Mask, RandomMaskTransformd, as_array, like
from .displacement import DEGREE, DisplacementCurve, draw_curve
from .evolved_mask import ContourEvolutionParams, evolve
from .nested_contours import MaskContours, mask_contours

# Pixels at the reference size, as in the method's published program.
CLOSING_TOLERANCE = 3.0


class ContourEvolution(Randomizable, Transform):  # type: ignore[misc]
    """Contour evolution model C(μ, σ): move every contour of a mask by a smooth random displacement.

    For each object of a label value the outline and the outlines of its holes are moved along the object's outward
    normal by a polynomial of degree 10 fitted to 30 values from N(μ, σ²); positive is a larger annotation and a smaller
    hole. Displacements are clipped. Objects smaller than ``smallest_object``, and holes smaller than that, stay as they
    are. See `FedA3I: Annotation Quality-Aware Aggregation for Federated Medical Image Segmentation against
    Heterogeneous Annotation Noise <https://arxiv.org/abs/2312.12838>`_, Sec. 3.2.

    Masks are ``(H, W)`` or ``(H, W, D)``, numpy or torch, of whole numbers with 0 as background; volumes are evolved
    slice by slice along the last axis, objects being eight-connected in a slice. Type and dtype are kept. Objects cut
    by the image border are taken to go on outside: the cut does not move, and what grows over the border is clipped.
    Nothing leaves the site.

    Classes that touch evolve as nested contours. The outline of all of them moves first, then every contour between an
    outer class and those inside it; of classes side by side the one with the smaller value counts as the outer. Inner
    classes stay inside, and reach the moved outline only where they reached the drawn one, so no gap opens and none is
    cut off. Classes that do not touch move by themselves, and the larger value covers where they come to overlap.

    Args:
        mean: μ, the annotator's preference, in pixels at the reference size.
        spread: σ, the annotator's randomness, as above.
        max_displacement: clip of the displacement, as above.
        smallest_object: objects and holes of fewer pixels are left alone; its square root is a length.
        reference_size: side of the image for which the lengths hold. They are scaled with the geometric mean of H and W
            over it. None: lengths are pixels of the mask as it is.

    Raises:
        ValueError: when a length is not finite or negative where it must not be.

    Example:
        >>> mask = np.zeros((256, 256), dtype=np.uint8)
        >>> mask[100:160, 90:170] = 1
        >>> too_large = ContourEvolution(mean=12, spread=5).set_random_state(seed=0)
        >>> params = too_large.make_params(mask)
        >>> noisy = too_large.apply_transform(mask, params)
        >>> bool(noisy.sum() > mask.sum())
        True
    """

    def __init__(
        self,
        mean: float,
        spread: float,
        *,
        max_displacement: float = 30.0,
        smallest_object: float = 15.0,
        reference_size: float | None = 256.0,
    ) -> None:
        if not math.isfinite(mean):
            raise ValueError(f"Expected a finite mean displacement in pixels, but got {mean=}.")
        lengths = {"spread": spread, "max_displacement": max_displacement, "smallest_object": smallest_object}
        for name, value in lengths.items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Expected a finite number of at least 0 pixels, but got {name}={value}.")
        if reference_size is not None and not (math.isfinite(reference_size) and reference_size > 0):
            raise ValueError(f"Expected a reference size above 0 pixels or None, but got {reference_size=}.")
        self.mean = mean
        self.spread = spread
        self.max_displacement = max_displacement
        self.smallest_object = smallest_object
        self.reference_size = reference_size

    def make_params(self, mask: Mask) -> ContourEvolutionParams:
        """Draw everything random for one clean mask ``(H, W[, D])``.

        Raises:
            ValueError: when the mask has another number of axes or values that are no labels.
        """
        array = as_array(mask)
        return self._draw(array.shape, mask_contours(array, self.max_displacement * self._scale(array.shape)))

    def apply_transform(self, mask: Mask, params: ContourEvolutionParams) -> Mask:
        """Move the contours of a clean mask ``(H, W[, D])`` as ``params`` say; nothing random, the input is kept.

        Raises:
            ValueError: when the parameters were drawn for another mask.
        """
        array = as_array(mask)
        return like(mask, evolve(array, mask_contours(array, params.max_displacement), params))

    def __call__(self, mask: Mask) -> Mask:
        """Draw and apply: the noisy mask for a clean one ``(H, W[, D])``."""
        array = as_array(mask)
        contours = mask_contours(array, self.max_displacement * self._scale(array.shape))
        return like(mask, evolve(array, contours, self._draw(array.shape, contours)))

    def _scale(self, shape: tuple[int, ...]) -> float:
        """Pixels of the mask that one pixel at the reference size is."""
        return 1.0 if self.reference_size is None else math.sqrt(shape[0] * shape[1]) / self.reference_size

    def _draw(self, shape: tuple[int, ...], contours: MaskContours) -> ContourEvolutionParams:
        """One displacement curve per contour; contours too small to move get a curve of zeros and use no randomness."""
        scale = self._scale(shape)
        smallest = self.smallest_object * scale**2
        still = DisplacementCurve(0.0, False, np.zeros(DEGREE + 1))
        owners = [(item.slice_index, contour) for item in contours.structures for contour in item.contours]
        curves = [
            still
            if contour.area < smallest
            else draw_curve(self.R, self.mean * scale, self.spread * scale, CLOSING_TOLERANCE * scale)
            for _, contour in owners
        ]
        return ContourEvolutionParams(
            mask_shape=tuple(shape),
            max_displacement=self.max_displacement * scale,
            label=np.array([contour.label for _, contour in owners], dtype=np.int64),
            slice_index=np.array([index for index, _ in owners], dtype=np.int64),
            start=np.array([curve.start for curve in curves], dtype=np.float64),
            periodic=np.array([curve.periodic for curve in curves], dtype=bool),
            coefficients=np.array([curve.coefficients for curve in curves]).reshape(-1, DEGREE + 1),
        )


class ContourEvolutiond(RandomMaskTransformd):
    """Dictionary version of :class:`ContourEvolution`; what :class:`RandomMaskTransformd` says holds.

    Args:
        keys: keys of the masks.
        mean: see :class:`ContourEvolution`.
        spread: see :class:`ContourEvolution`.
        reference_size: see :class:`ContourEvolution`.
        allow_missing_keys: pass over a key that the data do not have.

    Example:
        >>> sample = {"image": np.zeros((64, 64)), "label": np.pad(np.ones((24, 24), dtype=np.uint8), 20)}
        >>> noisy = ContourEvolutiond("label", mean=20, spread=2).set_random_state(seed=0)(sample)
        >>> bool(noisy["label"].sum() > sample["label"].sum())
        True
    """

    def __init__(
        self,
        keys: KeysCollection,
        mean: float,
        spread: float,
        *,
        reference_size: float | None = 256.0,
        allow_missing_keys: bool = False,
    ) -> None:
        evolution = ContourEvolution(mean, spread, reference_size=reference_size)
        super().__init__(keys, evolution, "Contour evolution", allow_missing_keys)
