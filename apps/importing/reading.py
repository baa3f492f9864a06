"""How the files of a data set are read: what a person said, and what all readers share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...custom.data.description import SegmentationDescription, SiteDescription
from ...transforms.data_error import DataError, NearlyWholeError

Read = TypeVar("Read")


@dataclass(frozen=True)
class Reading:
    """How the files of a data set are read.

    Attributes:
        description: of a site's data as far as it is known before masks are read: size, what is cropped, classes.
        channels: of pictures; None for as many as each one's colours need.
        colours: of masks in colours, colour → class; see :func:`fedannot.transforms.loading.image_files.read_colours`.
        trust_voxels: take a mask of a volume's size to lie where its image lies, whatever its affine says.
        unites_masks: several masks of an image are parts of one annotation, also where they cover each other.
        round_labels: round label values that are not quite whole numbers, and write such masks again.
    """

    description: SiteDescription
    channels: int | None = None
    colours: Mapping[int, int] | None = None
    trust_voxels: bool = False
    unites_masks: bool = False
    round_labels: bool = False

    @property
    def labels(self) -> Mapping[int, int]:
        """Value in a mask → class; of classification nothing."""
        return self.description.labels if isinstance(self.description, SegmentationDescription) else {}

    @property
    def values_of_classes(self) -> dict[str, int]:
        """Name of a class → the lowest value in a mask that stands for it."""
        if not isinstance(self.description, SegmentationDescription):
            return {}
        names = self.description.classes
        lowest = {label: value for value, label in sorted(self.description.labels.items(), reverse=True)}
        return {name: lowest[label] for label, name in enumerate(names, start=1)}

    def rounded(self, read: Callable[..., Read]) -> tuple[Read, bool]:
        """Return what is read of a mask, and whether its label values were rounded.

        Args:
            read: reads it; takes ``rounds``.

        Raises:
            NearlyWholeError: if values are not quite whole numbers, and nobody said that they are to be rounded.
        """
        try:
            return read(), False
        except NearlyWholeError as error:
            if not self.round_labels:
                raise NearlyWholeError(f"{error} --round-labels takes the nearest ones.") from error
        return read(rounds=True), True


@contextmanager
def errors_name(source: Path, converted: Path) -> Iterator[None]:
    """Name the person's own file in errors of the converted one."""
    try:
        yield
    except DataError as error:
        raise type(error)(str(error).replace(str(converted), str(source))) from error
