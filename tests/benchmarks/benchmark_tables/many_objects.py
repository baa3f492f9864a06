"""Pictures with many objects, of sites whose images look different: a phantom for the comparisons alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.federation import TEST_FOLDER
from fedannot.custom.data.manifest import Manifest
from fedannot.custom.data.phantoms.drawing import Drawing, DrawnSite, FederationSize, PhantomSite
from fedannot.custom.data.phantoms.storage import DrawnCase, ImageStorage
from fedannot.custom.seeding import derive_seed
from fedannot.transforms.array_types import Booleans, Floats
from fedannot.transforms.phantoms.smooth_noise import smooth_noise

SIDE = 96
_NUM_OBJECTS = (20, 40)
_RADIUS = (2.5, 6.0)
_STRETCH = (0.75, 1.3)
_TRIES = 200
_LEVEL, _GREY_PER_UNIT = 90.0, 45.0


@dataclass(frozen=True)
class Look:
    """How a site's images are taken.

    Attributes:
        contrast: of the objects over a background of deviation one half.
        blur: of the edges in pixels.
        noise: deviation of the white noise.
    """

    contrast: float
    blur: float
    noise: float


# A site each, by turns; the test set has all of them alike.
LOOKS = (Look(2.0, 0.6, 0.25), Look(1.2, 1.0, 0.3), Look(1.6, 1.4, 0.5), Look(1.0, 0.6, 0.4))


@dataclass(frozen=True)
class ManyObjects(Drawing):
    """Pictures of 96 × 96 pixels with 20 to 40 round objects apart from each other, everything annotated."""

    task = "objects2d"
    description = ImageDescription(channels=1, size=(SIDE, SIDE), labels={0: 0, 255: 1}, classes=("object",))
    storage = ImageStorage("picture_{:03d}.png")
    size = FederationSize(num_sites=4, images_per_site=10, test_images=16)

    @property
    def imperfection(self) -> str | None:
        """None: what is wrong with the labels is made in a copy."""
        return None

    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's pictures, all with its look."""
        look = LOOKS[site.index % len(LOOKS)]
        cases = [self._draw(site.seed, site.name, index, look) for index in range(site.num_images)]
        return DrawnSite({TRAINING: cases}, Manifest(made=self.made, seed=site.seed))

    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw pictures of all looks by turns."""
        return [self._draw(seed, TEST_FOLDER, index, LOOKS[index % len(LOOKS)]) for index in range(num_images)]

    def _draw(self, seed: int, part: str, index: int, look: Look) -> DrawnCase:
        image, mask = many_objects(np.random.default_rng(derive_seed(seed, self.made, part, index)), look)
        levels = np.clip(np.rint(_LEVEL + _GREY_PER_UNIT * image), 0, 255)
        return DrawnCase(levels.astype(np.uint8), mask, mask)


def many_objects(generator: np.random.Generator, look: Look) -> tuple[Floats, Booleans]:
    """Draw one picture and the mask of its objects, of which no two touch.

    Args:
        generator: gives everything random.
        look: how the image is taken.

    Returns:
        Image and boolean mask, ``(96, 96)`` both.
    """
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    image = 0.5 * smooth_noise(generator, (SIDE, SIDE), 6.0)
    for _ in range(generator.integers(*_NUM_OBJECTS, endpoint=True)):
        free = ~ndimage.binary_dilation(mask, structure=np.ones((3, 3), dtype=bool))
        for _ in range(_TRIES):
            result = _ellipse(generator)
            if free[result].all():
                mask |= result
                brightness = look.contrast * generator.uniform(0.8, 1.2)
                image += brightness * ndimage.gaussian_filter(result.astype(np.float64), look.blur)
                break
    return image + look.noise * generator.standard_normal((SIDE, SIDE)), mask


def _ellipse(generator: np.random.Generator) -> Booleans:
    radius = np.exp(generator.uniform(*np.log(_RADIUS)))
    radii = radius * generator.uniform(*_STRETCH, size=2)
    centre, angle = generator.uniform(4, SIDE - 5, size=2), generator.uniform(0, np.pi)
    rows, columns = np.mgrid[:SIDE, :SIDE] - centre.reshape(2, 1, 1)
    along, across = np.cos(angle) * rows + np.sin(angle) * columns, np.cos(angle) * columns - np.sin(angle) * rows
    return np.asarray((along / radii[0]) ** 2 + (across / radii[1]) ** 2 <= 1)
