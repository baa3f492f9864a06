"""How a public data set is known to the importer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ..source import SourceDataset


class ReadLayout(Protocol):
    """Finds a data set's cases in a folder; reads annotation tables, but neither images nor masks."""

    def __call__(self, folder: Path, *, seed: int) -> SourceDataset:
        """Find the cases.

        Args:
            folder: where the data set was unpacked.
            seed: seed of everything random.

        Raises:
            DataError: if the folder does not have the data set's layout.
        """
        ...


@dataclass(frozen=True)
class Layout:
    """A public data set that can be imported by name.

    Attributes:
        name: what it is called on the command line.
        title: its full name.
        task: what its annotations are for.
        expected: what its folder must hold, in one line.
        read: finds its cases.
    """

    name: str
    title: str
    task: Literal["segmentation", "classification"]
    expected: str
    read: ReadLayout
