"""Facts of an image or an annotation, measured in its values."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import replace

import nibabel
import numpy as np
from nibabel.nifti1 import Nifti1Image

from ...custom.data.masks import without_ignored
from ...transforms.array_types import Classes, SingleFloats
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import Picture
from ...transforms.loading.picture_display import UPRIGHT
from ...transforms.loading.volume_channels import LEAST_COVERED, ImageVolume
from .digests import digest_of
from .facts import AnnotationFacts, ImageFacts
from .layout import MaskLayout

# Percentiles of more values than this are those of a regular sample.
_MAX_SAMPLE = 2**14
# So many values become float64 at a time.
_PART = 2**20


def picture_facts(picture: Picture) -> ImageFacts:
    """Return the facts of a picture."""
    facts = _image_facts(picture.intensities, None, None, picture.mode)
    return replace(
        facts,
        has_colours=picture.has_colours,
        is_turned_by_exif=picture.orientation != UPRIGHT,
        empty_channels=() if picture.has_colours else _empty(picture.intensities),
    )


def volume_facts(image: ImageVolume) -> ImageFacts:
    """Return the facts of a volume with all its channels; intensities are those of the first."""
    volume = image.first
    header = nibabel.load(image.file)
    assert isinstance(header, Nifti1Image)
    voxel_type = str(header.get_data_dtype().newbyteorder("="))
    facts = _image_facts(volume.voxels, volume.spacing, volume.orientation, voxel_type)
    if len(image.voxels) == 1:
        return facts
    covered = {index: fraction for index, fraction in enumerate(image.covered) if fraction < LEAST_COVERED}
    digests = "".join(digest_of(voxels.astype("<f4", copy=False)) for voxels in image.voxels)
    digest = hashlib.sha256(digests.encode()).hexdigest()
    empty = tuple(index for index in _empty(image.voxels) if index not in image.missing)
    return replace(facts, digest=digest, covered=covered, empty_channels=empty)


def _empty(channels: Iterable[SingleFloats]) -> tuple[int, ...]:
    """Channels of one intensity; none where all are."""
    constant = [bool(channel.min() == channel.max()) for channel in channels]
    return () if all(constant) else tuple(index for index, is_constant in enumerate(constant) if is_constant)


def _image_facts(
    intensities: SingleFloats, spacing: tuple[float, ...] | None, orientation: str | None, voxel_type: str
) -> ImageFacts:
    sample = intensities.reshape(-1)[:: 1 + intensities.size // _MAX_SAMPLE]
    mean, deviation = _mean_and_deviation(intensities)
    low, middle, high = (float(value) for value in np.percentile(sample, (1, 50, 99)))
    return ImageFacts(
        shape=intensities.shape,
        spacing=spacing,
        orientation=orientation,
        voxel_type=voxel_type,
        minimum=float(intensities.min()),
        maximum=float(intensities.max()),
        mean=mean,
        deviation=deviation,
        percentiles=(low, middle, high),
        digest=digest_of(intensities.astype("<f4", copy=False)),
    )


def _mean_and_deviation(values: SingleFloats) -> tuple[float, float]:
    """The mean and standard deviation of all values, of which a part at a time becomes float64."""
    flat = values.reshape(-1)
    parts = [flat[start : start + _PART] for start in range(0, flat.size, _PART)]
    mean = sum(float(part.sum(dtype=np.float64)) for part in parts) / flat.size
    squares = sum(float(np.square(part - np.float64(mean)).sum()) for part in parts)
    return mean, math.sqrt(squares / flat.size)


def annotation_facts(classes: Classes, kept: float = 1.0) -> AnnotationFacts:
    """Return the facts of an annotation.

    Args:
        classes: of its pixels.
        kept: the fraction of the foreground that the crop of the pipeline has left.
    """
    flat = classes.reshape(-1)
    # Counting makes eight bytes of each value that it is given.
    counts = sum(np.bincount(flat[start : start + _PART], minlength=256) for start in range(0, flat.size, _PART))
    areas = {label: int(count) for label, count in enumerate(np.atleast_1d(counts)) if label and count}
    ignored = areas.pop(IGNORED_LABEL, 0)
    layout = MaskLayout.of(without_ignored(classes) if ignored else classes)
    return AnnotationFacts(areas, digest_of(classes), kept, layout, ignored / classes.size if ignored else 0.0)
