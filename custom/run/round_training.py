"""The training of one round at the server: results come, weights are found, models are averaged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..aggregation.influence import inner_ranges
from ..aggregation.round_average import RoundAverage
from ..aggregation.sample_claims import SampleClaims, claim_limit
from ..aggregation.weighting import LayerWeights, quantity_weights
from ..interface.method import ServerMethod
from ..interface.views import Round
from ..networks.layout import NetworkLayout
from ..outbound.registry import OutboundRegistry
from ..settings import RunSettings
from .round_results import RoundResults

# Rounding of sums of weights.
_SLACK = 1e-6


@dataclass(frozen=True)
class Averaged:
    """What comes of a round.

    Attributes:
        params: the average.
        weights: what the sites counted in it, within the bounds of influence.
        kept: the sites whose models multi-Krum kept, and of which alone the weights then are; None with other rules.
        shadow: the second average of the same results; None where the method asked for none.
    """

    params: dict[str, torch.Tensor]
    weights: LayerWeights
    kept: tuple[str, ...] | None = None
    shadow: dict[str, torch.Tensor] | None = None

    @property
    def chosen(self) -> dict[str, Any]:
        """What the round's record says of a rule that keeps some of the sites; empty with other rules."""
        return {} if self.kept is None else {"kept": self.kept}


class RoundTraining:
    """Takes the sites' models of a round and averages them with the method's weights.

    Args:
        this_round: the round, whose reports and drifts are filled by :meth:`average`.
        method: gives the weights before, or the rule that they follow from.
        settings: the job's settings.
        layout: which entries the network has.
        registry: the fields that a result may hold.
        claims: the sites' claims of training samples.
        num_sites: how many sites are asked.
        waiting_folder: where models wait for their weights, if they have to.
        refuse: takes note of a site that is refused, and the reason.

    Attributes:
        results: what came.
    """

    def __init__(
        self,
        this_round: Round,
        method: ServerMethod,
        settings: RunSettings,
        layout: NetworkLayout,
        registry: OutboundRegistry,
        claims: SampleClaims,
        *,
        num_sites: int,
        waiting_folder: Path,
        refuse: Callable[[str, str], None],
    ) -> None:
        self._round = this_round
        self._blocks = layout.blocks
        self._rule = method.weights_rule(this_round)
        self._known = None if self._rule is not None else _checked(method.weights(this_round), settings.method)
        self._method = settings.method
        self._waits = self._rule is not None or settings.influence.has_bounds or settings.aggregation.waits
        self._average = RoundAverage(
            this_round.number,
            this_round.params,
            layout.block_of,
            self._known,
            num_sites=max(num_sites, 1),
            wait_in=waiting_folder if self._waits else None,
            shadow_without=method.shadow_without(this_round),
            aggregation=settings.aggregation,
            group_of=layout.group_of,
            trained=layout.trained,
        )
        limit, bounds_updates = claim_limit(max(num_sites, 1)), settings.influence.max_update_ratio is not None
        self.results = RoundResults(
            self._average,
            this_round.params,
            layout,
            registry=registry,
            num_classes=settings.network.num_classes,
            counted=lambda site, claim: claims.counted(site, claim, limit),
            limit=limit,
            refuse=refuse,
            measures_drifts=bounds_updates or method.measures_drifts,
            keeps_statistics=bounds_updates,
        )

    def give_up(self) -> None:
        """Drop what came."""
        self._average.give_up()

    def average(self) -> Averaged:
        """Return the average of what came, at least one result."""
        this_round, results = self._round, self.results
        samples = this_round.samples_of_reports
        given = self._known if self._rule is None else _checked(self._rule(self._average.waiting), self._method)
        if given is not None and (missing := sorted(set(samples) - set(given.sites))):
            raise ValueError(f"The weights of the method {self._method!r} are without {missing}, whose models count.")
        weights = self._quantity(samples) if given is None else given.only(samples)
        bounded = this_round.bounds.weights(weights, samples)
        if self._waits:
            self._average.weigh(
                None if given is None and bounded is weights else bounded,
                this_round.bounds.update_factors(results.update_norms),
                inner_ranges([results.statistics[site] for site in sorted(results.statistics)]),
            )
        kept = self._average.kept
        weighed = bounded if kept is None else bounded.only(kept)
        return Averaged(self._average.result(), weighed, kept, self._average.shadow())

    def _quantity(self, num_samples: Mapping[str, int]) -> LayerWeights:
        return LayerWeights.same_in_all_blocks(quantity_weights(num_samples), self._blocks)


def _checked(weights: LayerWeights | None, method: str) -> LayerWeights | None:
    """Return a method's weights if they can be weights.

    Raises:
        ValueError: if they are no :class:`LayerWeights`, or those of a block are negative, not finite or do not sum to
            one.
    """
    if weights is None:
        return None
    if not isinstance(weights, LayerWeights):
        raise ValueError(f"The weights of the method {method!r} are {type(weights).__name__}, expected LayerWeights.")
    sums = weights.values.sum(axis=0)
    if not (np.all(weights.values >= 0) and np.all(np.abs(sums - 1) <= _SLACK)):
        raise ValueError(
            f"The weights of the method {method!r} sum to {sums.tolist()} in the layer blocks; expected weights of at "
            "least 0 that sum to 1 in each."
        )
    return weights


def share_refusal(weights: LayerWeights, largest_share: float) -> tuple[str, str] | None:
    """Return the site that has more of a layer block than it may, and why the round does not count; None if none has.

    Args:
        weights: of the round.
        largest_share: largest weight of one site in a layer block, by the limits of who averages.
    """
    site, weight = weights.strongest
    if weight <= largest_share + _SLACK:
        return None
    return site, (
        f"it would be {weight:.2f} of a layer block, where limits.json (largest_share) of who averages allows at most "
        f"{largest_share:g}: the round does not count"
    )
