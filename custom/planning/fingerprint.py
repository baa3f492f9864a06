"""What a site's images and annotations are like, in aggregates that pool exactly: a fingerprint.

A fingerprint of a federation is that of its cases taken together. So sites send means and shares over cases, which the
server weighs by numbers of cases, and no medians. Sizes are described by mean and mean square of their logarithm: bins
would show the sizes of single patients.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from ...transforms.array_types import Floats
from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..data.datalist import TRAINING, Case, read_datalist
from ..data.description import AnyDescription, SegmentationDescription, SliceDescription, VolumeDescription
from .lengths import AXES, INTENSITY_BINS

_LOGGER = printable_logger(__name__)

# Intensities may be negative and are of any unit: equal bins of arsinh, from -80000 to 80000.
_INTENSITY_END = 12.0


@dataclass(frozen=True)
class CaseFingerprint:
    """One case, for the site alone.

    Attributes:
        unit: the patient.
        spacing: millimetres of a voxel along three axes, NaN where it is not known.
        extents: voxels along them, 1 where there is no third axis.
        class_fractions: share of the pixels of each foreground class, ``(C,)``.
        foreground: shares of the bins of the intensities of annotated pixels, ``(INTENSITY_BINS,)``; zeros without any.
    """

    unit: str
    spacing: tuple[float, ...]
    extents: tuple[int, ...]
    class_fractions: Floats
    foreground: Floats


@dataclass(frozen=True)
class Fingerprint:
    """Aggregates over cases, each case with the same weight; of a site, or of a federation.

    Attributes:
        num_cases: how many cases are in it.
        num_patients: of how many patients.
        spacing_known: share of the cases whose size of a voxel is known, ``(1,)``.
        spacing_means: of the logarithm of that size in millimetres along each axis, over all cases; 0 where it is not
            known; ``(3,)``.
        spacing_squares: as above of its square.
        extent_means: mean logarithm of the number of voxels along each axis, ``(3,)``.
        extent_squares: mean square of it.
        class_fractions: mean share of the pixels of each foreground class, ``(C,)``.
        class_presence: share of the cases in which each class is annotated, ``(C,)``.
        foreground: mean of the shares of the bins of intensities of annotated pixels, ``(INTENSITY_BINS,)``.
    """

    num_cases: int
    num_patients: int
    spacing_known: Floats
    spacing_means: Floats
    spacing_squares: Floats
    extent_means: Floats
    extent_squares: Floats
    class_fractions: Floats
    class_presence: Floats
    foreground: Floats

    @classmethod
    def of_cases(cls, cases: Sequence[CaseFingerprint]) -> "Fingerprint":
        """Return the fingerprint of cases.

        Raises:
            ValueError: if there is none.
        """
        if not cases:
            raise ValueError("Expected a case at least, but got none.")
        known = np.array([all(map(math.isfinite, case.spacing)) for case in cases])
        spacings = np.log([case.spacing if has else (1.0,) * AXES for case, has in zip(cases, known, strict=True)])
        extents = np.log([case.extents for case in cases])
        fractions = np.array([case.class_fractions for case in cases])
        return cls(
            num_cases=len(cases),
            num_patients=len({case.unit for case in cases}),
            spacing_known=np.array([known.mean()]),
            spacing_means=spacings.mean(axis=0),
            spacing_squares=np.square(spacings).mean(axis=0),
            extent_means=extents.mean(axis=0),
            extent_squares=np.square(extents).mean(axis=0),
            class_fractions=fractions.mean(axis=0),
            class_presence=(fractions > 0).mean(axis=0),
            foreground=np.mean([case.foreground for case in cases], axis=0),
        )

    @classmethod
    def pooled(cls, sites: Iterable["Fingerprint"]) -> "Fingerprint":
        """Return the fingerprint of the cases of several sites taken together; no patient is at two of them.

        Raises:
            ValueError: if there is no site.
        """
        all_sites = list(sites)
        total = sum(site.num_cases for site in all_sites)
        if not total:
            raise ValueError("Expected a site with a case, but got none.")
        means = {
            name: np.sum([getattr(site, name) * (site.num_cases / total) for site in all_sites], axis=0)
            for name in MEANS
        }
        return cls(total, sum(site.num_patients for site in all_sites), **means)

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> "Fingerprint":
        """Return the fingerprint in a site's answer; see :meth:`as_fields`."""
        means = {name: np.array(values[name], dtype=np.float64) for name in MEANS}
        return cls(values["num_samples"], values["num_patients"], **means)

    def as_fields(self) -> dict[str, int | list[float]]:
        """Return what leaves the site, as plain values."""
        means = {name: [float(value) for value in getattr(self, name)] for name in MEANS}
        return {"num_samples": self.num_cases, "num_patients": self.num_patients, **means}

    def spacing(self, quantile: float = 0.5) -> tuple[float, ...] | None:
        """Return a quantile of the size of a voxel along each axis in millimetres; None where no case's is known.

        Logarithms are taken for normally distributed, so that the median is the geometric mean.
        """
        known = float(self.spacing_known[0])
        return _quantiles(self.spacing_means / known, self.spacing_squares / known, quantile) if known else None

    def extents(self, quantile: float = 0.5) -> tuple[float, ...]:
        """Return a quantile of the number of voxels along each axis, as above."""
        return _quantiles(self.extent_means, self.extent_squares, quantile)

    def intensity(self, quantile: float) -> float | None:
        """Return a quantile of the intensities of annotated pixels; None where none is annotated."""
        total = float(self.foreground.sum())
        if not total:
            return None
        edges = np.linspace(-_INTENSITY_END, _INTENSITY_END, INTENSITY_BINS + 1)
        reached = np.concatenate([[0.0], np.cumsum(self.foreground / total)])
        return float(np.sinh(np.interp(quantile, reached, edges)))


MEANS = tuple(field.name for field in fields(Fingerprint) if field.name not in ("num_cases", "num_patients"))


def _quantiles(means: Floats, squares: Floats, quantile: float) -> tuple[float, ...]:
    deviations = np.sqrt(np.maximum(squares - np.square(means), 0.0))
    return tuple(float(value) for value in np.exp(means + norm.ppf(quantile) * deviations))


def site_fingerprint(folder: Path, description: AnyDescription, *, site: str) -> Fingerprint:
    """Return the fingerprint of a site's training cases as they lie in their files, before any resampling.

    A case that cannot be read is named in the log and left out.

    Args:
        folder: with the description and the datalist.
        description: the site's.
        site: its name, for messages.

    Raises:
        DataError: if the datalist cannot be read, no case can, or the data are for classification.
    """
    if not isinstance(description, SegmentationDescription):
        raise DataError(f"Site {site}: {folder} holds data for classification; expected images with masks.")
    cases, number = [], len(description.classes)
    for case in read_datalist(folder / description.datalist).section(TRAINING):
        try:
            cases.append(_case(case, description, number))
        except DataError as error:
            _LOGGER.warning("Site %s: case %s is left out: %s", site, case.image.name, error)
    if not cases:
        raise DataError(f"Site {site}: {folder} has no training case that can be read; expected one at least.")
    return Fingerprint.of_cases(cases)


def _case(case: Case, description: SegmentationDescription, number: int) -> CaseFingerprint:
    """The fingerprint of a case, of several annotations the mean of each one's."""
    if not case.is_undecided:
        return _of_label(case, description, number)
    own = [replace(case, label=annotation.file, annotations=()) for annotation in case.annotations]
    each = [_of_label(one, description, number) for one in own]
    fractions = np.mean([one.class_fractions for one in each], axis=0)
    return replace(each[0], class_fractions=fractions, foreground=np.mean([one.foreground for one in each], axis=0))


def _of_label(case: Case, description: SegmentationDescription, number: int) -> CaseFingerprint:
    if not isinstance(case.label, Path):
        raise DataError(f"{case.image}: found 'label' = {case.label}; expected the path of a mask.")
    if isinstance(description, VolumeDescription | SliceDescription):
        voxels, classes, spacing = _volume(case.image, case.label, description)
    else:
        voxels, classes, spacing = _picture(case.image, case.label, description)
    fractions = np.array([(classes == label).mean() for label in range(1, number + 1)])
    annotated = voxels[(classes > 0) & (classes <= number)]
    ends = (-_INTENSITY_END, _INTENSITY_END)
    counts = np.histogram(np.clip(np.arcsinh(annotated.astype(np.float64)), *ends), INTENSITY_BINS, ends)[0]
    extents = (*classes.shape, 1)[:AXES]
    return CaseFingerprint(case.unit, spacing, extents, fractions, counts / max(len(annotated), 1))


def _volume(image: Path, mask: Path, description: SegmentationDescription) -> tuple[Any, Any, tuple[float, ...]]:
    # The readers take a moment, and a site that is asked for something else starts without them; also below.
    from ...transforms.loading.image_files import map_mask  # noqa: PLC0415
    from ...transforms.loading.volume_files import as_image_lies, read_first_channel, read_label_volume  # noqa: PLC0415
    from ...transforms.loading.volume_geometry import axes_in_orientation  # noqa: PLC0415

    assert isinstance(description, VolumeDescription | SliceDescription)
    read = read_first_channel(image)
    values = as_image_lies(mask, read_label_volume(mask), read).voxels
    classes = map_mask(values, description.labels_of_values, mask)
    axes = axes_in_orientation(read.affine, description.orientation)
    if isinstance(description, SliceDescription):
        # The axes of the slices come first.
        across = axes[description.slice_axis]
        axes = (*(axis for axis in axes if axis != across), across)
    spacing = tuple(read.spacing[axis] for axis in axes)
    return np.transpose(read.voxels, axes), np.transpose(classes, axes), spacing


def _picture(image: Path, mask: Path, description: SegmentationDescription) -> tuple[Any, Any, tuple[float, ...]]:
    from ...transforms.loading.image_files import check_same_size, map_mask, read_image, read_mask  # noqa: PLC0415

    voxels, values = read_image(image, 1)[0], read_mask(mask)
    check_same_size(mask, values.shape, voxels.shape)
    return voxels, map_mask(values, description.labels_of_values, mask), (math.nan,) * AXES
