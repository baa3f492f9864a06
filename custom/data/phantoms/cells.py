"""The embedded federation of cells in eight classes, rare and common ones, whose labels may be wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from ....transforms.noise.class_noise import ClassNoise
from ....transforms.phantoms.cell_phantom import CLASSES, SIDE, cell_phantom
from ....transforms.phantoms.lesion_phantom import reduce_image, to_grey_levels
from ...seeding import derive_seed
from ..datalist import TESTING, TRAINING, Case, write_datalist
from ..description import ClassificationDescription, write_site_description
from ..federation import TEST_FOLDER, FederationDescription, write_federation
from ..manifest import ClassNoiseManifest, Manifest, write_manifest
from ..noise.choice import LABELS, class_noise_of_sites
from ..whole_files import new_folder
from .lesions import check_counts, phantom_site_name, phantom_site_names

_MADE = "phantom cells2d"
_REDUCTION = 2
_TABLE = "cell-phantom"

DESCRIPTION = ClassificationDescription(channels=1, size=(SIDE // _REDUCTION, SIDE // _REDUCTION), classes=CLASSES)

# Of every shape one grade is common and the other rare.
_FREQUENCIES = (0.24, 0.08, 0.18, 0.07, 0.14, 0.05, 0.16, 0.08)
# A site's own frequencies come from a Dirichlet distribution around them, of this many cases' weight.
_CONCENTRATION = 40.0


def write_cell_federation(
    out: Path,
    *,
    num_sites: int = 4,
    label_noise: str | None = None,
    seed: int = 0,
    images_per_site: int = 300,
    test_images: int = 320,
) -> None:
    """Write the whole federation: all sites, each with its own mix of classes, and a test set with all of them alike.

    Args:
        out: the federation's folder, absent or empty; it appears when everything is written.
        num_sites: number of sites K.
        label_noise: the noise of each site's labels, ``0-S40-P20-C20``, or of all, ``S40``; None leaves them right.
            Clinical noise takes another grade or the next shape of the nucleus.
        seed: seed of everything random.
        images_per_site: training cases of each site.
        test_images: cases of the test set.

    Raises:
        DataError: if the folder holds files, a count is below 1 or the noise cannot be read.
    """
    check_counts(num_sites=num_sites, images_per_site=images_per_site, test_images=test_images)
    names = phantom_site_names(num_sites)
    with new_folder(out) as folder:
        for index, name in enumerate(names):
            write_cell_site(
                folder / name,
                index,
                num_sites=num_sites,
                label_noise=label_noise,
                seed=seed,
                num_images=images_per_site,
            )
        write_cell_test(folder / TEST_FOLDER, num_images=test_images, seed=seed)
        write_federation(
            folder,
            FederationDescription(
                name="phantom-cells2d",
                task="classification",
                sites=names,
                noise=None if label_noise is None else f"{LABELS} {label_noise}",
                made=f"{_MADE}, seed {seed}",
            ),
        )


def write_cell_site(
    folder: Path,
    site_index: int,
    *,
    num_sites: int,
    label_noise: str | None = None,
    seed: int = 0,
    num_images: int = 300,
) -> None:
    """Write one site, bit for bit as :func:`write_cell_federation` does; true labels are kept beside.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        num_sites: number of sites of the federation.
        label_noise: see :func:`write_cell_federation`.
        seed: seed of everything random.
        num_images: number of training cases.

    Raises:
        DataError: if the folder holds files, a number is out of range or the noise cannot be read.
    """
    check_counts(num_sites=num_sites, num_images=num_images)
    name = phantom_site_name(site_index, num_sites)
    noise = None if label_noise is None else class_noise_of_sites(label_noise, num_sites)[site_index]
    generator = np.random.default_rng(derive_seed(seed, _MADE, name, "classes"))
    mix = generator.dirichlet(_CONCENTRATION * np.array(_FREQUENCIES))
    true = [int(label) for label in generator.choice(len(CLASSES), num_images, p=mix)]
    given = true if noise is None else _mislabelled(true, noise, seed, name)
    with new_folder(folder) as target:
        _write_cases(target, TRAINING, given, true, seed, name)
        measured = None if noise is None else ClassNoiseManifest.measured(noise, list(zip(given, true, strict=True)))
        write_manifest(target, Manifest(made=_MADE, seed=seed, class_noise=measured))


def write_cell_test(folder: Path, *, num_images: int = 320, seed: int = 0) -> None:
    """Write the test set, in which all classes are as frequent and no label is wrong.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        num_images: number of cases.
        seed: seed of everything random.

    Raises:
        DataError: if the folder holds files or the number is below 1.
    """
    check_counts(num_images=num_images)
    labels = [index % len(CLASSES) for index in range(num_images)]
    with new_folder(folder) as target:
        _write_cases(target, TESTING, labels, labels, seed, TEST_FOLDER, keep_clean=False)
        write_manifest(target, Manifest(made=_MADE, seed=seed))


def _mislabelled(labels: Sequence[int], noise: ClassNoise, seed: int, site: str) -> list[int]:
    # Right labels need no MONAI.
    from ..noise.mislabelled_copy import mislabelled

    return mislabelled(labels, CLASSES, noise, _TABLE, seed, "phantom", site)


def _write_cases(
    folder: Path,
    section: str,
    given: Sequence[int],
    true: Sequence[int],
    seed: int,
    part: str,
    *,
    keep_clean: bool = True,
) -> None:
    """Every image has a generator of its own, so that more images leave the first ones as they are."""
    (folder / "images").mkdir()
    cases = []
    for index, (label, clean_label) in enumerate(zip(given, true, strict=True)):
        image = cell_phantom(clean_label, np.random.default_rng(derive_seed(seed, _MADE, part, index)))
        file = folder / "images" / f"cell_{index + 1:04d}.png"
        Image.fromarray(to_grey_levels(reduce_image(image, _REDUCTION))).save(file)
        cases.append(Case(image=file, label=label, clean_label=clean_label if keep_clean else None))
    write_datalist(folder / DESCRIPTION.datalist, {section: cases})
    write_site_description(folder, DESCRIPTION)
