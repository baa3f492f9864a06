"""The phantom of centres that image a heart chamber differently and annotate it by different protocols."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, SingleFloats
from ....transforms.noise.site_protocol import SiteProtocol
from ....transforms.phantoms.chamber_phantom import SHAPE, SPACING, chamber_phantom, draw_centre_style
from ...seeding import derive_seed
from ..datalist import TESTING, TRAINING, VALIDATION
from ..description import SliceDescription
from ..manifest import Manifest, ProtocolManifest
from ..noise.choice import PROTOCOLS, protocol_seed, protocols_of_sites
from ..noise.effect import UnchangedSite, report_unchanged_protocol
from .drawing import Drawing, DrawnSite, FederationSize, PhantomSite
from .storage import DrawnCase, VolumeStorage

# Centres that no site is: the test set is theirs.
_UNSEEN_CENTRES = ("unseen-1", "unseen-2")
# Cases that a site keeps from training, to see how well its own protocol is met.
_VALIDATION_VOLUMES = 6

_Drawn = tuple[SingleFloats, Booleans]


@dataclass(frozen=True)
class Chambers(Drawing):
    """Volumes with a heart chamber; every centre's have a look of their own.

    A site's training labels have both parts of its protocol, its own six validation cases the systematic part alone;
    the test set is of centres that are no site and has generic labels.

    Args:
        protocols: the protocol of each site, ``0-0-C-D``, or of all; None for generic labels everywhere.

    Example:
        >>> Chambers(protocols="0-0-C-D").imperfection
        'protocols 0-0-C-D'
    """

    task = "chambers3d"
    description = SliceDescription(size=SHAPE[:2], labels={0: 0, 1: 1}, classes=("chamber",))
    storage = VolumeStorage("volume_{:03d}.nii.gz", SPACING)
    size = FederationSize(num_sites=4, images_per_site=8, test_images=8)

    protocols: str | None = None

    @property
    def imperfection(self) -> str | None:
        """The protocols of the sites."""
        return None if self.protocols is None else f"{PROTOCOLS} {self.protocols}"

    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's volumes and annotate them by its protocol.

        Raises:
            DataError: if the protocols cannot be read, or the site's changes nothing.
        """
        protocol = SiteProtocol()
        if self.protocols is not None:
            protocol = protocols_of_sites(self.protocols, site.num_sites)[site.index]
        drawn = {
            section: self._draw_volumes(site.seed, site.name, section, count)
            for section, count in ((TRAINING, site.num_images), (VALIDATION, _VALIDATION_VOLUMES))
        }
        labels = {
            section: _annotated([mask for _, mask in volumes], protocol, site, section)
            for section, volumes in drawn.items()
        }
        _check_effect(drawn, labels, protocol, site.name)
        measured = None
        if self.protocols is not None:
            generic = [mask for _, mask in drawn[TRAINING]]
            pairs = zip(labels[TRAINING], generic, strict=True)
            measured = ProtocolManifest.measured(protocol, pairs, [protocol.discs(SHAPE)])
        cases = {
            section: [
                DrawnCase(image, label, generic, source=site.name)
                for (image, generic), label in zip(volumes, labels[section], strict=True)
            ]
            for section, volumes in drawn.items()
        }
        return DrawnSite(cases, Manifest(made=self.made, seed=site.seed, protocol=measured))

    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw volumes from the unseen centres by turns, with generic labels."""
        turns = len(_UNSEEN_CENTRES)
        drawn = {
            centre: self._draw_volumes(seed, centre, TESTING, -(-num_images // turns)) for centre in _UNSEEN_CENTRES
        }
        return [
            DrawnCase(*drawn[centre][index // turns], source=centre)
            for index in range(num_images)
            for centre in [_UNSEEN_CENTRES[index % turns]]
        ]

    def _draw_volumes(self, seed: int, centre: str, section: str, count: int) -> list[_Drawn]:
        """Every volume has a generator of its own, so that more volumes leave the first ones as they are."""
        style = draw_centre_style(np.random.default_rng(derive_seed(seed, self.made, centre, "style")))
        return [
            chamber_phantom(np.random.default_rng(derive_seed(seed, self.made, centre, section, index)), style)
            for index in range(count)
        ]


def _annotated(masks: Sequence[Booleans], protocol: SiteProtocol, site: PhantomSite, section: str) -> list[Booleans]:
    """Annotate volumes by a protocol, for training with its random part."""
    # Generic labels need no MONAI.
    from ....transforms.noise.follow_protocol import FollowProtocol  # noqa: PLC0415

    follow = FollowProtocol(protocol, systematic_only=section != TRAINING)
    labels: list[Booleans] = []
    for index, mask in enumerate(masks):
        follow.set_random_state(seed=protocol_seed(site.seed, "phantom", site.name, section, index))
        labels.append(np.asarray(follow(mask.astype(np.uint8))) != 0)
    return labels


def _check_effect(
    drawn: Mapping[str, Sequence[_Drawn]],
    labels: Mapping[str, Sequence[Booleans]],
    protocol: SiteProtocol,
    site: str,
) -> None:
    """Refuse a protocol that changes no label of a site."""
    pairs = [
        (label, generic)
        for section, volumes in drawn.items()
        for (_, generic), label in zip(volumes, labels[section], strict=True)
    ]
    if protocol.kind != "none" and all(np.array_equal(*pair) for pair in pairs):
        unchanged = UnchangedSite(site, str(protocol), len(pairs))
        report_unchanged_protocol(unchanged, protocol, [SHAPE], is_empty=False)
