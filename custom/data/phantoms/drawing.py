"""What each phantom federation has of its own: how it is drawn, described and stored, what is wrong with its labels."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....transforms.errors import DataError
from ....transforms.natural_order import natural_order
from ..description import AnyDescription
from ..federation import PHANTOM
from ..manifest import Manifest
from .storage import DrawnCase, Storage


def phantom_site_names(num_sites: int) -> tuple[str, ...]:
    """Return the names of the embedded sites, ``site-1`` to ``site-K``."""
    return tuple(f"site-{index + 1}" for index in range(num_sites))


def phantom_index(site: str, num_sites: int, sites: Collection[str] = ()) -> int | None:
    """Return which embedded site a site is, 0 for ``site-1``; None where there is none left for it, or none is known.

    ``site-1`` to ``site-K`` are the embedded sites of these names. The others of a run take what is left of them in
    their natural order, so that every site finds its own from the names of all, and no two the same.

    Args:
        site: the site's name.
        num_sites: number of embedded sites, K.
        sites: the names of all sites of the run; empty where the site does not know them.

    >>> [phantom_index(site, 3, ["hospital-b", "site-1", "hospital-a"]) for site in ("hospital-a", "hospital-b")]
    [1, 2]
    """
    names = phantom_site_names(num_sites)
    if site in names:
        return names.index(site)
    others = sorted(set(sites) - set(names), key=natural_order)
    left = [index for index, name in enumerate(names) if name not in sites]
    return dict(zip(others, left, strict=False)).get(site)


@dataclass(frozen=True)
class PhantomSite:
    """One site of a phantom federation.

    Args:
        index: 0 for ``site-1``.
        num_sites: number of sites of the federation, from which the site's imperfection follows.
        num_images: number of training cases.
        seed: seed of everything random.

    Raises:
        DataError: if there is no such site.
    """

    index: int
    num_sites: int
    num_images: int
    seed: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.num_sites:
            raise DataError(f"Phantom: found site_index={self.index}, expected 0 to {self.num_sites - 1}.")

    @property
    def name(self) -> str:
        """The site's name."""
        return phantom_site_names(self.num_sites)[self.index]


@dataclass(frozen=True)
class DrawnSite:
    """A site's cases by section of the datalist, and how they were made."""

    sections: Mapping[str, Sequence[DrawnCase]]
    manifest: Manifest


@dataclass(frozen=True)
class FederationSize:
    """Numbers of sites, of training cases of each site and of test cases."""

    num_sites: int
    images_per_site: int
    test_images: int


@dataclass(frozen=True)
class Drawing(ABC):
    """A kind of phantom; its fields say what is wrong with the sites' labels and are named like the settings' keys.

    Attributes:
        task: how settings name it.
        description: what describes the data of every site.
        storage: writes a case's files.
        size: how large a federation is where nobody says.
    """

    task: ClassVar[str]
    description: ClassVar[AnyDescription]
    storage: ClassVar[Storage]
    size: ClassVar[FederationSize]

    @property
    def made(self) -> str:
        """How the data are made, for their manifests."""
        return f"{PHANTOM} {self.task}"

    @property
    def options(self) -> str:
        """How the imperfection is drawn, where that is not part of it, for the federation's description."""
        return ""

    @property
    @abstractmethod
    def imperfection(self) -> str | None:
        """What is wrong with the sites' labels, as a federation's description has it; None for nothing."""

    @abstractmethod
    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's cases; labels without what is wrong with them are kept beside.

        Raises:
            DataError: if the imperfection cannot be used for this number of sites.
        """

    @abstractmethod
    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw the test set, in which no label is wrong."""
