"""The embedded phantom federation: every site can write its own part, the same bits as in the whole."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ....transforms.errors import DataError
from ....transforms.noise.federation_noise import ContourNoise
from ....transforms.phantoms.lesion_phantom import SIDE, lesion_phantom, reduce_image, reduce_mask, to_grey_levels
from ...seeding import derive_seed
from ..datalist import TESTING, TRAINING, Case, write_datalist
from ..description import ImageDescription, write_site_description
from ..federation import TEST_FOLDER, FederationDescription, write_federation
from ..manifest import Manifest, measured_noise, write_manifest
from ..noise.choice import NoiseChoice, contour_noise_seed
from ..whole_files import new_folder

_REDUCTION = 4
_MADE = "phantom lesions2d"

DESCRIPTION = ImageDescription(
    channels=1, size=(SIDE // _REDUCTION, SIDE // _REDUCTION), labels={0: 0, 255: 1}, classes=("lesion",)
)


def phantom_site_names(num_sites: int) -> tuple[str, ...]:
    """Return the names of the embedded sites, ``site-1`` to ``site-K``."""
    return tuple(f"site-{index + 1}" for index in range(num_sites))


def phantom_site_name(site_index: int, num_sites: int) -> str:
    """Return the name of an embedded site, ``site-1`` for 0.

    Raises:
        DataError: if there is no such site.
    """
    if not 0 <= site_index < num_sites:
        raise DataError(f"Phantom: found site_index={site_index}, expected 0 to {num_sites - 1}.")
    return phantom_site_names(num_sites)[site_index]


def write_phantom_federation(
    out: Path,
    *,
    num_sites: int = 10,
    noise: str | None = None,
    exact: bool = False,
    stratified: float | None = None,
    seed: int = 0,
    images_per_site: int | Sequence[int] = 12,
    test_images: int = 50,
) -> None:
    """Write the whole phantom federation: all sites and a clean test set.

    Args:
        out: the federation's folder, absent or empty; it appears when everything is written.
        num_sites: number of sites K.
        noise: contour noise, ``M(25,-25,10,0.2)``; None leaves the labels clean.
        exact: see :class:`NoiseChoice`.
        stratified: see :class:`NoiseChoice`.
        seed: seed of everything random.
        images_per_site: training cases of each site, one number for all or one for each.
        test_images: cases of the test set.

    Raises:
        DataError: if the folder holds files, a count is below 1 or the noise cannot be read.
        ValueError: if there is not a number of images for every site.
    """
    counts = [images_per_site] * num_sites if isinstance(images_per_site, int) else list(images_per_site)
    check_counts(num_sites=num_sites, images_per_site=min(counts, default=1), test_images=test_images)
    names = phantom_site_names(num_sites)
    with new_folder(out) as folder:
        for index, (name, count) in enumerate(zip(names, counts, strict=True)):
            write_phantom_site(
                folder / name,
                index,
                num_sites=num_sites,
                noise=noise,
                exact=exact,
                stratified=stratified,
                seed=seed,
                num_images=count,
            )
        write_phantom_test(folder / TEST_FOLDER, num_images=test_images, seed=seed)
        drawn = f", {'exact count, ' if exact else ''}{'' if stratified is None else f'stratified from {stratified}, '}"
        made = f"{_MADE}{drawn.rstrip(', ') if noise else ''}, seed {seed}"
        write_federation(folder, FederationDescription(name="phantom-lesions2d", sites=names, noise=noise, made=made))


def write_phantom_site(
    folder: Path,
    site_index: int,
    *,
    num_sites: int,
    noise: str | None = None,
    exact: bool = False,
    stratified: float | None = None,
    seed: int = 0,
    num_images: int = 12,
) -> None:
    """Write one site of the phantom federation, bit for bit as :func:`write_phantom_federation` does.

    Noise is drawn on the masks of 256 × 256 pixels, which are then reduced to 64 × 64 like the images; the clean labels
    are kept beside.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        num_sites: number of sites of the federation, from which the site's noise follows.
        noise: see :func:`write_phantom_federation`.
        exact: see :class:`NoiseChoice`.
        stratified: see :class:`NoiseChoice`.
        seed: seed of everything random.
        num_images: number of training cases.

    Raises:
        DataError: if the folder holds files, a number is out of range or the noise cannot be read.
    """
    check_counts(num_sites=num_sites, num_images=num_images)
    name = phantom_site_name(site_index, num_sites)
    choice = None if noise is None else NoiseChoice(noise, exact, stratified)
    site_noise = None if choice is None else choice.draw(num_sites, seed)[site_index]
    images, clean = _draw_cases(seed, name, num_images)
    given = clean if site_noise is None else _with_noise(clean, site_noise, seed, site_index)
    labels, clean_labels = ([reduce_mask(mask, _REDUCTION) for mask in masks] for masks in (given, clean))
    with new_folder(folder) as target:
        _write_cases(target, TRAINING, images, labels, clean_labels)
        measured = None
        if choice is not None and site_noise is not None:
            pairs = zip(labels, clean_labels, strict=True)
            measured = measured_noise(pairs, site_noise, model=choice.model, exact=exact, stratified=stratified)
        write_manifest(target, Manifest(made=_MADE, seed=seed, noise=measured))


def write_phantom_test(folder: Path, *, num_images: int = 50, seed: int = 0) -> None:
    """Write the clean test set of the phantom federation.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        num_images: number of cases.
        seed: seed of everything random.

    Raises:
        DataError: if the folder holds files or the number is below 1.
    """
    check_counts(num_images=num_images)
    images, masks = _draw_cases(seed, TEST_FOLDER, num_images)
    with new_folder(folder) as target:
        _write_cases(target, TESTING, images, [reduce_mask(mask, _REDUCTION) for mask in masks])
        write_manifest(target, Manifest(made=_MADE, seed=seed))


def _draw_cases(seed: int, part: str, count: int) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.bool_]]]:
    """Images as they are written, and masks before they are reduced; every case has a generator of its own."""
    drawn = [lesion_phantom(np.random.default_rng(derive_seed(seed, "phantom", part, index))) for index in range(count)]
    return [to_grey_levels(reduce_image(image, _REDUCTION)) for image, _ in drawn], [mask for _, mask in drawn]


def _with_noise(
    masks: Sequence[NDArray[np.bool_]], noise: ContourNoise, seed: int, site_index: int
) -> list[NDArray[np.bool_]]:
    # Clean phantoms need no MONAI.
    from ....transforms.noise.contour_evolution import ContourEvolution

    evolution = ContourEvolution(noise.mean, noise.spread)
    noisy: list[NDArray[np.bool_]] = []
    for index, mask in enumerate(masks):
        evolution.set_random_state(seed=contour_noise_seed(seed, "phantom", site_index, index))
        noisy.append(np.asarray(evolution(mask.astype(np.uint8))) != 0)
    return noisy


def _write_cases(
    folder: Path,
    section: str,
    images: Sequence[NDArray[np.uint8]],
    labels: Sequence[NDArray[np.bool_]],
    clean_labels: Sequence[NDArray[np.bool_]] | None = None,
) -> None:
    def write(kind: str, index: int, pixels: NDArray[np.uint8]) -> Path:
        file = folder / kind / f"lesion_{index + 1:03d}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(file)
        return file

    def write_mask(kind: str, index: int, mask: NDArray[np.bool_]) -> Path:
        return write(kind, index, mask.astype(np.uint8) * 255)

    cases = [
        Case(
            image=write("images", index, image),
            label=write_mask("labels", index, labels[index]),
            clean_label=None if clean_labels is None else write_mask("clean_labels", index, clean_labels[index]),
        )
        for index, image in enumerate(images)
    ]
    write_datalist(folder / DESCRIPTION.datalist, {section: cases})
    write_site_description(folder, DESCRIPTION)


def check_counts(**counts: int) -> None:
    """Check numbers of sites or cases.

    Raises:
        DataError: if one is below 1; the text names it.
    """
    for name, count in counts.items():
        if count < 1:
            raise DataError(f"Phantom: found {name}={count}, expected at least 1.")
