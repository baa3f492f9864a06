"""The training of one round at the server: results are checked and counted, weights are found, models are averaged."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..aggregation.drift import squared_distances
from ..aggregation.influence import inner_ranges
from ..aggregation.quantised_updates import QuantisedUpdate, message_refusal
from ..aggregation.reported_counts import ReportedCounts, claim_limit
from ..aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from ..aggregation.weighting import LayerWeights, quantity_weights
from ..interface.method import ServerMethod
from ..interface.views import Round, WaitingModels
from ..networks.layout import NetworkLayout
from ..outbound.fields import PREPARATION
from ..outbound.registry import OutboundRegistry
from ..records.plain_values import finite
from ..records.round_records import SiteReport
from ..refusals import RefusalCode, RefusalReason
from ..settings import RunSettings
from ..task_names import TRAIN
from .free_memory import waiting_memory
from .transport import Params, Reply

# Rounding of sums of weights.
_SLACK = 1e-6


@dataclass(frozen=True)
class Averaged:
    """What comes of a round.

    Attributes:
        params: the average.
        weights: what the sites counted in it, within the bounds of influence.
        kept: the sites whose models multi-Krum kept, and of which alone the weights then are; None with other rules.
        second_average: the second average of the same results; None where the method asked for none.
        models: the sites' models as they count, where the method needs them; :meth:`RoundTraining.give_up` removes
            them.
    """

    params: dict[str, torch.Tensor]
    weights: LayerWeights
    kept: tuple[str, ...] | None = None
    second_average: dict[str, torch.Tensor] | None = None
    models: WaitingModels | None = None

    @property
    def chosen(self) -> dict[str, Any]:
        """What the round's record says of a rule that keeps some of the sites; empty with other rules."""
        return {} if self.kept is None else {"kept": self.kept}


@dataclass(frozen=True)
class TrainingRun:
    """What the trainings of all rounds of a run share.

    Attributes:
        settings: the job's settings.
        layout: which entries the network has.
        registry: the fields that a result may hold.
        claims: the sites' claims of training samples.
        waiting_folder: where models wait for their weights, if they have to.
        refuse: takes note of a site that is refused, and the reason.
    """

    settings: RunSettings
    layout: NetworkLayout
    registry: OutboundRegistry
    claims: ReportedCounts
    waiting_folder: Path
    refuse: Callable[[str, RefusalReason], None]


class RoundTraining:
    """Takes the sites' models of a round and averages them with the method's weights.

    A result is checked before it counts; a site that fails is refused by name with the reason, and the round goes on
    with the others.

    Args:
        run: what all rounds share.
        method: gives the weights before, or the rule that they follow from.
        this_round: the round.
        num_sites: how many sites are asked.

    Attributes:
        reports: by site the registered fields besides the model.
        drifts: ‖θ_k − θ‖² of every model over the trained parameters, where updates are bounded or the method asks.
        update_norms: ‖θ_k − θ‖ of every model in each group of parameters, under the same conditions; see
            :class:`NetworkLayout`.
        statistics: each model's running statistics of normalisation, where updates are bounded.
        num_samples: of every site with a usable report, also of one that joined too late for this round.
    """

    def __init__(self, run: TrainingRun, method: ServerMethod, this_round: Round, num_sites: int) -> None:
        settings, layout = run.settings, run.layout
        self._run, self._round = run, this_round
        self._rule = method.weights_rule(this_round)
        self._known = None if self._rule is not None else _checked(method.weights(this_round), settings.method)
        self._keeps = method.needs_models
        self._waits = (
            self._keeps or self._rule is not None or settings.influence.has_bounds or settings.aggregation.waits
        )
        self._bounds_updates = settings.influence.max_update_ratio is not None
        self._measures_drifts = self._bounds_updates or method.measures_drifts
        self._limit = claim_limit(max(num_sites, 1))
        self._average = RoundAverage(
            SentModel(this_round.number, this_round.params, layout.block_of, layout.group_of, layout.trained),
            AveragingPlan(
                num_sites=max(num_sites, 1),
                weights=self._known,
                wait_in=run.waiting_folder if self._waits else None,
                second_average_without=method.second_average_without(this_round),
                rule=settings.aggregation,
                waiting_memory=waiting_memory(settings.waiting_memory_mb),
            ),
        )
        self.reports: dict[str, SiteReport] = {}
        self.drifts: dict[str, float] = {}
        self.update_norms: dict[str, dict[str, float]] = {}
        self.statistics: dict[str, dict[str, torch.Tensor]] = {}
        self.num_samples: dict[str, int] = {}
        self.preparations: dict[str, list[float]] = {}

    def receive(self, reply: Reply) -> bool:
        """Take a site's result; False if it is refused."""
        run = self._run
        reason = reply.problem or run.registry.refusal(TRAIN, reply.fields, run.settings.network.num_classes)
        if reason is None:
            counted = run.claims.counted(reply.site, reply.fields["num_samples"], self._limit)
            params, reason = self._model_of(reply.params)
            if reason is None:
                reason = self._average.refuse_or_accept(reply.site, params, counted, reply.round_number)
            # A site that joined late is refused this once, but its number of samples counts for the next weights.
            if 1 <= counted <= self._limit:
                self.num_samples[reply.site] = counted
            if reason is None and params is not None:
                self._measure(reply.site, params)
                self.reports[reply.site] = site_report(reply.fields, run.registry, counted)
                if PREPARATION in reply.fields:
                    self.preparations[reply.site] = list(reply.fields[PREPARATION])
        if reason is not None:
            run.refuse(reply.site, reason)
        return reason is None

    def _model_of(self, sent: Params | None) -> tuple[Params | None, RefusalReason | None]:
        """A site's model by its message, or why there is none; a message in full precision is the model."""
        precision = self._run.settings.update_precision
        if precision == "fp32" or not sent:
            return sent, None
        reference, trained = self._round.params, self._run.layout.trained
        if (reason := message_refusal(sent, reference, precision, trained)) is not None:
            return None, reason
        return QuantisedUpdate(sent, reference, trained), None

    def _measure(self, site: str, params: Mapping[str, torch.Tensor]) -> None:
        layout = self._run.layout
        if self._measures_drifts:
            squares = squared_distances(params, self._round.params, layout.trained)
            self.drifts[site] = sum(squares.values())
            of_groups: dict[str, float] = {}
            for name, square in squares.items():
                group = layout.group_of[name]
                of_groups[group] = of_groups.get(group, 0.0) + square
            self.update_norms[site] = {group: math.sqrt(square) for group, square in of_groups.items()}
        if self._bounds_updates:
            self.statistics[site] = {name: params[name].clone() for name in layout.statistics}

    def give_up(self) -> None:
        """Drop what came."""
        self._average.give_up()

    def average(self) -> Averaged:
        """Return the average of what came, at least one result."""
        this_round, method = self._round, self._run.settings.method
        samples = this_round.samples_of_reports
        given = self._known if self._rule is None else _checked(self._rule(self._average.waiting), method)
        if given is not None and (missing := sorted(set(samples) - set(given.sites))):
            raise ValueError(f"The weights of the method {method!r} are without {missing}, whose models count.")
        weights = self._quantity(samples) if given is None else given.only(samples)
        bounded = this_round.bounds.weights(weights, samples)
        if self._waits:
            self._average.weigh(
                None if given is None and bounded is weights else bounded,
                this_round.bounds.update_factors(self.update_norms),
                inner_ranges([self.statistics[site] for site in sorted(self.statistics)]),
                keep=self._keeps,
            )
        kept = self._average.kept
        weighed = self._average.in_effect or (bounded if kept is None else bounded.only(kept))
        return Averaged(self._average.result(), weighed, kept, self._average.second_average(), self._average.counted)

    def _quantity(self, num_samples: Mapping[str, int]) -> LayerWeights:
        return LayerWeights.same_in_all_blocks(quantity_weights(num_samples), self._run.layout.blocks)


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


def checked_model(
    params: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], method: str
) -> dict[str, torch.Tensor]:
    """Return what a method combined to a model, if it is one like the global model.

    Args:
        params: what the method returned.
        reference: the global model.
        method: its name.

    Raises:
        ValueError: if entries are missing, unknown, of another shape or type, or a value is not finite.
    """
    if differing := sorted(set(params) ^ set(reference)):
        raise ValueError(
            f"The model that the method {method!r} combined has other entries than the global one: {differing[:3]}."
        )
    for name, expected in reference.items():
        tensor = params[name]
        if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
            raise ValueError(
                f"The model that the method {method!r} combined has {tensor.dtype} of shape {tuple(tensor.shape)} in "
                f"{name!r}, expected {expected.dtype} of shape {tuple(expected.shape)}."
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(
                f"The model that the method {method!r} combined is not finite in {name!r}; a smaller learning rate of "
                "the server or of the sites may help."
            )
    return {name: params[name] for name in reference}


def share_refusal(weights: LayerWeights, largest_share: float) -> tuple[str, RefusalReason] | None:
    """Return the site that has more of a layer block than it may, and why the round does not count; None if none has.

    Args:
        weights: of the round.
        largest_share: largest weight of one site in a layer block, by the limits of who averages.
    """
    site, weight = weights.strongest
    if weight <= largest_share + _SLACK:
        return None
    return site, RefusalReason.of(RefusalCode.WEIGHT_TOO_LARGE, weight=float(weight), largest=largest_share)


def site_report(fields: Mapping[str, Any], registry: OutboundRegistry, num_samples: int) -> SiteReport:
    """Return what is kept of what a site sent with its model: registered fields alone.

    How the site prepares images is kept once, with the run, as it does not change from round to round.

    Args:
        fields: what came besides the model.
        registry: the fields that a result may hold.
        num_samples: how much of the site's claim counts.
    """
    registered = [name for name, field in registry.of_task(TRAIN).items() if field.kind != "model"]
    registered.remove(PREPARATION)
    report = {"train_loss": None} | {name: finite(fields[name]) for name in registered if name in fields}
    return SiteReport.model_validate(report | {"num_samples": num_samples})
