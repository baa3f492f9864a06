"""The embedded federation that a job's settings ask for: whole, a site's own part, or the test set."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...settings import EmbeddedSettings
from ..description import AnyDescription
from .cells import DESCRIPTION as CELLS
from .cells import write_cell_federation, write_cell_site, write_cell_test
from .chambers import DESCRIPTION as CHAMBERS
from .chambers import write_chamber_federation, write_chamber_site, write_chamber_test
from .lesions import DESCRIPTION as LESIONS
from .lesions import write_phantom_federation, write_phantom_site, write_phantom_test
from .volumes import DESCRIPTION as VOLUMES
from .volumes import write_volume_federation, write_volume_site, write_volume_test


@dataclass(frozen=True)
class _Phantom:
    """What writes the phantom of a task, what the functions call its cases, and what describes them."""

    write_federation: Callable[..., None]
    write_site: Callable[..., None]
    write_test: Callable[..., None]
    cases: str
    description: AnyDescription


_PHANTOMS = {
    "lesions2d": _Phantom(write_phantom_federation, write_phantom_site, write_phantom_test, "images", LESIONS),
    "lesions3d": _Phantom(write_volume_federation, write_volume_site, write_volume_test, "volumes", VOLUMES),
    "chambers3d": _Phantom(write_chamber_federation, write_chamber_site, write_chamber_test, "volumes", CHAMBERS),
    "cells2d": _Phantom(write_cell_federation, write_cell_site, write_cell_test, "images", CELLS),
}


def embedded_description(embedded: EmbeddedSettings) -> AnyDescription:
    """Return what describes the data of every site of the federation."""
    return _PHANTOMS[embedded.task].description


def write_embedded_federation(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write all sites and the clean test set.

    Args:
        folder: the federation's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    phantom = _PHANTOMS[embedded.task]
    counts = {
        f"{phantom.cases}_per_site": embedded.images_per_site,
        f"test_{phantom.cases}": embedded.test_images,
    }
    phantom.write_federation(folder, **counts, **embedded.drawing)


def write_embedded_site(folder: Path, site_index: int, embedded: EmbeddedSettings) -> None:
    """Write one site, bit for bit as :func:`write_embedded_federation` does.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files or there is no such site.
    """
    phantom = _PHANTOMS[embedded.task]
    count = {f"num_{phantom.cases}": embedded.images_per_site}
    phantom.write_site(folder, site_index, **count, **embedded.drawing)


def write_embedded_test(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write the test set, with clean labels.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    phantom = _PHANTOMS[embedded.task]
    count = {f"num_{phantom.cases}": embedded.test_images}
    phantom.write_test(folder, **count, seed=embedded.seed)
