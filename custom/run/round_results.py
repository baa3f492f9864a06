"""The results of one round's training at the server: checked, counted, and added to the round's average."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..aggregation.drift import squared_distances
from ..aggregation.round_average import RoundAverage
from ..networks.layout import NetworkLayout
from ..outbound.registry import OutboundRegistry
from ..records.plain_values import finite
from ..records.round_records import SiteReport
from ..task_names import TRAIN
from .link import Reply


class RoundResults:
    """What sites send in one round.

    A result is checked before it counts; a site that fails is refused by name with the reason, and the round goes on
    with the others.

    Args:
        average: takes the models; it refuses those that it cannot use.
        reference: the global model that the sites train from.
        layout: which entries the network has.
        refusal: says why a report cannot be used, None if it can.
        counted: says how much of a site's number of samples counts.
        limit: the largest number of samples of one site.
        refuse: takes note of a site that is refused, and the reason.
        measures_drifts: whether :attr:`drifts` and :attr:`update_norms` are measured.
        keeps_statistics: whether :attr:`statistics` are kept.

    Attributes:
        reports: by site the registered fields beside the model.
        drifts: ‖θ_k − θ‖² of every model over the trained parameters.
        update_norms: ‖θ_k − θ‖ of every model in each group of parameters, see :class:`NetworkLayout`.
        statistics: each model's running statistics of normalisation.
        num_samples: of every site with a usable report, also of one that joined too late for this round.
    """

    def __init__(
        self,
        average: RoundAverage,
        reference: Mapping[str, torch.Tensor],
        layout: NetworkLayout,
        *,
        registry: OutboundRegistry,
        num_classes: int,
        counted: Callable[[str, int], int],
        limit: int,
        refuse: Callable[[str, str], None],
        measures_drifts: bool,
        keeps_statistics: bool,
    ) -> None:
        self._average = average
        self._reference = reference
        self._layout = layout
        self._registry = registry
        self._num_classes = num_classes
        self._counted = counted
        self._limit = limit
        self._refuse = refuse
        self._measures_drifts = measures_drifts
        self._keeps_statistics = keeps_statistics
        self.reports: dict[str, SiteReport] = {}
        self.drifts: dict[str, float] = {}
        self.update_norms: dict[str, dict[str, float]] = {}
        self.statistics: dict[str, dict[str, torch.Tensor]] = {}
        self.num_samples: dict[str, int] = {}

    def receive(self, reply: Reply) -> bool:
        """Take a site's result; False if it is refused."""
        reason = reply.problem or self._registry.refusal(TRAIN, reply.fields, self._num_classes)
        if reason is None:
            counted = self._counted(reply.site, reply.fields["num_samples"])
            reason = self._average.refuse_or_accept(reply.site, reply.params, counted, reply.round_number)
            # A site that joined late is refused this once, but its number of samples counts for the next weights.
            if 1 <= counted <= self._limit:
                self.num_samples[reply.site] = counted
            if reason is None and reply.params is not None:
                self._measure(reply.site, reply.params)
                self.reports[reply.site] = site_report(reply.fields, self._registry, counted)
        if reason is not None:
            self._refuse(reply.site, reason)
        return reason is None

    def _measure(self, site: str, params: Mapping[str, torch.Tensor]) -> None:
        if self._measures_drifts:
            squares = squared_distances(params, self._reference, self._layout.trained)
            self.drifts[site] = sum(squares.values())
            of_groups: dict[str, float] = {}
            for name, square in squares.items():
                group = self._layout.group_of[name]
                of_groups[group] = of_groups.get(group, 0.0) + square
            self.update_norms[site] = {group: math.sqrt(square) for group, square in of_groups.items()}
        if self._keeps_statistics:
            self.statistics[site] = {name: params[name].clone() for name in self._layout.statistics}


def site_report(fields: Mapping[str, Any], registry: OutboundRegistry, num_samples: int) -> SiteReport:
    """Return what is kept of what a site sent with its model: registered fields alone.

    Args:
        fields: what came beside the model.
        registry: the fields that a result may hold.
        num_samples: how much of the site's claim counts.
    """
    registered = [name for name, field in registry.of_task(TRAIN).items() if field.kind != "model"]
    report = {"train_loss": None} | {name: finite(fields[name]) for name in registered if name in fields}
    return SiteReport.model_validate(report | {"num_samples": num_samples})
