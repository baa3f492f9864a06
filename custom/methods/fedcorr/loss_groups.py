"""Which of a site's labels are noisy: two groups by their losses, and how large the losses of some of them are."""

import math

import numpy as np

from ....transforms.array_types import Booleans, Floats
from ...mixtures.fit import fit_mixtures
from ...mixtures.gaussians import DiagonalGaussians

# Added to variances, and the mean gain in log density that is the last: scikit-learn's.
_FLOOR = 1e-6
_TOLERANCE = 1e-3


def higher_losses(losses: Floats) -> Booleans:
    """Return which losses are of the higher of two groups, ``(N,)``; none where all are equal.

    The groups are the components of a mixture of two Gaussians, which starts from 2-means. There is no test whether
    there are two: other losses always have a higher group.

    Args:
        losses: finite, ``(N,)``.
    """
    nothing = np.zeros(len(losses), dtype=np.bool_)
    if len(losses) < 2 or losses.min() == losses.max():
        return nothing
    gaussians = DiagonalGaussians.of_samples(losses[None, :, None], _FLOOR)
    above = losses > _lower_of_two_means(losses)

    def has_converged(before: Floats, after: Floats) -> Booleans:
        small: Booleans = np.abs(after - before) < _TOLERANCE * len(losses)
        return small

    start = gaussians.maximise(np.stack([~above, above]).astype(np.float64)[None, None])
    fit = fit_mixtures(gaussians, start, has_converged)
    if not np.isfinite(fit.means).all():
        return nothing
    higher = int(fit.means[0, :, 0].argmax())
    result: Booleans = fit.posteriors[0, higher] > fit.posteriors[0, 1 - higher]
    return result


def _lower_of_two_means(losses: Floats) -> float:
    """The largest loss of the lower group of 2-means; of numbers its best division is found among all."""
    ordered = np.sort(losses)
    sums, counts = np.cumsum(ordered)[:-1], np.arange(1, len(ordered))
    # What remains of the squares is least where this is most.
    explained = sums**2 / counts + (ordered.sum() - sums) ** 2 / counts[::-1]
    explained[ordered[1:] == ordered[:-1]] = -np.inf
    return float(ordered[explained.argmax()])


def least_loss(losses: Floats, share: float) -> float:
    """Return the smallest of the ⌊share · N⌋ largest losses; infinity where they are none.

    Losses of which no more than these may be so large: of equal ones that would be more, none counts.

    Example:
        >>> least_loss(np.array([0.1, 0.7, 0.2, 0.9]), 0.5)
        0.7
        >>> least_loss(np.array([0.1, 0.7, 0.7, 0.9]), 0.5)
        0.9
    """
    # Rounded, so that 0.29 of 100 are 29.
    number = math.floor(round(share * len(losses), 9))
    ordered = np.sort(losses)
    rest, largest = ordered[: len(losses) - number], ordered[len(losses) - number :]
    allowed = largest[largest > rest[-1]] if len(rest) else largest
    return float(allowed[0]) if len(allowed) else math.inf
