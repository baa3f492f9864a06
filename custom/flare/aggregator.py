"""The aggregator: one for every method, since a method is its matrix of weights (site × layer block)."""

import threading
from collections.abc import Mapping
from pathlib import Path

import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator

from ..aggregation.model_spool import ModelSpool
from ..aggregation.sample_claims import MAX_TOTAL_SAMPLES, claim_limit
from ..aggregation.streaming_average import StreamingAverage, refusal_reason, value_limits
from ..aggregation.weighting import LayerWeights

# By the name of an entry the smallest and the largest value of each of its elements.
Ranges = Mapping[str, tuple[torch.Tensor, torch.Tensor]]


class LayerwiseAggregator(ModelAggregator):  # type: ignore[misc]
    """Averages site models with a weight per site and layer block, streaming: a result is added and dropped.

    Contract with the controller: :meth:`start_round` before the round's task is sent, with the global model, its layer
    blocks, the matrix of weights, or None for the sites' numbers of samples (FedAvg), and the number of sites that are
    asked. Where the weights follow from the round's own reports, results wait on disk until :meth:`weigh`. A result
    must carry ``meta["client_name"]``, ``meta["num_samples"]``, the round in ``current_round``, and a full state dict.
    A result that cannot be used is refused with a reason and changes nothing; what one site claims leaves the others
    as much as without it. Results may arrive from several threads.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.reset_stats()

    def reset_stats(self) -> None:
        """Forget the round."""
        self._round = 0
        self._reference: dict[str, torch.Tensor] = {}
        self._weights: LayerWeights | None = None
        self._blocks: tuple[str, ...] = ()
        self._average: StreamingAverage | None = None
        self._waiting: ModelSpool | None = None
        self._block_of: dict[str, str] = {}
        self._limits: dict[str, float] = {}
        self._claim_limit = 0
        self._sites_to_come = 0

    def start_round(
        self,
        round_number: int,
        reference: Mapping[str, torch.Tensor],
        block_of: Mapping[str, str],
        weights: LayerWeights | None,
        *,
        num_sites: int,
        wait_in: Path | None = None,
    ) -> None:
        """Prepare for the results of one round.

        Args:
            round_number: results of other rounds are refused.
            reference: the global model that is sent out.
            block_of: layer block of every entry.
            weights: the (site × block) matrix, or None for quantity weights from the reported numbers of samples.
            num_sites: how many sites are asked; each may claim its part of what all may have.
            wait_in: folder where results wait for their weights, which :meth:`weigh` then gives; made anew. Weights
                that are given here only say which sites count.
        """
        self._round = round_number
        self._reference = dict(reference)
        self._weights = weights
        self._block_of = dict(block_of)
        self._blocks = tuple(dict.fromkeys(block_of.values()))
        self._limits = value_limits(reference)
        self._waiting = None if wait_in is None else ModelSpool(wait_in)
        self._average = self._empty_average() if self._waiting is None else None
        self._claim_limit = claim_limit(num_sites)
        self._sites_to_come = num_sites

    def refuse_or_accept(self, model: FLModel) -> str | None:
        """Add a result, or return why it is refused."""
        with self._lock:
            reason = self._refusal(model)
            if reason is None:
                site, num_samples = model.meta["client_name"], model.meta["num_samples"]
                if self._average is not None:
                    self._average.add(site, model.params, self._site_weights(site, num_samples), num_samples)
                elif self._waiting is not None:
                    self._waiting.put(site, model.params, num_samples)
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
            if self._waiting is None:
                raise ValueError("Expected a round whose results wait for their weights, but none is open.")
            self._weights = weights
            self._average = self._empty_average()
            held_back = dict.fromkeys(self._blocks, 0.0)
            for site, params, num_samples in self._waiting.models():
                factor = (update_factors or {}).get(site, 1.0)
                of_site = self._site_weights(site, num_samples)
                within = {name: params[name].clamp(*limits) for name, limits in (ranges or {}).items()}
                counted = {block: factor * weight for block, weight in of_site.items()}
                self._average.add(site, {**params, **within}, counted, num_samples)
                for block, weight in of_site.items():
                    held_back[block] += (1.0 - factor) * weight
            if any(held_back.values()):
                self._average.add_reference(held_back)
            self._waiting.remove()
            self._waiting = None

    def accept_model(self, model: FLModel) -> None:
        """Add a result.

        Raises:
            ValueError: if it is refused.
        """
        if (reason := self.refuse_or_accept(model)) is not None:
            raise ValueError(f"The result of {model.meta.get('client_name')} is refused: {reason}.")

    def give_up_round(self) -> None:
        """Drop what has been accepted and forget the round."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.remove()
            self.reset_stats()

    def aggregate_model(self) -> FLModel:
        """Return the weighted average of the accepted results and forget the round."""
        assert self._average is not None, "start_round comes first, and weigh where results wait"
        params = self._average.result()
        self.reset_stats()
        return FLModel(params=params, params_type=ParamsType.FULL)

    def _refusal(self, model: FLModel) -> str | None:
        if self._average is None and self._waiting is None:
            return "no round is open"
        site = model.meta.get("client_name")
        num_samples = model.meta.get("num_samples")
        if model.current_round != self._round:
            return f"it is of round {model.current_round}, expected {self._round}"
        if any(site in added for added in (self._average, self._waiting) if added is not None):
            return "it is a second result for this round"
        limit = self._claim_limit
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or not 1 <= num_samples <= limit:
            return f"its number of samples is {num_samples!r}, expected 1 to {limit}"
        if not self._sites_to_come:
            return "the site was not asked in this round; it counts from the next round on"
        if self._weights is not None and site not in self._weights.sites:
            return "the site joined after this round's weights were made; it counts from the next round on"
        if not model.params:
            return "it has no model"
        return refusal_reason(model.params, self._reference, self._limits)

    def _empty_average(self) -> StreamingAverage:
        bound = float(MAX_TOTAL_SAMPLES) if self._weights is None else 1.0
        return StreamingAverage(self._reference, self._block_of, total_weight_bound=bound)

    def _site_weights(self, site: str, num_samples: int) -> dict[str, float]:
        if self._weights is None:
            return dict.fromkeys(self._blocks, float(num_samples))
        return self._weights.of(site)
