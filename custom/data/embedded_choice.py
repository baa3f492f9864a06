"""The embedded federation that a job's settings ask for: whole, a site's own part, or the test set."""

from pathlib import Path

from ..settings import EmbeddedSettings
from .embedded import write_phantom_federation, write_phantom_site, write_phantom_test
from .embedded_cells import write_cell_federation, write_cell_site, write_cell_test
from .embedded_volumes import write_volume_federation, write_volume_site, write_volume_test


def write_embedded_federation(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write all sites and the clean test set.

    Args:
        folder: the federation's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    images, tests = embedded.images_per_site, embedded.test_images
    if embedded.task == "lesions3d":
        write_volume_federation(folder, volumes_per_site=images, test_volumes=tests, **embedded.drawing)
    elif embedded.task == "cells2d":
        write_cell_federation(folder, images_per_site=images, test_images=tests, **embedded.drawing)
    else:
        write_phantom_federation(folder, images_per_site=images, test_images=tests, **embedded.drawing)


def write_embedded_site(folder: Path, site_index: int, embedded: EmbeddedSettings) -> None:
    """Write one site, bit for bit as :func:`write_embedded_federation` does.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files or there is no such site.
    """
    if embedded.task == "lesions3d":
        write_volume_site(folder, site_index, num_volumes=embedded.images_per_site, **embedded.drawing)
    elif embedded.task == "cells2d":
        write_cell_site(folder, site_index, num_images=embedded.images_per_site, **embedded.drawing)
    else:
        write_phantom_site(folder, site_index, num_images=embedded.images_per_site, **embedded.drawing)


def write_embedded_test(folder: Path, embedded: EmbeddedSettings) -> None:
    """Write the test set, with clean labels.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        embedded: the job's settings of the embedded federation.

    Raises:
        DataError: if the folder holds files.
    """
    if embedded.task == "lesions3d":
        write_volume_test(folder, num_volumes=embedded.test_images, seed=embedded.seed)
    elif embedded.task == "cells2d":
        write_cell_test(folder, num_images=embedded.test_images, seed=embedded.seed)
    else:
        write_phantom_test(folder, num_images=embedded.test_images, seed=embedded.seed)
