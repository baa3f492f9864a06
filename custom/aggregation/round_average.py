"""The average of a round: one for every method, since what a method decides is a matrix of weights (site × block)."""

import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import torch

from .model_spool import ModelSpool
from .sample_claims import MAX_TOTAL_SAMPLES, claim_limit
from .streaming_average import StreamingAverage, refusal_reason, value_limits
from .weighting import LayerWeights

# By the name of an entry the smallest and the largest value of each of its elements.
Ranges = Mapping[str, tuple[torch.Tensor, torch.Tensor]]


class RoundAverage:
    """Averages the models of one round with a weight per site and layer block, streaming: one is added and dropped.

    Where the weights follow from what sites report, or from the models, these wait on disk until :meth:`weigh`. A
    result that cannot be used is refused with a reason and changes nothing; what one site claims leaves the others as
    much as without it. Results may come from several threads.

    Args:
        round_number: results of other rounds are refused.
        reference: the global model that is sent out.
        block_of: layer block of every entry.
        weights: the (site × block) matrix, or None for quantity weights from the reported numbers of samples.
        num_sites: how many sites are asked; each may claim its part of what all may have.
        wait_in: folder where results wait for their weights, which :meth:`weigh` then gives; made anew. Weights that
            are given here only say which sites count.
        shadow_without: sites whose results do not count in a second average of the same results, by numbers of samples;
            None for no second average.
    """

    def __init__(
        self,
        round_number: int,
        reference: Mapping[str, torch.Tensor],
        block_of: Mapping[str, str],
        weights: LayerWeights | None,
        *,
        num_sites: int,
        wait_in: Path | None = None,
        shadow_without: Collection[str] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._round = round_number
        self._reference = dict(reference)
        self._weights = weights
        self._block_of = dict(block_of)
        self._blocks = tuple(dict.fromkeys(block_of.values()))
        self._limits = value_limits(reference)
        self._waiting = None if wait_in is None else ModelSpool(wait_in)
        self._average = self._empty_average() if self._waiting is None else None
        self._not_in_shadow = frozenset(shadow_without or ())
        self._shadow = None if shadow_without is None else self._average_by_samples()
        self._claim_limit = claim_limit(num_sites)
        self._sites_to_come = num_sites

    @property
    def waiting(self) -> ModelSpool:
        """The models that wait for their weights.

        Raises:
            ValueError: if none do in this round.
        """
        if self._waiting is None:
            raise ValueError("Expected a round whose results wait for their weights, but none is open.")
        return self._waiting

    def refuse_or_accept(
        self, site: str, params: Mapping[str, torch.Tensor] | None, num_samples: int, round_number: int | None
    ) -> str | None:
        """Add a result, or return why it is refused.

        Args:
            site: whose it is.
            params: its state dict.
            num_samples: how many samples it was trained on, as far as the claim counts.
            round_number: the round that it says it is of.
        """
        with self._lock:
            reason = self._refusal(site, params, num_samples, round_number)
            if reason is None and params is not None:
                if self._average is not None:
                    self._average.add(site, params, self._site_weights(site, num_samples), num_samples)
                    self._add_to_shadow(site, params, num_samples)
                elif self._waiting is not None:
                    self._waiting.put(site, params, num_samples)
                self._sites_to_come -= 1
            return reason

    def weigh(
        self,
        weights: LayerWeights | None,
        update_factors: Mapping[str, float] | None = None,
        ranges: Ranges | None = None,
    ) -> None:
        """Add the results that wait, with their weights.

        Args:
            weights: of the sites whose results wait; None for the numbers of samples.
            update_factors: by how much each site's update is scaled down; 1 where a site is not named.
            ranges: within which the values of some entries count.

        Raises:
            ValueError: if no results wait for weights.
        """
        with self._lock:
            waiting = self.waiting
            self._weights = weights
            self._average = self._empty_average()
            held_back = dict.fromkeys(self._blocks, 0.0)
            of_shadow = 0.0
            for site, params, num_samples in waiting.models():
                factor = (update_factors or {}).get(site, 1.0)
                of_site = self._site_weights(site, num_samples)
                within = {name: params[name].clamp(*limits) for name, limits in (ranges or {}).items()}
                counted = {block: factor * weight for block, weight in of_site.items()}
                self._average.add(site, {**params, **within}, counted, num_samples)
                of_shadow += self._add_to_shadow(site, {**params, **within}, num_samples, factor)
                for block, weight in of_site.items():
                    held_back[block] += (1.0 - factor) * weight
            if any(held_back.values()):
                self._average.add_reference(held_back)
            if self._shadow is not None and of_shadow:
                self._shadow.add_reference(dict.fromkeys(self._blocks, of_shadow))
            waiting.remove()
            self._waiting = None

    def give_up(self) -> None:
        """Drop what has been accepted."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.remove()
            self._waiting = self._average = self._shadow = None

    def result(self) -> dict[str, torch.Tensor]:
        """Return the weighted average of the accepted results; once, then the round is closed."""
        assert self._average is not None, "results that wait are weighed first"
        params = self._average.result()
        self._average = None
        return params

    def shadow(self) -> dict[str, torch.Tensor] | None:
        """Return the second average of the accepted results; once. None where none was asked for or no site is in it.

        The bounds of influence that :meth:`weigh` was given hold in it, too.
        """
        shadow, self._shadow = self._shadow, None
        return shadow.result() if shadow is not None and shadow.sites else None

    def _refusal(
        self, site: str, params: Mapping[str, torch.Tensor] | None, num_samples: int, round_number: int | None
    ) -> str | None:
        if self._average is None and self._waiting is None:
            return "no round is open"
        if round_number != self._round:
            return f"it is of round {round_number}, expected {self._round}"
        if any(site in added for added in (self._average, self._waiting) if added is not None):
            return "it is a second result for this round"
        limit = self._claim_limit
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or not 1 <= num_samples <= limit:
            return f"its number of samples is {num_samples!r}, expected 1 to {limit}"
        if not self._sites_to_come:
            return "the site was not asked in this round; it counts from the next round on"
        if self._weights is not None and site not in self._weights.sites:
            return "the site joined after this round's weights were made; it counts from the next round on"
        if not params:
            return "it has no model"
        return refusal_reason(params, self._reference, self._limits)

    def _empty_average(self) -> StreamingAverage:
        if self._weights is None:
            return self._average_by_samples()
        return StreamingAverage(self._reference, self._block_of, total_weight_bound=1.0)

    def _average_by_samples(self) -> StreamingAverage:
        return StreamingAverage(self._reference, self._block_of, total_weight_bound=float(MAX_TOTAL_SAMPLES))

    def _add_to_shadow(
        self, site: str, params: Mapping[str, torch.Tensor], num_samples: int, factor: float = 1.0
    ) -> float:
        """Add a result to the second average, if it is in it; return what the bounds of influence held back."""
        if self._shadow is None or site in self._not_in_shadow:
            return 0.0
        self._shadow.add(site, params, dict.fromkeys(self._blocks, factor * num_samples), num_samples)
        return (1.0 - factor) * num_samples

    def _site_weights(self, site: str, num_samples: int) -> dict[str, float]:
        if self._weights is None:
            return dict.fromkeys(self._blocks, float(num_samples))
        return self._weights.of(site)
