"""The embedded federation that a job's settings ask for: whole, a site's own part, or the test set."""

from dataclasses import fields
from pathlib import Path

from ..description import AnyDescription
from .cells import Cells
from .chambers import Chambers
from .drawing import Drawing
from .lesion_images import LesionImages
from .lesion_volumes import LesionVolumes
from .settings import EmbeddedSettings
from .writer import write_phantom_federation, write_phantom_site, write_phantom_test

# By `embedded.task`.
DRAWINGS: dict[str, type[Drawing]] = {
    "lesions2d": LesionImages,
    "lesions3d": LesionVolumes,
    "chambers3d": Chambers,
    "cells2d": Cells,
}


def embedded_drawing(embedded: EmbeddedSettings) -> Drawing:
    """Return which phantom the settings ask for, with what is wrong with its labels."""
    kind = DRAWINGS[embedded.task]
    return kind(**{field.name: getattr(embedded, field.name) for field in fields(kind)})


def embedded_description(embedded: EmbeddedSettings) -> AnyDescription:
    """Return what describes the data of every site of the federation."""
    return DRAWINGS[embedded.task].description


def write_embedded_federation(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write all sites and the clean test set.

    Args:
        folder: the federation's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    write_phantom_federation(
        folder,
        embedded_drawing(embedded),
        num_sites=embedded.sites,
        seed=embedded.seed,
        images_per_site=embedded.images_per_site,
        test_images=embedded.test_images,
    )


def write_embedded_site(folder: Path, site_index: int, embedded: EmbeddedSettings) -> None:
    """Write one site, bit for bit as :func:`write_embedded_federation` does.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files or there is no such site.
    """
    write_phantom_site(
        folder,
        site_index,
        embedded_drawing(embedded),
        num_sites=embedded.sites,
        seed=embedded.seed,
        num_images=embedded.images_per_site,
    )


def write_embedded_test(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write the test set, with clean labels.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    write_phantom_test(folder, embedded_drawing(embedded), seed=embedded.seed, num_images=embedded.test_images)
