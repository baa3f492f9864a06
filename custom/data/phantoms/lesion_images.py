"""The phantom of images with one lesion, whose contours may have noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Classes
from ....transforms.noise.federation_noise import ContourNoise
from ....transforms.noise.site_protocol import mask_scale
from ....transforms.phantoms.lesion_phantom import SIDE, lesion_phantom, reduce_image, reduce_mask, to_grey_levels
from ...seeding import derive_seed
from ..datalist import TRAINING
from ..description import ImageDescription
from ..federation import TEST_FOLDER
from ..manifest import Manifest, measured_noise
from ..noise.choice import NoiseChoice, contour_noise_seed
from ..noise.effect import UnchangedSite, report_unchanged_contours
from .drawing import Drawing, DrawnSite, FederationSize, PhantomSite
from .storage import DrawnCase, ImageStorage

_REDUCTION = 4


@dataclass(frozen=True)
class LesionImages(Drawing):
    """Images with one lesion.

    Noise is drawn on masks of 256 × 256 pixels, which are then reduced to 64 × 64 like the images.

    Args:
        noise: contour noise, ``M(25,-25,10,0.2)``; None leaves the labels clean.
        exact: see :class:`fedannot.custom.data.noise.choice.NoiseChoice`.
        stratified: as above.

    Example:
        >>> LesionImages(noise="M(25,-25,10,0.25)", exact=True, stratified=0.5).imperfection
        'M(25,-25,10,0.25)'
    """

    task = "lesions2d"
    description = ImageDescription(
        channels=1, size=(SIDE // _REDUCTION, SIDE // _REDUCTION), labels={0: 0, 255: 1}, classes=("lesion",)
    )
    storage = ImageStorage("lesion_{:03d}.png")
    size = FederationSize(num_sites=10, images_per_site=12, test_images=50)

    noise: str | None = None
    exact: bool = False
    stratified: float | None = None

    @property
    def imperfection(self) -> str | None:
        """The contour noise."""
        return self.noise

    @property
    def options(self) -> str:
        """How the noise is drawn for the sites."""
        if self.noise is None:
            return ""
        stratified = "" if self.stratified is None else f", stratified from {self.stratified}"
        return (", exact count" if self.exact else "") + stratified

    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's images and its labels with noise."""
        choice = None if self.noise is None else NoiseChoice(self.noise, self.exact, self.stratified)
        images, clean = _draw_images(site.seed, site.name, site.num_images)
        if choice is None:
            labels, measured = _reduced(clean), None
        else:
            noise = choice.draw(site.num_sites, site.seed)[site.index]
            labels = _reduced(_with_noise(clean, noise, site))
            pairs = list(zip(labels, _reduced(clean), strict=True))
            _check_effect(pairs, choice, noise, site.name)
            measured = measured_noise(pairs, noise, model=choice.model, exact=self.exact, stratified=self.stratified)
        cases = [DrawnCase(*drawn) for drawn in zip(images, labels, _reduced(clean), strict=True)]
        return DrawnSite({TRAINING: cases}, Manifest(made=self.made, seed=site.seed, noise=measured))

    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw images with clean labels."""
        images, masks = _draw_images(seed, TEST_FOLDER, num_images)
        return [DrawnCase(image, mask) for image, mask in zip(images, _reduced(masks), strict=True)]


def _draw_images(seed: int, part: str, count: int) -> tuple[list[Classes], list[Booleans]]:
    """Images as they are written, and masks before they are reduced; every image has a generator of its own."""
    drawn = [lesion_phantom(np.random.default_rng(derive_seed(seed, "phantom", part, index))) for index in range(count)]
    return [to_grey_levels(reduce_image(image, _REDUCTION)) for image, _ in drawn], [mask for _, mask in drawn]


def _reduced(masks: Sequence[Booleans]) -> list[Booleans]:
    return [reduce_mask(mask, _REDUCTION) for mask in masks]


def _check_effect(
    pairs: Sequence[tuple[Booleans, Booleans]], choice: NoiseChoice, noise: ContourNoise, site: str
) -> None:
    """Refuse noise that can move no contour of a site's reduced masks; warn where a site drew too little."""
    asked = choice.asked_for(noise)
    if asked is not None and all(np.array_equal(*pair) for pair in pairs):
        # It is drawn on the masks before they are reduced.
        unchanged = UnchangedSite(site, asked, len(pairs))
        report_unchanged_contours(unchanged, choice.limit, [mask_scale((SIDE, SIDE))], is_empty=False)


def _with_noise(masks: Sequence[Booleans], noise: ContourNoise, site: PhantomSite) -> list[Booleans]:
    # Clean phantoms need no MONAI.
    from ....transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

    evolution = ContourEvolution(noise.mean, noise.spread)
    noisy: list[Booleans] = []
    for index, mask in enumerate(masks):
        evolution.set_random_state(seed=contour_noise_seed(site.seed, "phantom", site.index, index))
        noisy.append(np.asarray(evolution(mask.astype(np.uint8))) != 0)
    return noisy
