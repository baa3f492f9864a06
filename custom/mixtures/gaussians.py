"""Gaussians of a mixture, by form of covariance: parameters from posteriors, densities from parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from ...transforms.array_types import Booleans, Floats


@dataclass(frozen=True)
class Mixture:
    """Mixtures of M Gaussians in D dimensions, for each of N data sets and S starts.

    Attributes:
        weights: ``(N, S, M)``, of which those of a mixture sum to one.
        means: ``(N, S, M, D)``.
        covariances: ``(N, S, M, D, D)``, or the variances ``(N, S, M, D)`` where they are diagonal.
    """

    weights: Floats
    means: Floats
    covariances: Floats

    @classmethod
    def in_one_dimension(
        cls, weights: Sequence[float], means: Sequence[float], variances: Sequence[float]
    ) -> "Mixture":
        """Return the mixture of M Gaussians over a single number, for one data set and one start."""
        return cls(np.array([[weights]]), np.array([[means]])[..., None], np.array([[variances]])[..., None])


class Gaussians(Protocol):
    """The samples of N data sets, seen through Gaussians of one form of covariance."""

    @property
    def num_sets(self) -> int:
        """Number of data sets N."""

    @property
    def num_samples(self) -> int:
        """Number of samples K of each data set."""

    def only(self, sets: Booleans) -> Self:
        """Return the data sets chosen by ``(N,)``."""

    def maximise(self, posteriors: Floats) -> Mixture:
        """Return the most likely mixture for posteriors ``(N, S, M, K)``, the M step."""

    def log_densities(self, mixture: Mixture) -> Floats:
        """Return the log density of every sample under every Gaussian, ``(N, S, M, K)``."""


@dataclass(frozen=True)
class FullGaussians:
    """Gaussians with full covariance, for thousands of small data sets: moments and densities are matrix products.

    Attributes:
        monomials: (1, x, x xᵀ) of every sample, ``(N, K, 1 + D + D²)``.
        dimensions: D.
        floor: added to the diagonal of every covariance.
    """

    monomials: Floats
    dimensions: int
    floor: float

    @classmethod
    def of_samples(cls, samples: Floats, floor: float) -> Self:
        """Take samples ``(N, K, D)`` of unit scale: squares of them are subtracted from each other."""
        num_sets, num_samples, dimensions = samples.shape
        products = (samples[..., :, None] * samples[..., None, :]).reshape(num_sets, num_samples, dimensions**2)
        monomials = np.concatenate((np.ones((num_sets, num_samples, 1)), samples, products), axis=-1)
        return cls(monomials, dimensions, floor)

    @property
    def num_sets(self) -> int:
        """Number of data sets N."""
        return len(self.monomials)

    @property
    def num_samples(self) -> int:
        """Number of samples K of each data set."""
        return int(self.monomials.shape[1])

    def only(self, sets: Booleans) -> Self:
        """Return the data sets chosen by ``(N,)``."""
        return replace(self, monomials=self.monomials[sets])

    def maximise(self, posteriors: Floats) -> Mixture:
        """Return weights, means and floored covariances ``(N, S, M, D, D)`` for posteriors ``(N, S, M, K)``."""
        components, dimensions = posteriors.shape[:-1], self.dimensions
        moments = _by_set(posteriors) @ self.monomials
        counts = moments[..., :1] + 10 * np.finfo(np.float64).eps  # an empty component keeps a finite mean
        means = moments[..., 1 : 1 + dimensions] / counts
        second = (moments[..., 1 + dimensions :] / counts).reshape(*means.shape, dimensions)
        covariances = second - means[..., :, None] * means[..., None, :] + self.floor * np.eye(dimensions)
        return Mixture(
            (moments[..., 0] / self.num_samples).reshape(components),
            means.reshape(*components, dimensions),
            covariances.reshape(*components, dimensions, dimensions),
        )

    def log_densities(self, mixture: Mixture) -> Floats:
        """Return the log density of every sample under every Gaussian, ``(N, S, M, K)``, a quadratic form in it."""
        dimensions = self.dimensions
        means = mixture.means
        precisions, log_determinant = _invert(mixture.covariances)
        linear = (precisions @ means[..., None])[..., 0]
        constant = -0.5 * ((linear * means).sum(axis=-1) + log_determinant + dimensions * np.log(2 * np.pi))
        quadratic = -0.5 * precisions.reshape(*linear.shape[:-1], dimensions**2)
        coefficients = np.concatenate((constant[..., None], linear, quadratic), axis=-1)
        log_densities: Floats = _by_set(coefficients) @ self.monomials.swapaxes(-1, -2)
        return log_densities.reshape(*means.shape[:-1], self.num_samples)


@dataclass(frozen=True)
class DiagonalGaussians:
    """Gaussians with diagonal covariance, for few data sets of many samples: deviations are taken from the means.

    Attributes:
        values: ``(N, D, K)`` samples, which sums run along.
        floor: added to every variance.
    """

    values: Floats
    floor: float = 0.0

    @classmethod
    def of_samples(cls, samples: Floats, floor: float = 0.0) -> Self:
        """Take samples ``(N, K, D)``."""
        return cls(np.ascontiguousarray(samples.swapaxes(-1, -2)), floor)

    @property
    def num_sets(self) -> int:
        """Number of data sets N."""
        return len(self.values)

    @property
    def num_samples(self) -> int:
        """Number of samples K of each data set."""
        return int(self.values.shape[-1])

    def only(self, sets: Booleans) -> Self:
        """Return the data sets chosen by ``(N,)``."""
        return replace(self, values=self.values[sets])

    def maximise(self, posteriors: Floats) -> Mixture:
        """Return weights, means and variances ``(N, S, M, D)`` for posteriors ``(N, S, M, K)``."""
        counts = posteriors.sum(axis=-1)
        means = posteriors @ self.values[:, None].swapaxes(-1, -2) / counts[..., None]
        variances = (posteriors[..., None, :] * self._squares(means)).sum(axis=-1) / counts[..., None] + self.floor
        return Mixture(counts / self.num_samples, means, variances)

    def log_densities(self, mixture: Mixture) -> Floats:
        """Return the log density of every sample under every Gaussian, ``(N, S, M, K)``."""
        variances = mixture.covariances[..., None]
        terms = np.log(2 * np.pi * variances) + self._squares(mixture.means) / variances
        log_densities: Floats = -0.5 * terms.sum(axis=-2)
        return log_densities

    def _squares(self, means: Floats) -> Floats:
        """Squared deviations from the means, ``(N, S, M, D, K)``."""
        squares: Floats = (self.values[:, None, None] - means[..., None]) ** 2
        return squares


def _by_set(values: Floats) -> Floats:
    """``(N, S, M, ...)`` as ``(N, S M, ...)``, so that one product serves all starts of a data set."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def _invert(matrices: Floats) -> tuple[Floats, Floats]:
    """Return inverses and log determinants of positive definite matrices ``(..., D, D)``.

    Gauss-Jordan steps over all matrices together: many times faster than ``numpy.linalg`` for thousands of small ones.
    """
    work = np.moveaxis(matrices, (-2, -1), (0, 1)).copy()
    log_determinant = np.zeros(work.shape[2:])
    for pivot in range(len(work)):
        value = work[pivot, pivot].copy()
        log_determinant += np.log(value)
        row, column = work[pivot] / value, work[:, pivot].copy()
        work -= column[:, None] * row
        work[pivot], work[:, pivot] = row, -column / value
        work[pivot, pivot] = 1 / value
    return np.moveaxis(work, (0, 1), (-2, -1)), log_determinant
