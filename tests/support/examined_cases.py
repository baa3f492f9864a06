"""Cases of which everything is known: discs that a model sees where they are, annotated as a test wants it."""

import numpy as np

from fedannot.custom.audit.examined import ExaminedCase

SIZE = 64


def disc(centre, radius, size=SIZE):
    rows, columns = np.mgrid[:size, :size]
    return np.hypot(rows - centre[0], columns - centre[1]) - radius


def seen(*discs, size=SIZE, softness=1.0):
    """Probability of the foreground where a model sees discs, given as centre and radius."""
    distances = [disc(centre, radius, size) for centre, radius in discs] or [np.full((size, size), np.inf)]
    return 1 / (1 + np.exp(np.clip(np.min(distances, axis=0) / softness, -6, 6)))


def drawn(*discs, size=SIZE):
    """An annotation of discs."""
    mask = np.zeros((size, size), dtype=np.uint8)
    for centre, radius in discs:
        mask[disc(centre, radius, size) <= 0] = 1
    return mask


def examined(annotation, foreground, *, index=0, unit=None, spacing=None):
    """A case of one class, of one sample."""
    probabilities = np.stack([1 - foreground, foreground])[None]
    image = foreground[None, None].astype(np.float32)
    name = f"patient-{index:02}" if unit is None else unit
    return ExaminedCase(index, name, annotation[None], probabilities, image, spacing)


def site(count=12, seed=100):
    """Cases with a disc each, drawn where it is seen, but for small random offsets."""
    generator = np.random.default_rng(seed)
    cases = []
    for index in range(count):
        centre, radius = generator.uniform(20, 44, 2), generator.uniform(8, 13)
        annotation = drawn((centre, radius + 0.3 * generator.standard_normal()))
        cases.append(examined(annotation, seen((centre, radius)), index=index))
    return cases


def measured(kind, cases):
    """What a kind measures of cases, and what is typical among them."""
    result = [kind.suspicions(case) for case in cases]
    return result, kind.typical([item for of_case in result for item in of_case])


def scores(kind, cases):
    """The score of each case."""
    result, typical = measured(kind, cases)
    return [kind.of_case([kind.score(item, typical) for item in of_case]) for of_case in result]
