"""How large a site's whole volumes are as they are trained on, from headers alone."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ...transforms.errors import DataError
from .datalist import TRAINING, read_datalist
from .description import DESCRIPTION_FILE, VolumeDescription, read_site_description

# Of a suggestion: what a network of five levels halves, and its minimum along one axis.
_STEP = 16
_LARGE_STEP = 32
_LARGEST_PATCH = (96, 96, 64)

Extents = tuple[int, int, int]


def suggested_patch(sites: Iterable[Path]) -> Extents:
    """Return the extents of a patch to begin with that lies within every volume, 96×96×64 at most.

    They are multiples of 16. The network needs 16 along each axis and 32 along one, also where a volume has less.

    Args:
        sites: folders of whole volumes; a volume whose header cannot be read is passed over.

    Raises:
        DataError: if a description or a datalist cannot be read.
    """
    smallest = list(_LARGEST_PATCH)
    for folder in sites:
        for extents in _extents_of_cases(folder):
            smallest = [min(pair) for pair in zip(smallest, extents, strict=True)]
    patch = [max(extent // _STEP * _STEP, _STEP) for extent in smallest]
    if max(patch) < _LARGE_STEP:
        patch[smallest.index(max(smallest))] = _LARGE_STEP
    return patch[0], patch[1], patch[2]


def _extents_of_cases(folder: Path) -> Iterable[Sequence[int]]:
    description = read_site_description(folder)
    if not isinstance(description, VolumeDescription):
        raise DataError(f"{folder / DESCRIPTION_FILE}: found no whole volumes; expected pipeline: volume.")
    if description.size is not None:
        yield description.size
        return
    for case in read_datalist(folder / description.datalist).section(TRAINING):
        try:
            yield _prepared_extents(case.image, description)
        except DataError:
            # The run names it.
            continue


def _prepared_extents(file: Path, description: VolumeDescription) -> list[int]:
    """Extents in the order of the description's axes, after resampling."""
    # The readers take a moment.
    from ...transforms.loading.volume_files import read_extents  # noqa: PLC0415
    from ...transforms.loading.volume_geometry import axes_in_orientation, voxel_spacing  # noqa: PLC0415

    shape, placement = read_extents(file)
    axes, own = axes_in_orientation(placement.affine, description.orientation), voxel_spacing(placement.affine)
    wanted = description.spacing or tuple(own[axis] for axis in axes)
    return [int(shape[axis] * own[axis] / to) for axis, to in zip(axes, wanted, strict=True)]
