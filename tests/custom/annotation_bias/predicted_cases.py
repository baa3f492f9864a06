"""Cases of which everything is known: discs and balls, annotated by a known offset from what is predicted."""

import numpy as np

from fedannot.custom.annotation_bias.cases import PredictedCase


def distance_from(centre, shape, spacing):
    axes = np.meshgrid(*(np.arange(n) * s for n, s in zip(shape, spacing, strict=True)), indexing="ij")
    return np.sqrt(sum((axis - at) ** 2 for axis, at in zip(axes, centre, strict=True)))


def sigmoid(values):
    return 1 / (1 + np.exp(-np.clip(values, -50, 50)))


def round_case(centre, radius, offset, *, shape=(64, 64), spacing=None, unit="patient", softness=1.0):
    """A disc or ball that the model sees with a radius, and that is annotated with the offset more."""
    distance = distance_from(centre, shape, spacing or (1.0,) * len(shape))
    foreground = sigmoid((radius - distance) / softness)
    return PredictedCase(
        unit, (distance <= radius + offset).astype(np.uint8), np.stack([1 - foreground, foreground]), spacing
    )


def site(offset, *, patients=12, spread=0.0, seed=100):
    """Cases of as many patients, with offsets from a normal distribution."""
    generator = np.random.default_rng(seed)
    return [
        round_case(
            generator.uniform(28, 36, 2),
            generator.uniform(10, 16),
            offset + spread * generator.standard_normal(),
            unit=f"patient-{index:02}",
        )
        for index in range(patients)
    ]


def case_of(annotation, predicted, confidence=0.9, unit="patient"):
    """A case of one class whose predicted pixels have a probability, and all others almost none."""
    foreground = np.where(np.asarray(predicted) > 0, confidence, 0.01)
    return PredictedCase(unit, np.asarray(annotation, dtype=np.uint8), np.stack([1 - foreground, foreground]))
