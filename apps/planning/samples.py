"""How many samples a site trains on, from its descriptions and its files' headers alone."""

from collections.abc import Sequence
from pathlib import Path

from ...custom.data.datalist import Case, read_datalist
from ...custom.data.description import AnyDescription, SliceDescription, VolumeDescription, read_site_description
from ...custom.settings import RunSettings, TrainingSettings
from ...transforms.errors import DataError
from ...transforms.loading.image_files import read_image


def count_samples(folder: Path, section: str, settings: RunSettings) -> int:
    """Return how many samples an epoch has: pictures, slices, or patches of whole volumes.

    Args:
        folder: a site's, or that of the test set.
        section: the list of its datalist.
        settings: the job's.

    Raises:
        DataError: if the description, the datalist or a volume's header cannot be read.
    """
    description = read_site_description(folder)
    cases = read_datalist(folder / description.datalist).cases.get(section, ())
    if isinstance(description, SliceDescription):
        return sum(_slices(case.image, description.slice_axis) for case in cases)
    if isinstance(description, VolumeDescription) and isinstance(settings.training, TrainingSettings):
        return len(cases) * settings.training.patches_per_volume
    return len(cases)


def sample_extents(folder: Path, section: str, settings: RunSettings) -> tuple[int, ...]:
    """Return rows and columns of a sample, or the extents of a patch of whole volumes.

    Raises:
        DataError: if the description, the datalist or the first image cannot be read.
    """
    if isinstance(settings.training, TrainingSettings) and settings.training.patch is not None:
        return settings.training.patch
    description = read_site_description(folder)
    size = getattr(description, "size", None)
    if size is not None:
        return tuple(size)
    return _own_extents(folder, read_datalist(folder / description.datalist).cases.get(section, ()), description)


def _own_extents(folder: Path, cases: Sequence[Case], description: AnyDescription) -> tuple[int, ...]:
    if not cases:
        raise DataError(f"{folder}: found no case; expected one, by whose size a step can be measured.")
    return tuple(read_image(cases[0].image, description.shown_channels).shape[1:])


def _slices(file: Path, axis: int) -> int:
    # The reader of headers takes a moment, and pictures need none.
    import nibabel  # noqa: PLC0415

    try:
        return int(nibabel.load(file).shape[axis])
    except (OSError, ValueError, IndexError, nibabel.filebasedimages.ImageFileError) as error:
        raise DataError(f"{file}: its header cannot be read ({error}); expected a NIfTI volume.") from error
