"""Phantom federations written as files: every site can write its own part, the same bits as in the whole."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....transforms.errors import DataError
from ..datalist import TESTING, Case, write_datalist
from ..description import ClassificationDescription, write_site_description
from ..federation import TEST_FOLDER, FederationDescription, write_federation
from ..manifest import Manifest, write_manifest
from ..watch import Watch, watched
from ..whole_files import new_folder
from .drawing import Drawing, PhantomSite, phantom_site_names
from .storage import DrawnCase


def write_phantom_federation(
    out: Path,
    drawing: Drawing,
    *,
    num_sites: int | None = None,
    seed: int = 0,
    images_per_site: int | Sequence[int] | None = None,
    test_images: int | None = None,
    watch: Watch | None = None,
) -> None:
    """Write a whole phantom federation: all sites, and a test set in which no label is wrong.

    Args:
        out: the federation's folder, absent or empty; it appears when everything is written.
        drawing: which phantom, and what is wrong with its labels.
        num_sites: number of sites K; None for the drawing's own.
        seed: seed of everything random.
        images_per_site: training cases of each site, one number for all or one for each; None for the drawing's own.
        test_images: cases of the test set; None for the drawing's own.
        watch: learns which site is drawn.

    Raises:
        DataError: if the folder holds files, a count is below 1 or the imperfection cannot be used.
        ValueError: if there is not a number of images for every site.

    Example:
        >>> from fedannot.custom import LesionImages, read_federation
        >>> write_phantom_federation(Path("lesions"), LesionImages(), num_sites=2, images_per_site=2, test_images=1)
        >>> read_federation(Path("lesions")).sites
        ('site-1', 'site-2')
    """
    num_sites = drawing.size.num_sites if num_sites is None else num_sites
    test_images = drawing.size.test_images if test_images is None else test_images
    images = drawing.size.images_per_site if images_per_site is None else images_per_site
    counts = [images] * num_sites if isinstance(images, int) else list(images)
    _check_counts(num_sites=num_sites, images_per_site=min(counts, default=1), test_images=test_images)
    names = phantom_site_names(num_sites)
    with new_folder(out) as folder:
        of_sites = list(enumerate(zip(names, counts, strict=True)))
        for index, (name, count) in watched(of_sites, "Drawing the sites", watch):
            write_phantom_site(folder / name, index, drawing, num_sites=num_sites, seed=seed, num_images=count)
        write_phantom_test(folder / TEST_FOLDER, drawing, seed=seed, num_images=test_images)
        is_classified = isinstance(drawing.description, ClassificationDescription)
        write_federation(
            folder,
            FederationDescription(
                name=f"phantom-{drawing.task}",
                task="classification" if is_classified else "segmentation",
                sites=names,
                noise=drawing.imperfection,
                made=f"{drawing.made}{drawing.options}, seed {seed}",
            ),
        )


def write_phantom_site(
    folder: Path,
    site_index: int,
    drawing: Drawing,
    *,
    num_sites: int,
    seed: int = 0,
    num_images: int | None = None,
) -> None:
    """Write one site, bit for bit as :func:`write_phantom_federation` does.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        drawing: which phantom, and what is wrong with its labels.
        num_sites: number of sites of the federation, from which the site's imperfection follows.
        seed: seed of everything random.
        num_images: number of training cases; None for the drawing's own.

    Raises:
        DataError: if the folder holds files, a number is out of range or the imperfection cannot be used.
    """
    num_images = drawing.size.images_per_site if num_images is None else num_images
    _check_counts(num_sites=num_sites, num_images=num_images)
    drawn = drawing.draw_site(PhantomSite(site_index, num_sites, num_images, seed))
    _write_part(folder, drawing, drawn.sections, drawn.manifest)


def write_phantom_test(folder: Path, drawing: Drawing, *, seed: int = 0, num_images: int | None = None) -> None:
    """Write the test set, bit for bit as :func:`write_phantom_federation` does.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        drawing: which phantom.
        seed: seed of everything random.
        num_images: number of cases; None for the drawing's own.

    Raises:
        DataError: if the folder holds files or the number is below 1.
    """
    num_images = drawing.size.test_images if num_images is None else num_images
    _check_counts(num_images=num_images)
    cases = drawing.draw_test(num_images, seed)
    _write_part(folder, drawing, {TESTING: cases}, Manifest(made=drawing.made, seed=seed))


def _write_part(
    folder: Path, drawing: Drawing, sections: Mapping[str, Sequence[DrawnCase]], manifest: Manifest
) -> None:
    """Write the folder of a site or of the test set; cases are numbered through all sections."""
    with new_folder(folder) as target:
        stored: dict[str, list[Case]] = {}
        number = 0
        for section, cases in sections.items():
            stored[section] = []
            for case in cases:
                number += 1
                stored[section].append(drawing.storage.store(target, number, case))
        write_datalist(target / drawing.description.datalist, stored)
        write_site_description(target, drawing.description)
        write_manifest(target, manifest)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise DataError(f"Phantom: found {name}={count}, expected at least 1.")
