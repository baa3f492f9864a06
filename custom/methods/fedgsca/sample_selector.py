"""Which of a site's labels look right: a mixture of two Gaussians over the losses of its samples (FedGSCA, GSS)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np

from ....transforms.array_types import Booleans, Floats
from ...mixtures.fit import fit_mixtures, posteriors_and_density
from ...mixtures.gaussians import DiagonalGaussians, Mixture

# A component whose variance or weight falls below has collapsed onto a few samples.
_SMALLEST_VARIANCE = 1e-8
_SMALLEST_PRIOR = 1e-3
_TOLERANCE = 1e-7

# A cross entropy is at most that of a probability of 1e-12.
SMALLEST_PROBABILITY = 1e-12
LARGEST_LOSS = -math.log(SMALLEST_PROBABILITY)
_ROUNDING = 1e-3

_EPSILON = 1e-6
_LARGEST_COEFFICIENT = 0.8


@dataclass(frozen=True)
class SampleSelector:
    """A mixture of two Gaussians over a loss of samples, S = (μ, σ², π) (FedGSCA, Eq. 1 and 2).

    The first component, with the smaller mean, is that of samples with right labels. Its six numbers
    leave a site, with the numbers of patients behind each component.

    Attributes:
        means: μ of both components, ascending.
        variances: σ².
        priors: π, sum 1.
    """

    means: tuple[float, float]
    variances: tuple[float, float]
    priors: tuple[float, float]

    @classmethod
    def start(cls, losses: Floats) -> SampleSelector:
        """Return where the fit of the first round begins: the lower and the upper half of the sorted losses.

        Args:
            losses: at least two, ``(N,)``.

        Raises:
            ValueError: if there are fewer.
        """
        if len(losses) < 2:
            raise ValueError(f"Expected at least two losses, but got {len(losses)}.")
        halves = np.array_split(np.sort(losses), 2)
        lower, upper = (float(half.mean()) for half in halves)
        variances = [max(float(half.var()), _SMALLEST_VARIANCE) for half in halves]
        return cls((lower, upper), (variances[0], variances[1]), (0.5, 0.5))

    @classmethod
    def pooled(cls, selectors: Mapping[str, SampleSelector], weights: Mapping[str, float]) -> SampleSelector:
        """Return the weighted mean of the sites' selectors; weights are their numbers of samples in FedGSCA, Eq. 4.

        Args:
            selectors: at least one; added in sorted order of the sites.
            weights: of each of them, positive; only their ratios count.
        """
        sites = sorted(selectors)
        counts = np.array([weights[site] for site in sites], dtype=np.float64)
        values = np.array([astuple(selectors[site]) for site in sites])
        means, variances, priors = np.einsum("k,kij->ij", counts / counts.sum(), values).tolist()
        return cls(tuple(means), tuple(variances), tuple(priors))

    @classmethod
    def of_lists(cls, means: list[float], variances: list[float], priors: list[float]) -> SampleSelector:
        """Build a selector from what was sent.

        Raises:
            ValueError: if there are not two finite numbers of each, means do not ascend or are not those of losses,
                variances are not positive or larger than those of losses, or priors are not shares that sum to one.
        """
        values = np.array([means, variances, priors], dtype=np.float64)
        if values.shape != (3, 2) or not np.isfinite(values).all() or not _could_be_fitted(values):
            raise ValueError(f"Expected a mixture of two components, but got {means=}, {variances=}, {priors=}.")
        return cls((means[0], means[1]), (variances[0], variances[1]), (priors[0], priors[1]))

    def clean_probability(self, losses: Floats) -> Floats:
        """Return the posterior probability of the first component for losses ``(N,)`` (FedGSCA, Eq. 3 and 6)."""
        posteriors, _ = posteriors_and_density(_gaussians(losses), self._mixture)
        clean: Floats = posteriors[0, 0, 0]
        return clean

    def fitted(self, losses: Floats) -> SampleSelector | None:
        """Fit to losses ``(N,)`` by expectation maximisation from this one on (Eq. 1); None if a component collapses.

        Components are put in the order of their means, so that means over sites mix like with like.
        """

        def has_converged(before: Floats, after: Floats) -> Booleans:
            # Without a floor of the variances the likelihood cannot fall.
            small: Booleans = after / len(losses) - before / len(losses) < _TOLERANCE
            return small

        fit = fit_mixtures(_gaussians(losses), self._mixture, has_converged, has_collapsed=_has_collapsed)
        if fit.collapsed[0]:
            return None
        order = fit.means[0, :, 0].argsort(kind="stable")
        values = (fit.means[0, order, 0], fit.covariances[0, order, 0], fit.weights[0, order])
        return SampleSelector(*((float(first), float(second)) for first, second in values))

    @property
    def _mixture(self) -> Mixture:
        return Mixture.in_one_dimension(self.priors, self.means, self.variances)


def selector_coefficient(losses: Floats) -> float:
    """Return τ = min(0.5 (1 + σ_L / (μ_L + 10⁻⁶)), 0.8), the probability from which a sample counts as clean (Eq. 5).

    Args:
        losses: of the site's samples, ``(N,)``; their spread over their mean says how mixed the labels are.
    """
    return min(0.5 * (1 + float(losses.std()) / (float(losses.mean()) + _EPSILON)), _LARGEST_COEFFICIENT)


def _could_be_fitted(values: Floats) -> bool:
    """Whether means, variances and priors ``(3, 2)`` may be those of losses from 0 to :data:`LARGEST_LOSS`."""
    means, variances, priors = values
    return bool(
        (means >= 0).all()
        and means[0] <= means[1] <= LARGEST_LOSS
        and (variances > 0).all()
        and (variances <= LARGEST_LOSS**2 / 4).all()
        and (priors > 0).all()
        and abs(priors.sum() - 1) < _ROUNDING
    )


def _gaussians(losses: Floats) -> DiagonalGaussians:
    return DiagonalGaussians.of_samples(losses[None, :, None])


def _has_collapsed(mixture: Mixture) -> Booleans:
    weights, variances = mixture.weights, mixture.covariances
    # A weight that is no number has collapsed, too.
    collapsed: Booleans = ~(weights.min(axis=-1) >= _SMALLEST_PRIOR) | (
        variances.min(axis=(-1, -2)) < _SMALLEST_VARIANCE
    )
    return collapsed
