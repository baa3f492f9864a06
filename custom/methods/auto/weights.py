"""Weights by what is left of the noise: who leaves objects out counts less, within bounds."""

from collections.abc import Mapping, Sequence

from ...aggregation.influence import bounded_weights
from ...aggregation.weighting import LayerWeights, quantity_weights
from .thresholds import THRESHOLDS


def completeness_weights(
    num_samples: Mapping[str, int], missing: Mapping[str, float], blocks: Sequence[str]
) -> LayerWeights:
    """Return weights by quantity times completeness, w_k ∝ n_k (1 − m_k), within [⅓, 3] of those by quantity.

    Args:
        num_samples: n_k, of every site.
        missing: m_k, fraction of the objects that a site leaves out; 0 for those that are not named.
        blocks: the network's layer blocks.
    """
    quantity = quantity_weights(num_samples)
    by_quality = {site: share * (1 - min(missing.get(site, 0.0), 1.0)) for site, share in quantity.items()}
    total = sum(by_quality.values())
    if not total > 0:
        return LayerWeights.same_in_all_blocks(quantity, blocks)
    weights = LayerWeights.same_in_all_blocks({site: share / total for site, share in by_quality.items()}, blocks)
    return bounded_weights(weights, quantity, quality_ratio=THRESHOLDS.max_weight_ratio)
