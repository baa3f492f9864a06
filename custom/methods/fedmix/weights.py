"""Weights of sites by their numbers of samples and their losses (FedMix)."""

from collections.abc import Mapping

from ...aggregation.weighting import completed_weights, quantity_weights


def loss_weights(
    num_samples: Mapping[str, int], losses: Mapping[str, float], weight: float, exponent: float
) -> dict[str, float]:
    """Return (n_k/n + λ ℓ_k^β / Σ ℓ_j^β) / (1 + λ) by site, in sorted order; the larger loss has the larger weight.

    A site without a loss keeps its weight by quantity, and the others divide the rest. Where all losses are 0 they say
    nothing, and the numbers of samples decide.

    Args:
        num_samples: n_k of all sites.
        losses: ℓ_k from 0 to 1, of some of them or all.
        weight: λ, at least 0.
        exponent: β, at least 0.

    Raises:
        ValueError: if there is no site, or no sample at all.

    Example:
        >>> weights = loss_weights({"a": 100, "b": 200, "c": 300}, {"a": 0.2, "b": 0.4, "c": 0.6}, 10, 1.5)
        >>> {site: round(value, 6) for site, value in weights.items()}
        {'a': 0.115887, 'b': 0.315225, 'c': 0.568889}
    """
    quantity = quantity_weights(num_samples)
    # Only the ratio of losses counts; that to the largest one does not vanish, however large the exponent is.
    largest = max(losses.values(), default=0.0)
    if not (weight and largest):
        return quantity
    powers = {site: (losses[site] / largest) ** exponent for site in sorted(losses)}
    total, among = sum(powers.values()), sum(quantity[site] for site in sorted(losses))
    if not among:
        return quantity
    of_losses = {
        site: (quantity[site] / among + weight * power / total) / (1 + weight) for site, power in powers.items()
    }
    return completed_weights(of_losses, quantity)
