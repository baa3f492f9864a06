"""A mask of a volume on the voxels of its image: as it lies, turned, trusted, resampled, or drawn from contours."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Labels
from ...transforms.data_error import DataError
from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.volume_files import (
    Volume,
    as_image_lies,
    is_turned,
    largest_offset,
    read_label_volume,
    write_labels_like,
)
from .contour_masks import ContourFacts, mask_of_contours
from .mask_grid import has_size_of, resampled
from .reading import Reading, errors_name
from .segment_names import SegmentValues, by_names, named_segments
from .series_pairs import series_of
from .volumes import as_nifti

_TRUST = (
    "If the voxels do belong together, --trust-voxels imports the mask with its image's affine; else export it again."
)
_MIRRORED = (
    "Its axes run to {mask}, those of the image to {image}, so that --trust-voxels would turn or mirror it and does "
    "not apply. Export the mask again from its image."
)
# Fraction of a voxel below which a mask that lies off its image is rounded.
_ROUNDING = 0.01


@dataclass(frozen=True)
class MaskFacts:
    """How a mask came onto the voxels of its image.

    Attributes:
        trusted_offset: by how many millimetres it lay off its image where that was not believed, else 0.
        kept_offset: as above, by less than half a voxel, so that its voxels were taken as they are.
        is_turned: whether it was stored in another orientation than its image.
        is_rounded: whether label values were rounded.
        resampled_from: distance in millimetres from which a label came at most, of a mask on another grid; else None.
        remarks: what of its header counts where it contradicts itself.
        contours: what became of a structure set.
        segments: that its file names, with their values there.
        is_by_names: whether segments got the values of the classes that they are named as.
    """

    trusted_offset: float = 0.0
    kept_offset: float = 0.0
    is_turned: bool = False
    is_rounded: bool = False
    resampled_from: float | None = None
    remarks: tuple[str, ...] = ()
    contours: ContourFacts | None = None
    segments: SegmentValues = ()
    is_by_names: bool = False


@dataclass(frozen=True)
class PlacedMask:
    """A mask on the voxels of its image.

    Attributes:
        values: label values with the shape of the image.
        facts: how it came there.
        file: a NIfTI file that holds them so, None if there is none yet.
    """

    values: Labels
    facts: MaskFacts
    file: Path | None = None


def placed_mask(file: Path, image_file: Path, image: Volume, staging: Path, reading: Reading) -> PlacedMask:
    """Read a mask onto the voxels of its image.

    Args:
        file: the mask.
        image_file: the image where a person has it, to compare series.
        image: the image.
        staging: a NIfTI file to write where the mask is none.
        reading: what a person said.

    Raises:
        DataError: if the mask cannot be read, or does not lie where its image lies.
    """
    if is_structure_set(file):
        values, drawn = mask_of_contours(file, image, reading.values_of_classes, series_of(image_file))
        return PlacedMask(values, MaskFacts(contours=drawn))
    nifti = as_nifti(file, staging, onto=image)
    with errors_name(file, nifti):
        stored, is_rounded = reading.rounded(partial(read_label_volume, nifti))
    segments = named_segments(file, stored)
    volume = by_names(file, stored, segments, reading)
    values, facts = _placed(file, volume, image, is_trusted=reading.trust_voxels)
    is_stored = values is stored.voxels and not (facts.trusted_offset or is_rounded)
    facts = replace(
        facts,
        is_rounded=is_rounded,
        remarks=remarks_on(file, volume),
        segments=segments,
        is_by_names=volume is not stored,
    )
    return PlacedMask(values, facts, nifti if is_stored else None)


def remarks_on(file: Path, volume: Volume) -> tuple[str, ...]:
    """Return what of a file's header counts where it contradicts itself; nothing where it does not."""
    placement = volume.placement
    return () if placement is None or placement.remark is None else (f"{file.name}: {placement.remark}",)


def write_mask_like(target: Path, values: Labels, image_file: Path) -> Path:
    """Write label values where the voxels of an image lie, in a folder that is the user's alone."""
    private_folder(target.parent)
    write_labels_like(private_file(target), values, image_file)
    return target


def _placed(file: Path, mask: Volume, image: Volume, *, is_trusted: bool) -> tuple[Labels, MaskFacts]:
    """The mask as its image lies.

    A mask of the image's size that lies elsewhere is not resampled: the voxels may be right as well as the header.
    """
    # A header that says nothing of its axes may be of any voxels.
    says = all(volume.placement is None or volume.placement.says_orientation for volume in (mask, image))
    would_mirror = says and is_turned(mask, image)
    remedy = _MIRRORED.format(mask=mask.orientation, image=image.orientation) if would_mirror else _TRUST
    try:
        placed = as_image_lies(file, mask, image, remedy=remedy)
    except DataError:
        has_size = has_size_of(mask, image)
        if not has_size and says and not is_trusted:
            values, distance = resampled(file, mask, image)
            return values, MaskFacts(resampled_from=distance)
        if not is_trusted or would_mirror or mask.voxels.shape != image.voxels.shape:
            raise
        return mask.voxels, MaskFacts(trusted_offset=largest_offset(mask, image))
    offset = largest_offset(placed, image)
    kept = offset if offset > _ROUNDING * min(image.spacing) else 0.0
    return placed.voxels, MaskFacts(kept_offset=kept, is_turned=placed is not mask)
