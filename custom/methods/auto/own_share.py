"""The global model less a site's own share: what judges a site's annotations without having just learnt them."""

from collections.abc import Mapping

import torch


def without_own_share(
    average: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], share: float
) -> dict[str, torch.Tensor]:
    """Return θ₋ₖ = (θ − w_k θ_k) / (1 − w_k): what the others' models of the last round average to.

    It takes the last round out alone; what a site taught before stays in all of them. Computed at the site.

    Args:
        average: θ, the global model.
        own: θ_k, what the site sent of the round.
        share: w_k, its share in that round, below 1.

    Raises:
        ValueError: when the share is out of range, or an entry is absent.
    """
    if not 0 <= share < 1 or set(average) - set(own):
        raise ValueError(f"Expected a share from 0 to below 1 and all entries of the model, but got {share=}.")
    left = {
        name: ((entry.double() - share * own[name].to(entry.device).double()) / (1 - share)).to(entry.dtype)
        if entry.is_floating_point()
        else entry
        for name, entry in average.items()
    }
    # A share that was bounded at the server would leave a variance below 0.
    return {name: entry.clamp_min(0) if name.endswith("running_var") else entry for name, entry in left.items()}
