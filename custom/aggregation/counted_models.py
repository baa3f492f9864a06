"""Models that wait, as they count within the bounds of influence."""

from collections.abc import Mapping

import torch

from .model_spool import ModelSpool

# By the name of an entry the smallest and the largest value of each of its elements.
Ranges = Mapping[str, tuple[torch.Tensor, torch.Tensor]]


class CountedModels:
    """The models of a round that wait, each within its bounds: θ + f (θ_k − θ) in every group of entries.

    Args:
        waiting: the models.
        reference: the global model θ.
        group_of: group of every entry.
        factors: f, by site and group; 1 where a site or a group is not named.
        ranges: within which the values of some entries count.
    """

    def __init__(
        self,
        waiting: ModelSpool,
        reference: Mapping[str, torch.Tensor],
        group_of: Mapping[str, str],
        factors: Mapping[str, Mapping[str, float]],
        ranges: Ranges,
    ) -> None:
        self._waiting = waiting
        self._reference = reference
        self._group_of = group_of
        self._factors = factors
        self._ranges = ranges

    @property
    def sites(self) -> tuple[str, ...]:
        """Whose they are, sorted."""
        return self._waiting.sites

    def num_samples(self, site: str) -> int:
        """Return how many samples a site's model was trained on."""
        return self._waiting.num_samples(site)

    def params(self, site: str) -> dict[str, torch.Tensor]:
        """Return a site's state dict, as it counts."""
        params = self._waiting.params(site)
        return {name: self._within(site, name, tensor) for name, tensor in params.items()}

    def shared(self, site: str) -> dict[str, torch.Tensor]:
        """Return the same without a copy of what counts as it is; nothing may be written into it."""
        params = self._waiting.shared(site)
        return {name: self._within(site, name, tensor) for name, tensor in params.items()}

    def entry(self, name: str) -> list[torch.Tensor]:
        """Return one entry of every site, as it counts, in the order of the sites."""
        return [self._within(site, name, self._waiting.mapped(site)[name]) for site in self.sites]

    def _within(self, site: str, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name in self._ranges:
            tensor = tensor.clamp(*self._ranges[name])
        factor = self._factors.get(site, {}).get(self._group_of[name], 1.0)
        if factor == 1.0 or not tensor.is_floating_point():
            return tensor
        return torch.lerp(self._reference[name].to(tensor.dtype), tensor, factor)
