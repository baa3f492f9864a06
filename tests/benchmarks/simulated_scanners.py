"""Images as other scanners might have made them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_tables.rows import MakeData
from PIL import Image
from scipy import ndimage

from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.whole_files import private_file
from fedannot.custom.seeding import derive_seed
from fedannot.transforms.phantoms.smooth_noise import smooth_noise

Array = np.ndarray[Any, Any]
Change = Callable[[Array, np.random.Generator], Array]

# Pixels of the networks' images along the longer side.
_SIDE = 64
_FIELD_STRENGTH = 0.3
# What a site's scanner does to its images, one after the other: one of each line, drawn for each site.
STEPS = (
    ("", "bias field"),
    ("", "blur 0.5 px", "blur 1 px", "sharpened"),
    ("", "gamma 0.6", "gamma 1.5"),
    ("", "noise 0.1", "noise 0.3"),
)


def smoothed(image: Array, scale: float) -> Array:
    """Blur the samples of a case."""
    return ndimage.gaussian_filter(image, (0, 0) + (scale,) * (image.ndim - 2))


def to_power(image: Array, exponent: float) -> Array:
    """Raise intensities, brought to 0 … 1, to a power."""
    return ((image - image.min()) / (np.ptp(image) + 1e-9)) ** exponent


def with_bias_field(image: Array, generator: np.random.Generator) -> Array:
    """Multiply intensities, brought to 0 and more, by a smooth field of deviation 0.3 around 1."""
    side = max(image.shape[2:])
    field = np.exp(_FIELD_STRENGTH * smooth_noise(generator, [2 * length for length in image.shape[2:]], side / 3))
    return (image - image.min()) * field[tuple(slice(length) for length in image.shape[2:])]


def with_noise(image: Array, strength: float, generator: np.random.Generator, pixel: float) -> Array:
    """Add noise with the grain of the network's pixels."""
    if pixel <= 1:
        return image + strength * generator.standard_normal(image.shape)
    return image + strength * smooth_noise(generator, image.shape[2:], pixel / 2)


def another_scanner(kind: str, image: Array, generator: np.random.Generator, pixel: float = 1.0) -> Array:
    """Return a case ``(S, C, H, W[, D])`` as another scanner might have made it, with the same mean and deviation.

    Args:
        kind: what it does, one of the keys below.
        image: of a standard deviation of about 1.
        generator: gives everything random.
        pixel: how many pixels of the image are one of the network's.
    """
    changed = {
        "contrast 0.6": lambda: 0.6 * image,
        "gamma 0.6": lambda: to_power(image, 0.6),
        "gamma 1.5": lambda: to_power(image, 1.5),
        "bias field": lambda: with_bias_field(image, generator),
        "blur 0.5 px": lambda: smoothed(image, 0.5 * pixel),
        "blur 1 px": lambda: smoothed(image, pixel),
        "noise 0.1": lambda: with_noise(image, 0.1, generator, pixel),
        "noise 0.3": lambda: with_noise(image, 0.3, generator, pixel),
        "sharpened": lambda: 2 * image - smoothed(image, pixel),
        "inverted": lambda: -image,
    }[kind]()
    scale = image.std() / max(float(changed.std()), 1e-9)
    return ((changed - changed.mean()) * scale + image.mean()).astype(np.float32)


def scanners_of_sites(num_sites: int, seed: int) -> list[list[str]]:
    """Draw what the scanner of each site does; the first site's inverts as well."""
    generator = np.random.default_rng(derive_seed(seed, "scanners"))
    drawn = [[str(generator.choice(step)) for step in STEPS] for _ in range(num_sites)]
    drawn[0].append("inverted")
    return [[kind for kind in kinds if kind] for kinds in drawn]


def with_scanners(make: MakeData, *, gamma: bool = True) -> MakeData:
    """The same data, where every site's training images are of another scanner; images in grey, as PNG.

    Args:
        make: writes the data.
        gamma: whether scanners change the curve of intensities as well.
    """

    def make_scanned(folder: Path, seed: int) -> None:
        make(folder, seed)
        sites = read_federation(folder).sites
        for site, kinds in zip(sites, scanners_of_sites(len(sites), seed), strict=True):
            content = json.loads((folder / site / "datalist.json").read_text(encoding="utf-8"))
            for index, item in enumerate(content["training"]):
                generator = np.random.default_rng(derive_seed(seed, "scanner", site, index))
                used = [kind for kind in kinds if gamma or not kind.startswith("gamma")]
                _rewrite(folder / site / item["image"], used, generator)

    return make_scanned


def _rewrite(file: Path, kinds: Sequence[str], generator: np.random.Generator) -> None:
    pixels = np.asarray(Image.open(file).convert("L"), dtype=np.float64)
    mean, deviation = pixels.mean(), pixels.std()
    image = ((pixels - mean) / deviation)[None, None]
    for kind in kinds:
        image = another_scanner(kind, image, generator, max(pixels.shape) / _SIDE)
    levels = np.rint(mean + deviation * image[0, 0])
    Image.fromarray(np.clip(levels, 0, 255).astype(np.uint8)).save(private_file(file))
