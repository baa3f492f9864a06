"""The embedded federation of volumes with several lesions, of which sites may leave some out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....transforms.phantoms.multi_lesion_phantom import SHAPE, SPACING, multi_lesion_phantom
from ...seeding import derive_seed
from ..datalist import TESTING, TRAINING
from ..description import SliceDescription
from ..federation import TEST_FOLDER, FederationDescription, write_federation
from ..manifest import Manifest, MissingLesionsManifest, write_manifest
from ..noise.choice import check_completeness, completeness_text, missing_lesions_seed
from ..whole_files import new_folder
from .lesions import check_counts, phantom_site_name, phantom_site_names
from .volume_files import PhantomVolume, write_phantom_volumes

_MADE = "phantom lesions3d"

DESCRIPTION = SliceDescription(size=SHAPE[:2], labels={0: 0, 1: 1}, classes=("lesion",))


def write_volume_federation(
    out: Path,
    *,
    num_sites: int = 4,
    completeness: Sequence[float] | None = None,
    seed: int = 0,
    volumes_per_site: int = 8,
    test_volumes: int = 8,
) -> None:
    """Write the whole federation: all sites and a test set that is annotated completely.

    Args:
        out: the federation's folder, absent or empty; it appears when everything is written.
        num_sites: number of sites K.
        completeness: share of each volume's lesions that a site annotates, one for every site; None for all lesions.
        seed: seed of everything random.
        volumes_per_site: training cases of each site.
        test_volumes: cases of the test set.

    Raises:
        DataError: if the folder holds files, a count is below 1 or the completeness cannot be used.
    """
    check_counts(num_sites=num_sites, volumes_per_site=volumes_per_site, test_volumes=test_volumes)
    check_completeness(completeness, num_sites)
    names = phantom_site_names(num_sites)
    with new_folder(out) as folder:
        for index, name in enumerate(names):
            write_volume_site(
                folder / name,
                index,
                num_sites=num_sites,
                completeness=completeness,
                seed=seed,
                num_volumes=volumes_per_site,
            )
        write_volume_test(folder / TEST_FOLDER, num_volumes=test_volumes, seed=seed)
        noise = None if completeness is None else completeness_text(completeness)
        write_federation(
            folder,
            FederationDescription(name="phantom-lesions3d", sites=names, noise=noise, made=f"{_MADE}, seed {seed}"),
        )


def write_volume_site(
    folder: Path,
    site_index: int,
    *,
    num_sites: int,
    completeness: Sequence[float] | None = None,
    seed: int = 0,
    num_volumes: int = 8,
) -> None:
    """Write one site, bit for bit as :func:`write_volume_federation` does; complete labels are kept beside.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        num_sites: number of sites of the federation.
        completeness: see :func:`write_volume_federation`.
        seed: seed of everything random.
        num_volumes: number of training cases.

    Raises:
        DataError: if the folder holds files, a number is out of range or the completeness cannot be used.
    """
    check_counts(num_sites=num_sites, num_volumes=num_volumes)
    name = phantom_site_name(site_index, num_sites)
    check_completeness(completeness, num_sites)
    drawn = _draw_volumes(seed, name, num_volumes)
    labels, missing = [mask for _, mask in drawn], None
    if completeness is not None:
        labels, missing = _incomplete(labels, completeness[site_index], seed, name)
    with new_folder(folder) as target:
        volumes = [
            PhantomVolume(image, label, complete) for (image, complete), label in zip(drawn, labels, strict=True)
        ]
        write_phantom_volumes(target, {TRAINING: volumes}, DESCRIPTION, SPACING)
        write_manifest(target, Manifest(made=_MADE, seed=seed, missing_lesions=missing))


def write_volume_test(folder: Path, *, num_volumes: int = 8, seed: int = 0) -> None:
    """Write the test set, with every lesion annotated.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        num_volumes: number of cases.
        seed: seed of everything random.

    Raises:
        DataError: if the folder holds files or the number is below 1.
    """
    check_counts(num_volumes=num_volumes)
    drawn = _draw_volumes(seed, TEST_FOLDER, num_volumes)
    with new_folder(folder) as target:
        volumes = [PhantomVolume(image, mask) for image, mask in drawn]
        write_phantom_volumes(target, {TESTING: volumes}, DESCRIPTION, SPACING)
        write_manifest(target, Manifest(made=_MADE, seed=seed))


_Volume = tuple[NDArray[np.float32], NDArray[np.bool_]]


def _draw_volumes(seed: int, part: str, count: int) -> list[_Volume]:
    """Every volume has a generator of its own, so that more volumes leave the first ones as they are."""
    return [
        multi_lesion_phantom(np.random.default_rng(derive_seed(seed, _MADE, part, index))) for index in range(count)
    ]


def _incomplete(
    masks: Sequence[NDArray[np.bool_]], completeness: float, seed: int, site: str
) -> tuple[list[NDArray[np.bool_]], MissingLesionsManifest]:
    # Complete phantoms need no MONAI.
    from ....transforms.noise.missing_lesions import DropLesions

    drop = DropLesions(completeness)
    labels, kept = [], []
    for index, mask in enumerate(masks):
        drop.set_random_state(seed=missing_lesions_seed(seed, "phantom", site, index))
        whole = mask.astype(np.uint8)
        params = drop.make_params(whole)
        labels.append(np.asarray(drop.apply_transform(whole, params)) != 0)
        kept.append(params.kept)
    return labels, MissingLesionsManifest.measured(completeness, zip(labels, masks, kept, strict=True))
