"""Weights by annotation quality, and their layer-wise combination with those by quantity (FedA³I, Sec. 3.3)."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ....transforms.array_types import Floats
from ...aggregation.weighting import LayerWeights, completed_weights


def noise_strength(
    difficulty: Mapping[str, Sequence[float] | Floats], larger: Collection[str], smaller: Collection[str]
) -> dict[str, float]:
    """Return each site's noise strength, Eq. 5: q_1 − q_2 for sites that draw larger, else q_2 − q_1.

    With several classes q_1 and q_2 are the sums of the inner and of the outer columns.

    Args:
        difficulty: for every site its row (inner_1, ..., inner_C, outer_1, ..., outer_C).
        larger: sites that draw larger.
        smaller: sites that draw smaller.

    Raises:
        ValueError: if the two groups do not divide the sites of the difficulty among them.

    Example:
        >>> noise_strength({"a": (0.75, 0.25), "b": (0.25, 0.5)}, larger=["a"], smaller=["b"])
        {'a': 0.5, 'b': 0.25}
    """
    _check_partition(difficulty, larger, smaller)
    strength: dict[str, float] = {}
    for site in sorted(difficulty):
        inner, outer = np.asarray(difficulty[site], dtype=np.float64).reshape(2, -1).sum(axis=1).tolist()
        strength[site] = inner - outer if site in larger else outer - inner
    return strength


def quality_weights(
    strength: Mapping[str, float],
    larger: Collection[str],
    smaller: Collection[str],
    quantity: Mapping[str, float],
    *,
    balance: float = 0.5,
    intra_only: bool = False,
) -> dict[str, float]:
    """Return quality-based weights of the sites, Eq. 6: inside a group the weaker the noise, the larger.

    w_i = r (max s − s_i) / (|G_l| max s − Σ s) in the group G_l that draws larger, with 1 − r in place of r in G_s.
    Where a denominator is 0 (one member, or all equal) the group's members share equally, and an empty group leaves its
    share to the other. Otherwise the noisiest site of a group gets 0, so in a group of two the other gets all of it.
    A site without an estimate keeps its quantity weight; the others divide the rest.

    Args:
        strength: noise strength of the sites with an estimate.
        larger: those of them that draw larger.
        smaller: those that draw smaller.
        quantity: quantity weights of all sites, which sum to one.
        balance: share r of the larger-drawing group, from 0 to 1.
        intra_only: ablation without balance between the groups: max s − s_i, normalised over both groups together.

    Raises:
        ValueError: if the groups do not divide the sites with an estimate, one of those has no quantity weight, or the
            balance is outside 0..1.

    Example:
        >>> strength, quantity = {"a": 0.0, "b": 1.0, "c": 1.0}, dict.fromkeys("abc", 1 / 3)
        >>> quality_weights(strength, ["a", "b"], ["c"], quantity)
        {'a': 0.5, 'b': 0.0, 'c': 0.5}
    """
    _check_partition(strength, larger, smaller)
    if unknown := sorted(set(strength) - set(quantity)):
        raise ValueError(f"Expected a quantity weight for every site with an estimate, but {unknown} have none.")
    if not 0.0 <= balance <= 1.0:
        raise ValueError(f"Expected a balance between the groups from 0 to 1, but got {balance=}.")
    margins = [_margins(strength, group) for group in (larger, smaller)]
    if intra_only:
        shared = _normalise(margins[0] | margins[1])
    else:
        shares = (balance, 1.0 - balance) if larger and smaller else (1.0, 1.0)
        shared = {
            site: share * weight
            for share, group in zip(shares, margins, strict=True)
            for site, weight in _normalise(group).items()
        }
    return completed_weights(shared, quantity)


def layer_coefficients(num_blocks: int, *, weight: float = 1.0, power: float = 1.0, bias: float = 0.0) -> Floats:
    """Return how much quality counts in each layer block, weight ((j − 1)/(L − 1))^power + bias: λ(j) of Eq. 7.

    Values beyond 0 and 1 are clipped. A network of one block counts as its own last block. Weight 0 and bias 1 make the
    weights model-wise.

    Args:
        num_blocks: number of blocks L.
        weight: increase from the first to the last block.
        power: 1 for a linear increase; above 1 it comes later, at 0 it is there from the first block on.
        bias: value at the first block.

    Returns:
        Coefficients ``(L,)`` in forward order.

    Raises:
        ValueError: if there is no block or the power is negative.
    """
    if num_blocks < 1 or power < 0:
        raise ValueError(f"Expected at least one block and a power >= 0, but got {num_blocks=} and {power=}.")
    position = np.linspace(0.0, 1.0, num_blocks) if num_blocks > 1 else np.ones(1)
    return np.asarray(np.clip(weight * position**power + bias, 0.0, 1.0), dtype=np.float64)


def layer_weights(
    quality: Mapping[str, float], quantity: Mapping[str, float], blocks: Sequence[str], coefficients: Floats
) -> LayerWeights:
    """Combine quality and quantity layer by layer, Eq. 7: w_ij = λ(j) w̄_i + (1 − λ(j)) w̃_i.

    Args:
        quality: quality-based weight of every site.
        quantity: quantity-based weight of every site.
        blocks: names of the L layer blocks in forward order.
        coefficients: λ ``(L,)``.

    Raises:
        ValueError: if the two weights are of different sites, or blocks and coefficients differ in number.

    Example:
        >>> found = layer_weights({"a": 1.0, "b": 0.0}, {"a": 0.5, "b": 0.5}, ("first", "last"), np.array([0.0, 1.0]))
        >>> found.values.tolist()
        [[0.5, 1.0], [0.5, 0.0]]
    """
    if set(quality) != set(quantity):
        raise ValueError(
            f"Expected quality and quantity weights of the same sites, but found {sorted(quality)} and "
            f"{sorted(quantity)}."
        )
    if len(blocks) != len(coefficients):
        raise ValueError(f"Expected a coefficient per block, but found {len(coefficients)} for {len(blocks)} blocks.")
    sites = tuple(sorted(quantity))
    by_quality, by_quantity = (np.array([weights[site] for site in sites])[:, None] for weights in (quality, quantity))
    values = np.asarray(coefficients * by_quality + (1.0 - coefficients) * by_quantity, dtype=np.float64)
    values.setflags(write=False)
    return LayerWeights(sites, tuple(blocks), values)


def _check_partition(sites: Mapping[str, object], larger: Collection[str], smaller: Collection[str]) -> None:
    if sorted([*larger, *smaller]) != sorted(sites):
        raise ValueError(
            f"Expected every site with an estimate in exactly one group, but found the groups {sorted(larger)} and "
            f"{sorted(smaller)} for the sites {sorted(sites)}."
        )


def _margins(strength: Mapping[str, float], group: Collection[str]) -> dict[str, float]:
    """Return max s − s_i for the sites of a group, in sorted order."""
    largest = max((strength[site] for site in group), default=0.0)
    return {site: largest - strength[site] for site in sorted(group)}


def _normalise(margins: Mapping[str, float]) -> dict[str, float]:
    """Divide by the sum; equal shares where it is 0."""
    total = sum(margins.values())
    if total == 0.0:
        return {site: 1.0 / len(margins) for site in margins}
    return {site: margin / total for site, margin in margins.items()}
