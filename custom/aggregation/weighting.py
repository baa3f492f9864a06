"""Aggregation weights of sites and layer blocks, and those by quantity."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Floats

# With fewer effective sites than this one site nearly decides alone.
FEW_EFFECTIVE_SITES = 1.5


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Weight of every site in every layer block; each block's weights sum to one.

    Attributes:
        sites: names of the K sites, sorted.
        blocks: names of the L layer blocks in forward order.
        values: ``(K, L)`` weights, read-only.

    Example:
        >>> weights = LayerWeights(("a", "b"), ("first", "last"), np.array([[0.5, 0.8], [0.5, 0.2]]))
        >>> [round(float(number), 3) for number in weights.effective_sites]
        [2.0, 1.471]
    """

    sites: tuple[str, ...]
    blocks: tuple[str, ...]
    values: Floats

    @property
    def effective_sites(self) -> Floats:
        """Effective number of sites per block, 1/Σw², ``(L,)``: K for equal weights, 1 if one site decides alone."""
        return np.asarray(1.0 / (self.values**2).sum(axis=0), dtype=np.float64)

    @property
    def fewest_effective_sites(self) -> float:
        """Effective number of sites of the block in which it is smallest."""
        return float(self.effective_sites.min())

    @property
    def most_concentrated(self) -> dict[str, float]:
        """Each site's weight in the block in which the effective number of sites is smallest, the first of several."""
        return dict(zip(self.sites, self.values[:, int(self.effective_sites.argmin())].tolist(), strict=True))

    @property
    def strongest(self) -> tuple[str, float]:
        """The site with the largest weight of all blocks, and that weight."""
        site, _ = np.unravel_index(int(self.values.argmax()), self.values.shape)
        return self.sites[int(site)], float(self.values.max())

    @classmethod
    def same_in_all_blocks(cls, weights: Mapping[str, float], blocks: Sequence[str]) -> "LayerWeights":
        """Give each site one weight in every block."""
        sites = tuple(sorted(weights))
        values = np.tile(np.array([[weights[site]] for site in sites], dtype=np.float64), (1, len(blocks)))
        values.setflags(write=False)
        return cls(sites, tuple(blocks), values)

    def only(self, sites: Collection[str]) -> "LayerWeights":
        """Return the weights of these sites, which then sum to one in each block; equal ones where all are 0."""
        names = tuple(site for site in self.sites if site in sites)
        if names == self.sites:
            return self
        values = self.values[[self.sites.index(site) for site in names]]
        totals = values.sum(axis=0)
        values = np.where(totals > 0, values / np.where(totals > 0, totals, 1.0), 1.0 / len(names))
        values.setflags(write=False)
        return LayerWeights(names, self.blocks, values)

    def of(self, site: str) -> dict[str, float]:
        """Return one site's weight per block."""
        return dict(zip(self.blocks, self.values[self.sites.index(site)].tolist(), strict=True))


def quantity_weights(num_samples: Mapping[str, int]) -> dict[str, float]:
    """Return each site's fraction of all samples, n_i / Σn (FedAvg), in sorted order of the sites.

    Raises:
        ValueError: if there is no site, a negative number, or no sample at all.

    Example:
        >>> quantity_weights({"site-2": 1, "site-1": 3})
        {'site-1': 0.75, 'site-2': 0.25}
    """
    if negative := {site: count for site, count in num_samples.items() if count < 0}:
        raise ValueError(f"Expected numbers of samples >= 0, but found {negative}.")
    total = sum(num_samples.values())
    if total == 0:
        raise ValueError(f"Expected at least one sample to weigh the sites by, but found {dict(num_samples)}.")
    return {site: num_samples[site] / total for site in sorted(num_samples)}


def completed_weights(weights: Mapping[str, float], quantity: Mapping[str, float]) -> dict[str, float]:
    """Give sites without a weight their quantity weight, and let the others divide the rest.

    Args:
        weights: weights that sum to one over some of the sites.
        quantity: quantity weights of all sites, which sum to one.
    """
    rest = sum(quantity[site] for site in sorted(weights)) if len(weights) < len(quantity) else 1.0
    return {site: rest * weights[site] if site in weights else quantity[site] for site in sorted(quantity)}
