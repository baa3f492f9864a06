"""Images of discs with annotations of a known bias, for the tests of the boundary profile."""

import numpy as np

from fedannot.custom.annotation_bias.profile.scales import ProfileCase


def disc_case(patient: str, bias: float, *, size: int = 64, radius: float = 10.0, seed: int = 0, noise: float = 0.2):
    """A bright disc with a blurred edge and noise, annotated too large by a bias."""
    generator = np.random.default_rng(seed)
    centre = size / 2 + generator.uniform(-2, 2, 2)
    away = np.hypot(*(np.indices((size, size)) - centre[:, None, None])) - radius
    image = 3.0 / (1.0 + np.exp(away)) + generator.normal(scale=noise, size=away.shape)
    return ProfileCase(patient, image[None].astype(np.float32), (away <= bias).astype(np.uint8))


def disc_sites(biases: dict[str, float], *, cases: int = 8, **options) -> dict[str, list[ProfileCase]]:
    """Sites of discs, each with a bias of its own."""
    return {
        site: [disc_case(f"p{case}", bias, seed=100 * index + case, **options) for case in range(cases)]
        for index, (site, bias) in enumerate(biases.items())
    }
