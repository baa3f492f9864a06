"""The phantom of volumes with several lesions, of which sites may leave some out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, SingleFloats
from ....transforms.phantoms.multi_lesion_phantom import SHAPE, SPACING, multi_lesion_phantom
from ...seeding import derive_seed
from ..datalist import TRAINING
from ..description import SliceDescription
from ..federation import TEST_FOLDER
from ..manifest import Manifest, MissingLesionsManifest
from ..noise.choice import COMPLETENESS, check_completeness, completeness_text, missing_lesions_seed
from ..noise.effect import UnchangedSite, refuse_unchanged_completeness
from .drawing import Drawing, DrawnSite, FederationSize, PhantomSite
from .storage import DrawnCase, VolumeStorage


@dataclass(frozen=True)
class LesionVolumes(Drawing):
    """Volumes with several lesions.

    Args:
        completeness: fraction of each volume's lesions that a site annotates, one for every site; None for all lesions.

    Example:
        >>> LesionVolumes(completeness=(0.4, 0.6, 0.8, 1.0)).imperfection
        'completeness 0.4,0.6,0.8,1'
    """

    task = "lesions3d"
    description = SliceDescription(size=SHAPE[:2], labels={0: 0, 1: 1}, classes=("lesion",))
    storage = VolumeStorage("volume_{:03d}.nii.gz", SPACING)
    size = FederationSize(num_sites=4, images_per_site=8, test_images=8)

    completeness: Sequence[float] | None = None

    @property
    def imperfection(self) -> str | None:
        """The fractions of lesions that sites annotate."""
        return None if self.completeness is None else completeness_text(self.completeness)

    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's volumes; labels lack what its completeness leaves out."""
        check_completeness(self.completeness, site.num_sites)
        drawn = self._draw_volumes(site.seed, site.name, site.num_images)
        labels, missing = [mask for _, mask in drawn], None
        if self.completeness is not None:
            labels, missing = _incomplete(labels, self.completeness[site.index], site)
        cases = [DrawnCase(image, label, complete) for (image, complete), label in zip(drawn, labels, strict=True)]
        return DrawnSite({TRAINING: cases}, Manifest(made=self.made, seed=site.seed, missing_lesions=missing))

    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw volumes in which every lesion is annotated."""
        return [DrawnCase(image, mask) for image, mask in self._draw_volumes(seed, TEST_FOLDER, num_images)]

    def _draw_volumes(self, seed: int, part: str, count: int) -> list[tuple[SingleFloats, Booleans]]:
        """Every volume has a generator of its own, so that more volumes leave the first ones as they are."""
        return [
            multi_lesion_phantom(np.random.default_rng(derive_seed(seed, self.made, part, index)))
            for index in range(count)
        ]


def _incomplete(
    masks: Sequence[Booleans], completeness: float, site: PhantomSite
) -> tuple[list[Booleans], MissingLesionsManifest]:
    # Complete phantoms need no MONAI.
    from ....transforms.noise.missing_lesions import DropLesions  # noqa: PLC0415

    drop = DropLesions(completeness)
    labels, kept = [], []
    for index, mask in enumerate(masks):
        drop.set_random_state(seed=missing_lesions_seed(site.seed, "phantom", site.name, index))
        whole = mask.astype(np.uint8)
        params = drop.make_params(whole)
        labels.append(np.asarray(drop.apply_transform(whole, params)) != 0)
        kept.append(params.kept)
    if completeness < 1 and all(np.array_equal(*pair) for pair in zip(labels, masks, strict=True)):
        unchanged = UnchangedSite(site.name, f"{COMPLETENESS} {completeness:g}", len(masks))
        refuse_unchanged_completeness(unchanged, completeness, [len(lesions) for lesions in kept])
    return labels, MissingLesionsManifest.measured(completeness, zip(labels, masks, kept, strict=True))
