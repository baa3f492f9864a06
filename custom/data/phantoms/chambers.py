"""The embedded federation of centres that image a heart chamber differently and annotate it by different protocols."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....transforms.noise.site_protocol import SiteProtocol
from ....transforms.phantoms.chamber_phantom import SHAPE, SPACING, chamber_phantom, draw_centre_style
from ...seeding import derive_seed
from ..datalist import TESTING, TRAINING, VALIDATION
from ..description import SliceDescription
from ..federation import TEST_FOLDER, FederationDescription, write_federation
from ..manifest import Manifest, ProtocolManifest, write_manifest
from ..noise.choice import PROTOCOLS, protocol_seed, protocols_of_sites
from ..noise.effect import protocol_without_effect, report_no_effect
from ..whole_files import new_folder
from .lesions import check_counts, phantom_site_name, phantom_site_names
from .volume_files import PhantomVolume, write_phantom_volumes

_MADE = "phantom chambers3d"

# Centres that no site is: the test set is theirs.
_UNSEEN_CENTRES = ("unseen-1", "unseen-2")
# Cases that a site keeps from training, to see how well its own protocol is met.
_VALIDATION_VOLUMES = 6

DESCRIPTION = SliceDescription(size=SHAPE[:2], labels={0: 0, 1: 1}, classes=("chamber",))

_Drawn = tuple[NDArray[np.float32], NDArray[np.bool_]]


def write_chamber_federation(
    out: Path,
    *,
    num_sites: int = 4,
    protocols: str | None = None,
    seed: int = 0,
    volumes_per_site: int = 8,
    test_volumes: int = 8,
) -> None:
    """Write the whole federation: all sites, and a test set of centres that are none of them.

    Every centre's images have a look of their own. A site's training labels have both parts of its protocol, its own
    six validation cases the systematic part alone; the test set has generic labels.

    Args:
        out: the federation's folder, absent or empty; it appears when everything is written.
        num_sites: number of sites K.
        protocols: the protocol of each site, ``0-0-C-D``, or of all; None for generic labels everywhere.
        seed: seed of everything random.
        volumes_per_site: training cases of each site.
        test_volumes: cases of the test set.

    Raises:
        DataError: if the folder holds files, a count is below 1, the protocols cannot be read or one changes nothing.
    """
    check_counts(num_sites=num_sites, volumes_per_site=volumes_per_site, test_volumes=test_volumes)
    names = phantom_site_names(num_sites)
    with new_folder(out) as folder:
        for index, name in enumerate(names):
            write_chamber_site(
                folder / name,
                index,
                num_sites=num_sites,
                protocols=protocols,
                seed=seed,
                num_volumes=volumes_per_site,
            )
        write_chamber_test(folder / TEST_FOLDER, num_volumes=test_volumes, seed=seed)
        noise = None if protocols is None else f"{PROTOCOLS} {protocols}"
        write_federation(
            folder,
            FederationDescription(name="phantom-chambers3d", sites=names, noise=noise, made=f"{_MADE}, seed {seed}"),
        )


def write_chamber_site(
    folder: Path,
    site_index: int,
    *,
    num_sites: int,
    protocols: str | None = None,
    seed: int = 0,
    num_volumes: int = 8,
) -> None:
    """Write one site, bit for bit as :func:`write_chamber_federation` does; generic labels are kept beside.

    Args:
        folder: the site's folder, absent or empty; it appears when everything is written.
        site_index: 0 for ``site-1``.
        num_sites: number of sites of the federation.
        protocols: see :func:`write_chamber_federation`.
        seed: seed of everything random.
        num_volumes: number of training cases.

    Raises:
        DataError: if the folder holds files, a number is out of range, the protocols cannot be read or this site's
            changes nothing.
    """
    check_counts(num_sites=num_sites, num_volumes=num_volumes)
    name = phantom_site_name(site_index, num_sites)
    protocol = SiteProtocol() if protocols is None else protocols_of_sites(protocols, num_sites)[site_index]
    sections = {
        section: _annotated(_draw_volumes(seed, name, section, count), protocol, seed, name, section)
        for section, count in ((TRAINING, num_volumes), (VALIDATION, _VALIDATION_VOLUMES))
    }
    pairs = {
        section: [(volume.label, volume.clean_label) for volume in volumes if volume.clean_label is not None]
        for section, volumes in sections.items()
    }
    together = [pair for of_section in pairs.values() for pair in of_section]
    if protocol.kind != "none" and all(np.array_equal(*pair) for pair in together):
        report_no_effect(name, str(protocol), len(together), protocol_without_effect(protocol, [SHAPE], is_empty=False))
    discs = [protocol.discs(SHAPE)]
    measured = None if protocols is None else ProtocolManifest.measured(protocol, pairs[TRAINING], discs)
    with new_folder(folder) as target:
        write_phantom_volumes(target, sections, DESCRIPTION, SPACING)
        write_manifest(target, Manifest(made=_MADE, seed=seed, protocol=measured))


def write_chamber_test(folder: Path, *, num_volumes: int = 8, seed: int = 0) -> None:
    """Write the test set, from unseen centres by turns and with generic labels.

    Args:
        folder: the test set's folder, absent or empty; it appears when everything is written.
        num_volumes: number of cases.
        seed: seed of everything random.

    Raises:
        DataError: if the folder holds files or the number is below 1.
    """
    check_counts(num_volumes=num_volumes)
    turns = len(_UNSEEN_CENTRES)
    drawn = {centre: _draw_volumes(seed, centre, TESTING, -(-num_volumes // turns)) for centre in _UNSEEN_CENTRES}
    volumes = [
        PhantomVolume(*drawn[centre][index // turns], source=centre)
        for index in range(num_volumes)
        for centre in [_UNSEEN_CENTRES[index % turns]]
    ]
    with new_folder(folder) as target:
        write_phantom_volumes(target, {TESTING: volumes}, DESCRIPTION, SPACING)
        write_manifest(target, Manifest(made=_MADE, seed=seed))


def _draw_volumes(seed: int, centre: str, section: str, count: int) -> list[_Drawn]:
    """Every volume has a generator of its own, so that more volumes leave the first ones as they are."""
    style = draw_centre_style(np.random.default_rng(derive_seed(seed, _MADE, centre, "style")))
    return [
        chamber_phantom(np.random.default_rng(derive_seed(seed, _MADE, centre, section, index)), style)
        for index in range(count)
    ]


def _annotated(
    drawn: Sequence[_Drawn], protocol: SiteProtocol, seed: int, site: str, section: str
) -> list[PhantomVolume]:
    """Annotate volumes by a protocol, for training with its random part."""
    # Generic labels need no MONAI.
    from ....transforms.noise.follow_protocol import FollowProtocol

    follow = FollowProtocol(protocol, systematic_only=section != TRAINING)
    volumes = []
    for index, (image, mask) in enumerate(drawn):
        follow.set_random_state(seed=protocol_seed(seed, "phantom", site, section, index))
        label = np.asarray(follow(mask.astype(np.uint8))) != 0
        volumes.append(PhantomVolume(image, label, clean_label=mask, source=site))
    return volumes
