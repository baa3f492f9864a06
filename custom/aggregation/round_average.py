"""The average of a round: one for every method, since what a method decides is a matrix of weights (site × block)."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ..refusals import RefusalCode, RefusalReason
from .counted_models import CountedModels, Ranges
from .geometric_median import geometric_median_weights
from .model_spool import ModelSpool
from .multi_krum import chosen_models
from .reported_counts import MAX_TOTAL_SAMPLES, claim_limit
from .settings import AggregationSettings
from .streaming_average import StreamingAverage, refusal_reason, value_limits
from .trimmed_mean import TrimmedMean
from .weighted_median import median_model
from .weighting import LayerWeights, quantity_weights

MEAN = AggregationSettings()


@dataclass(frozen=True)
class SentModel:
    """The global model of a round, as the sites have it.

    Attributes:
        round_number: results of other rounds are refused.
        params: its state dict.
        block_of: layer block of every entry.
        group_of: groups of entries whose updates have bounds of their own, each within one layer block; the blocks by
            default.
        trained: the entries over which distances between models are; all floating ones by default.
    """

    round_number: int
    params: Mapping[str, torch.Tensor]
    block_of: Mapping[str, str]
    group_of: Mapping[str, str] | None = None
    trained: Collection[str] | None = None


@dataclass(frozen=True)
class AveragingPlan:
    """How the results of a round become one model.

    Attributes:
        num_sites: how many sites are asked; each may claim its part of what all may have.
        weights: the (site × block) matrix, or None for quantity weights from the reported numbers of samples.
        wait_in: folder where results wait for their weights, which :meth:`RoundAverage.weigh` then gives; made again.
            Weights that are given here only say which sites count.
        second_average_without: sites whose results do not count in a second average of the same results, by numbers of
            samples; None for no second average. There is none by rules of models that wait.
        rule: the rule of aggregation.
        waiting_memory: bytes of memory for results that wait; the others are in files.

    Raises:
        ValueError: if the rule is of models that wait and none do, or has no second average.
    """

    num_sites: int
    weights: LayerWeights | None = None
    wait_in: Path | None = None
    second_average_without: Collection[str] | None = None
    rule: AggregationSettings = MEAN
    waiting_memory: int = 0

    def __post_init__(self) -> None:
        if self.rule.waits and (self.wait_in is None or self.second_average_without is not None):
            raise ValueError(f"Expected results that wait, and no second average, for the rule {self.rule.rule!r}.")


class RoundAverage:
    """Averages the models of one round with a weight per site and layer block, streaming: one is added and dropped.

    Where the weights follow from what sites report, or from the models, these wait until :meth:`weigh`. A
    result that cannot be used is refused with a reason and changes nothing; what one site claims leaves the others as
    much as without it. Results may come from several threads.

    The average is the mean, or by another rule, in which the same weights count. A trimmed mean streams, too; medians
    and multi-Krum are of models that wait.

    Args:
        sent: the global model that the sites train from.
        plan: the weights and the rule.

    Attributes:
        kept: the sites whose models multi-Krum kept; None with the other rules, and before :meth:`weigh`.
        in_effect: the weights by which the models make their geometric median; None as above.
        counted: the models as they count, where :meth:`weigh` has kept them; with multi-Krum those of :attr:`kept`.
    """

    def __init__(self, sent: SentModel, plan: AveragingPlan) -> None:
        self._lock = threading.Lock()
        self._round = sent.round_number
        self._global_model = dict(sent.params)
        self._weights = plan.weights
        self._block_of = dict(sent.block_of)
        self._blocks = tuple(dict.fromkeys(sent.block_of.values()))
        self._rule = plan.rule
        self._group_of = dict(sent.block_of if sent.group_of is None else sent.group_of)
        self._block_of_group = {group: sent.block_of[name] for name, group in self._group_of.items()}
        floating = [name for name, tensor in sent.params.items() if tensor.is_floating_point()]
        self._trained = tuple(floating if sent.trained is None else sent.trained)
        self.kept: tuple[str, ...] | None = None
        self.in_effect: LayerWeights | None = None
        self.counted: CountedModels | None = None
        self._kept: ModelSpool | None = None
        self._limits = value_limits(sent.params)
        self._waiting = None if plan.wait_in is None else ModelSpool(plan.wait_in, plan.waiting_memory)
        self._average = self._empty_average() if self._waiting is None else None
        self._not_in_second = frozenset(plan.second_average_without or ())
        self._median: dict[str, torch.Tensor] | None = None
        self._second = None if plan.second_average_without is None else self._average_by_samples()
        self._claim_limit = claim_limit(plan.num_sites)
        self._sites_to_come = plan.num_sites

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
    ) -> RefusalReason | None:
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
                    self._average.add(site, params, self._group_weights(site, num_samples), num_samples)
                    self._add_to_second(site, params, num_samples)
                elif self._waiting is not None:
                    self._waiting.put(site, params, num_samples)
                self._sites_to_come -= 1
            return reason

    def weigh(
        self,
        weights: LayerWeights | None,
        update_factors: Mapping[str, Mapping[str, float]] | None = None,
        ranges: Ranges | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Add the results that wait, with their weights.

        Args:
            weights: of the sites whose results wait; None for the numbers of samples.
            update_factors: by how much each site's update is scaled down in each group; 1 where a site is not named. A
                group that is not named is scaled down by as much as the most bounded one of its block.
            ranges: within which the values of some entries count.
            keep: whether the models stay, see :attr:`counted`, until :meth:`give_up`.

        Raises:
            ValueError: if no results wait for weights.
        """
        with self._lock:
            waiting = self.waiting
            self._weights = weights
            factors = {site: self._of_all_groups(of_site) for site, of_site in (update_factors or {}).items()}
            models = CountedModels(waiting, self._global_model, self._group_of, factors, ranges or {})
            if self._rule.rule == "median":
                of_sites = {site: self._site_weights(site, models.num_samples(site)) for site in models.sites}
                self._median = median_model(models, self._global_model, self._block_of, of_sites)
            elif self._rule.rule == "multi_krum":
                # As they came: bounds would let one that lies far off look like the others.
                as_sent = CountedModels(waiting, self._global_model, self._group_of, {}, {})
                self.kept = chosen_models(as_sent, self._trained, byzantine=self._rule.byzantine, kept=self._rule.kept)
                self._weights = None if weights is None else weights.only(self.kept)
                self._add_all(models, self.kept)
            elif self._rule.rule == "trimmed_mean":
                self._add_all(models, models.sites)
            else:
                if self._rule.rule == "geometric_median":
                    self._weights = self._of_geometric_median(waiting)
                self._add_scaled(waiting, factors, ranges or {}, keep=keep)
            self._waiting = None
            if keep:
                waiting.keep_only(waiting.sites if self.kept is None else self.kept)
                self._kept, self.counted = waiting, models
            else:
                waiting.remove()

    def _of_geometric_median(self, waiting: ModelSpool) -> LayerWeights | None:
        """The weights of the geometric median of the models as they came; the given ones where these count as such."""
        given = self._weights
        if given is None:
            samples = {site: waiting.num_samples(site) for site in waiting.sites}
            given = LayerWeights.same_in_all_blocks(quantity_weights(samples), self._blocks)
        self.in_effect = geometric_median_weights(
            CountedModels(waiting, self._global_model, self._group_of, {}, {}),
            {name: self._block_of[name] for name in self._trained},
            given.only(waiting.sites),
            smoothing=self._rule.smoothing,
            passes=self._rule.passes,
        )
        return self._weights if self.in_effect is given else self.in_effect

    def _add_all(self, models: CountedModels, sites: Collection[str]) -> None:
        """Add models as they count, one in memory at a time."""
        self._average = self._empty_average()
        for site in sites:
            params, num_samples = models.shared(site), models.num_samples(site)
            self._average.add(site, params, self._group_weights(site, num_samples), num_samples)
            self._add_to_second(site, params, num_samples)

    def _add_scaled(
        self, waiting: ModelSpool, factors: Mapping[str, Mapping[str, float]], ranges: Ranges, *, keep: bool
    ) -> None:
        """Add models with their weights times their factors, exactly; what they lose is the global model's."""
        self._average = self._empty_average()
        held_back = dict.fromkeys(self._block_of_group, 0.0)
        of_second = dict.fromkeys(self._block_of_group, 0.0)
        for site, params, num_samples in waiting.models(keep=keep):
            of_site = factors.get(site, {})
            within = params
            if ranges:
                within = {**params, **{name: params[name].clamp(*limits) for name, limits in ranges.items()}}
            weights = self._group_weights(site, num_samples)
            counted = {group: of_site.get(group, 1.0) * weight for group, weight in weights.items()}
            self._average.add(site, within, counted, num_samples)
            for group, weight in weights.items():
                held_back[group] += (1.0 - of_site.get(group, 1.0)) * weight
            if self._add_to_second(site, within, num_samples, of_site):
                for group in of_second:
                    of_second[group] += (1.0 - of_site.get(group, 1.0)) * num_samples
        if any(held_back.values()):
            self._average.add_global_model(held_back)
        if self._second is not None and any(of_second.values()):
            self._second.add_global_model(of_second)

    def _of_all_groups(self, factors: Mapping[str, float]) -> dict[str, float]:
        smallest: dict[str, float] = {}
        for group, factor in factors.items():
            block = self._block_of_group[group]
            smallest[block] = min(factor, smallest.get(block, 1.0))
        return {group: factors.get(group, smallest.get(block, 1.0)) for group, block in self._block_of_group.items()}

    def give_up(self) -> None:
        """Drop what has been accepted."""
        with self._lock:
            for spool in (self._waiting, self._kept):
                if spool is not None:
                    spool.remove()
            self._waiting = self._kept = self.counted = None
            self._average = self._second = self._median = None

    def result(self) -> dict[str, torch.Tensor]:
        """Return the weighted average of the accepted results; once, then the round is closed."""
        if self._median is not None:
            params, self._median = self._median, None
            return params
        assert self._average is not None, "results that wait are weighed first"
        params = self._average.result()
        self._average = None
        return params

    def second_average(self) -> dict[str, torch.Tensor] | None:
        """Return the second average of the accepted results; once. None without one, or where it has too few sites.

        The bounds of influence that :meth:`weigh` was given hold in it, too.
        """
        second, self._second = self._second, None
        return second.result() if second is not None and len(second.sites) >= self._rule.fewest_results else None

    def _refusal(
        self, site: str, params: Mapping[str, torch.Tensor] | None, num_samples: int, round_number: int | None
    ) -> RefusalReason | None:
        if self._average is None and self._waiting is None:
            return RefusalReason.of(RefusalCode.NO_ROUND)
        if round_number != self._round:
            return RefusalReason.of(RefusalCode.OTHER_ROUND, round=str(round_number), expected=self._round)
        if any(site in added for added in (self._average, self._waiting) if added is not None):
            return RefusalReason.of(RefusalCode.SECOND_RESULT)
        limit = self._claim_limit
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or not 1 <= num_samples <= limit:
            return RefusalReason.of(RefusalCode.SAMPLES_OUT_OF_RANGE, samples=repr(num_samples), largest=limit)
        if not self._sites_to_come:
            return RefusalReason.of(RefusalCode.NOT_ASKED)
        if self._weights is not None and site not in self._weights.sites:
            return RefusalReason.of(RefusalCode.JOINED_LATE)
        if not params:
            return RefusalReason.of(RefusalCode.NO_MODEL)
        return refusal_reason(params, self._global_model, self._limits)

    def _empty_average(self) -> StreamingAverage:
        return self._average_by_samples() if self._weights is None else self._average_of(1.0)

    def _average_by_samples(self) -> StreamingAverage:
        return self._average_of(float(MAX_TOTAL_SAMPLES))

    def _average_of(self, total_weight: float) -> StreamingAverage:
        if self._rule.rule == "trimmed_mean":
            return TrimmedMean(self._global_model, self._group_of, total_weight, trim=self._rule.trim)
        return StreamingAverage(self._global_model, self._group_of, total_weight)

    def _add_to_second(
        self,
        site: str,
        params: Mapping[str, torch.Tensor],
        num_samples: int,
        factors: Mapping[str, float] | None = None,
    ) -> bool:
        """Add a result to the second average; False where it is not in it."""
        if self._second is None or site in self._not_in_second:
            return False
        weights = {group: (factors or {}).get(group, 1.0) * num_samples for group in self._block_of_group}
        self._second.add(site, params, weights, num_samples)
        return True

    def _group_weights(self, site: str, num_samples: int) -> dict[str, float]:
        of_blocks = self._site_weights(site, num_samples)
        return {group: of_blocks[block] for group, block in self._block_of_group.items()}

    def _site_weights(self, site: str, num_samples: int) -> dict[str, float]:
        if self._weights is None:
            return dict.fromkeys(self._blocks, float(num_samples))
        return self._weights.of(site)
