"""Sites that draw larger and sites that draw smaller: a Gaussian mixture of their learning difficulty, guarded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Floats
from ...mixtures.fit import MixtureFit, single_log_likelihood
from ...mixtures.gaussians import FullGaussians
from .paired_starts import fit_from_pairs
from .records import NoGroups

MIN_SITES = 3
# Fraction of each column's variance added to every component's variance. A component of one to three sites is nearly
# singular, so the floor decides its likelihood. In simulations floors from 0.001 to 0.2 left the guard's false
# positives near 5%; its power at 10 sites and the fraction of right groupings rose with the floor up to 0.1, and beyond
# it for unequal groups alone.
COVARIANCE_FLOOR = 0.1
NUM_STARTS = 20
NUM_BOOTSTRAP = 199


@dataclass(frozen=True)
class TwoGroups:
    """The sites divided by the direction of their annotation error, or the reason why they are not.

    Attributes:
        larger: sites that draw larger than the model expects (G_l), sorted; empty where there are no groups.
        smaller: sites that draw smaller (G_s), sorted; empty where there are no groups.
        reason: why there are no groups; None where there are.
        p_value: fraction of data sets from one Gaussian that two components explain as well; None if not tested.
        one_component: log likelihood of one Gaussian, for columns of unit variance; None if not fitted.
        two_components: log likelihood of the mixture, as above.
    """

    larger: tuple[str, ...] = ()
    smaller: tuple[str, ...] = ()
    reason: NoGroups | None = None
    p_value: float | None = None
    one_component: float | None = None
    two_components: float | None = None

    @property
    def found(self) -> bool:
        """Whether there are two groups."""
        return self.reason is None


def fit_two_groups(difficulty: Mapping[str, Sequence[float] | Floats], *, seed: int, level: float = 0.05) -> TwoGroups:
    """Divide the sites into those that draw larger and those that draw smaller, if there are two such groups.

    A two-component Gaussian mixture with full covariance is fitted to the learning difficulties (the best of 20
    starts); the component with the larger mean of (sum of inner − sum of outer columns) is G_l (FedA³I, Sec. 3.3).
    Columns are scaled to unit variance first, so units do not matter; neither do the order and the names of the sites.

    Two components always fit better than one. They count as two groups only if the likelihood ratio exceeds that of
    data sets drawn from the one Gaussian fitted to the sites (parametric bootstrap). Strengths that are spread evenly
    are not Gaussian: sites that all err in one direction pass for two groups in about one of ten cases at 10 sites and
    in half the cases at 50.

    Args:
        difficulty: for every reporting site its row (inner_1, ..., inner_C, outer_1, ..., outer_C).
        seed: decides the starts and the bootstrap; the same seed gives the same result.
        level: fraction of false positives accepted, up to which p-value there are groups; 1 switches the guard off.

    Raises:
        ValueError: if rows differ in length, have an odd or zero number of columns, or are not finite.

    Example:
        >>> drawn = {f"site-{n}": (0.8 + n / 100, 0.2) if n < 4 else (0.2, 0.8 + n / 100) for n in range(8)}
        >>> sorted(fit_two_groups(drawn, seed=0).larger)
        ['site-0', 'site-1', 'site-2', 'site-3']
    """
    sites = sorted(difficulty)
    if len(sites) < MIN_SITES:
        return TwoGroups(reason=NoGroups.TOO_FEW_SITES)
    table = _table(difficulty, sites)
    order = np.lexsort(table.T[::-1])
    ordered = [sites[row] for row in order]
    samples = _standardise(table[order][None])
    if not samples.any():
        return TwoGroups(reason=NoGroups.EQUAL)

    generator = np.random.default_rng(seed)
    one, fit = _fit_both(samples, generator)
    draws = generator.standard_normal((NUM_BOOTSTRAP, len(sites), len(sites))) @ samples / np.sqrt(len(sites))
    null_one, null_fit = _fit_both(_standardise(draws), generator)
    gain = float(fit.log_likelihood[0] - one[0])
    exceeding = int(np.count_nonzero(null_fit.log_likelihood - null_one >= gain))
    p_value = (1 + exceeding) / (NUM_BOOTSTRAP + 1)

    larger, smaller = _assign(fit, ordered, table.std(axis=0))
    reason = _reason_against(bool(fit.converged[0]), p_value > level, larger, smaller)
    if reason is not None:
        larger = smaller = ()
    return TwoGroups(larger, smaller, reason, p_value, float(one[0]), float(fit.log_likelihood[0]))


def _table(difficulty: Mapping[str, Sequence[float] | Floats], sites: list[str]) -> Floats:
    rows = [np.asarray(difficulty[site], dtype=np.float64) for site in sites]
    for site, row in zip(sites, rows, strict=True):
        if row.ndim != 1 or row.shape != rows[0].shape or row.size == 0 or row.size % 2:
            raise ValueError(
                f"Expected a row of inner and outer columns, 2 x classes, of the same length at every site, but {site} "
                f"reports shape {row.shape} and {sites[0]} shape {rows[0].shape}; check the number of classes there."
            )
        if not np.isfinite(row).all():
            raise ValueError(
                f"Expected finite learning difficulties, but {site} reports {row.tolist()}; leave out sites without an "
                "estimate."
            )
    return np.stack(rows)


def _standardise(tables: Floats) -> Floats:
    """Centre the columns of ``(N, K, D)`` tables and scale them to unit variance; constant columns become 0."""
    centred = tables - tables.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    varies = deviation > 1e-9 * np.abs(tables).max(axis=1, keepdims=True)
    return np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)


def _fit_both(samples: Floats, generator: np.random.Generator) -> tuple[Floats, MixtureFit]:
    one = single_log_likelihood(FullGaussians.of_samples(samples, COVARIANCE_FLOOR))
    return one, fit_from_pairs(samples, COVARIANCE_FLOOR, NUM_STARTS, generator)


def _assign(fit: MixtureFit, sites: list[str], scale: Floats) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sites of G_l and of G_s, each site with the component that explains it better."""
    means = fit.means[0] * scale
    num_classes = len(scale) // 2
    contrast = means[:, :num_classes].sum(axis=1) - means[:, num_classes:].sum(axis=1)
    component = int(contrast[1] > contrast[0])
    in_larger = fit.posteriors[0, component] > fit.posteriors[0, 1 - component]
    larger = sorted(site for site, member in zip(sites, in_larger, strict=True) if member)
    smaller = sorted(set(sites) - set(larger))
    return tuple(larger), tuple(smaller)


def _reason_against(
    converged: bool, rejected: bool, larger: tuple[str, ...], smaller: tuple[str, ...]
) -> NoGroups | None:
    if not converged:
        return NoGroups.NOT_CONVERGED
    if rejected:
        return NoGroups.ONE_IS_ENOUGH
    if not larger or not smaller:
        return NoGroups.ONE_COMPONENT
    return None
