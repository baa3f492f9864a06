"""The phantom of cells in eight classes, rare and common ones, whose labels may be wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Classes
from ....transforms.noise.class_noise import ClassNoise
from ....transforms.phantoms.cell_phantom import CLASSES, SIDE, cell_phantom
from ....transforms.phantoms.lesion_phantom import reduce_image, to_grey_levels
from ...seeding import derive_seed
from ..datalist import TRAINING
from ..description import ClassificationDescription
from ..federation import TEST_FOLDER
from ..manifest import ClassNoiseManifest, Manifest
from ..noise.choice import LABELS, class_noise_of_sites
from ..noise.effect import UnchangedSite, report_unchanged_labels
from .drawing import Drawing, DrawnSite, FederationSize, PhantomSite
from .storage import DrawnCase, ImageStorage

_REDUCTION = 2
_TABLE = "cell-phantom"

# Of every shape one grade is common and the other rare.
_FREQUENCIES = (0.24, 0.08, 0.18, 0.07, 0.14, 0.05, 0.16, 0.08)
# A site's own frequencies come from a Dirichlet distribution around them, of this many cases' weight.
_CONCENTRATION = 40.0


@dataclass(frozen=True)
class Cells(Drawing):
    """Images of cells; every site has its own mix of classes, the test set has all of them alike.

    Args:
        label_noise: the noise of each site's labels, ``0-S40-P20-C20``, or of all, ``S40``; None leaves them right.
            Clinical noise takes another grade or the next shape of the nucleus.

    Example:
        >>> Cells(label_noise="0-S40-P20-C20").imperfection
        'labels 0-S40-P20-C20'
    """

    task = "cells2d"
    description = ClassificationDescription(channels=1, size=(SIDE // _REDUCTION, SIDE // _REDUCTION), classes=CLASSES)
    storage = ImageStorage("cell_{:04d}.png")
    size = FederationSize(num_sites=4, images_per_site=300, test_images=320)

    label_noise: str | None = None

    @property
    def imperfection(self) -> str | None:
        """The noise of the sites' labels."""
        return None if self.label_noise is None else f"{LABELS} {self.label_noise}"

    def draw_site(self, site: PhantomSite) -> DrawnSite:
        """Draw a site's mix of classes and its images; some get a wrong class."""
        generator = np.random.default_rng(derive_seed(site.seed, self.made, site.name, "classes"))
        mix = generator.dirichlet(_CONCENTRATION * np.array(_FREQUENCIES))
        true = [int(label) for label in generator.choice(len(CLASSES), site.num_images, p=mix)]
        given, measured = true, None
        if self.label_noise is not None:
            noise = class_noise_of_sites(self.label_noise, site.num_sites)[site.index]
            given = _mislabelled(true, noise, site)
            if noise.rate and given == true:
                # Every class becomes others in all three kinds of noise.
                report_unchanged_labels(UnchangedSite(site.name, str(noise), len(true)), can_change=True)
            measured = ClassNoiseManifest.measured(noise, list(zip(given, true, strict=True)))
        images = self._draw_images(true, site.seed, site.name)
        cases = [DrawnCase(*drawn) for drawn in zip(images, given, true, strict=True)]
        return DrawnSite({TRAINING: cases}, Manifest(made=self.made, seed=site.seed, class_noise=measured))

    def draw_test(self, num_images: int, seed: int) -> Sequence[DrawnCase]:
        """Draw images of all classes by turns."""
        labels = [index % len(CLASSES) for index in range(num_images)]
        images = self._draw_images(labels, seed, TEST_FOLDER)
        return [DrawnCase(image, label) for image, label in zip(images, labels, strict=True)]

    def _draw_images(self, labels: Sequence[int], seed: int, part: str) -> list[Classes]:
        """Every image has a generator of its own, so that more images leave the first ones as they are."""
        drawn = [
            cell_phantom(label, np.random.default_rng(derive_seed(seed, self.made, part, index)))
            for index, label in enumerate(labels)
        ]
        return [to_grey_levels(reduce_image(image, _REDUCTION)) for image in drawn]


def _mislabelled(labels: Sequence[int], noise: ClassNoise, site: PhantomSite) -> list[int]:
    # Right labels need no MONAI.
    from ..noise.mislabelled_copy import mislabelled  # noqa: PLC0415

    return mislabelled(labels, CLASSES, noise, _TABLE, site.seed, "phantom", site.name)
