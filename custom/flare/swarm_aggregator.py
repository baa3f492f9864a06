"""Averaging in a swarm, at whichever site it is: the checks and the bits of a server."""

import threading
from collections.abc import Mapping
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.aggregator import Aggregator
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants

from ..aggregation.reported_counts import ReportedCounts, claim_limit
from ..aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from ..approval.own_limits import own_limits
from ..methods.lookup import method_of, read_job_settings
from ..networks.building import assign_blocks, layer_blocks
from ..networks.described import described_network
from ..outbound.registry import OutboundRegistry
from ..records.record_lines import append_record
from ..refusals import RefusalCode, RefusalReason
from ..run.averaged_round import AveragedRound
from ..run.reading import METRICS_FILE
from ..run.round_record import warn_of_dominance
from ..run.round_training import share_refusal, site_report
from ..settings import SettingsError
from ..task_names import TRAIN
from .kept_files import config_folder, own_folder
from .messages import REFUSAL_HEADER, SWARM_SITES
from .swarm_state import seconds_in_round


class SwarmAggregator(Aggregator):  # type: ignore[misc]
    """Averages the sites' models by their numbers of samples, at whichever site it is; the same bits as at a server.

    A result is checked as the server does; one that cannot be used is refused by name, and the round goes on with the
    others. A site may claim its part of what all may have, and later no more than in the first result of it that came
    to this site. The rounds that this site averages lie in its own folder of the run.

    Args:
        settings: the job's settings.

    Raises:
        SettingsError: if they bound the sites' influence or have another rule than the mean, which wants all results at
            one place before any counts.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = read_job_settings(settings)
        if self.settings.influence.has_bounds:
            raise SettingsError("settings.conf: key 'influence' needs a server; in a swarm it cannot be set.")
        if self.settings.aggregation.is_robust:
            raise SettingsError(
                f"settings.conf: key 'aggregation.rule' is {self.settings.aggregation.rule!r}, expected 'mean': "
                "another rule needs a server, in a swarm it cannot be set."
            )
        if asked := self.settings.needs_server:
            raise SettingsError(f"settings.conf: key {asked[0]!r} needs a server; in a swarm it cannot be set.")
        self._blocks = layer_blocks(described_network(self.settings.network), self.settings.blocks)
        self._registry = OutboundRegistry(method_of(self.settings).outbound_fields)
        self._average: RoundAverage | None = None
        self._round: AveragedRound | None = None
        self._claims = ReportedCounts(self.logger.warning)
        self._claim_limit = 0
        # A late answer may come in while the others are averaged.
        self._lock = threading.Lock()

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Add a site's result; False if it is refused."""
        site = fl_ctx.get_peer_context().get_identity_name()
        round_number = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
        with self._lock:
            if self._round is None or self._round.number != round_number:
                self._round = self._start_round(round_number, fl_ctx)
            reason = self._refuse_or_accept(site, shareable, self._round)
            if reason is not None:
                self._round.refused.setdefault(site, reason)
        if reason is not None:
            self.log_warning(fl_ctx, f"Refused {site}: {reason}.", fire_event=False)
        return reason is None

    def aggregate(self, fl_ctx: FLContext) -> Shareable:
        """Return the average.

        Raises:
            RuntimeError: if fewer sites than are needed gave a usable result, or one site has more of the model than
                this site allows; NVFlare then ends the run.
        """
        largest = own_limits(config_folder(fl_ctx)).largest_share
        with self._lock:
            assert self._round is not None
            if len(self._round.reports) < self.settings.min_sites:
                raise RuntimeError(
                    f"Round {self._round.number}: {len(self._round.reports)} usable results, at least "
                    f"{self.settings.min_sites} are needed."
                )
            if (refused := share_refusal(self._round.weights, largest)) is not None:
                raise RuntimeError(f"Round {self._round.number}: refused {refused[0]}: {refused[1]}.")
            assert self._average is not None
            params = self._average.result()
            self._keep(self._round, fl_ctx)
            self._round = None
        return DXO(DataKind.WEIGHTS, data=params).to_shareable()

    def reset(self, fl_ctx: FLContext) -> None:
        """Forget the round."""
        del fl_ctx
        self._round = None

    def _keep(self, averaged: AveragedRound, fl_ctx: FLContext) -> None:
        """Say what was averaged, and keep the round's record."""
        seconds = seconds_in_round(fl_ctx)
        self.log_info(fl_ctx, averaged.describe(self.settings.rounds, seconds))
        warn_of_dominance(averaged.weights, lambda text: self.log_warning(fl_ctx, text, fire_event=False))
        append_record(own_folder(fl_ctx) / METRICS_FILE, averaged.record(self.settings.task, seconds))

    def _start_round(self, round_number: int, fl_ctx: FLContext) -> AveragedRound:
        weights = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)[ModelLearnableKey.WEIGHTS]
        reference = {name: torch.as_tensor(value) for name, value in weights.items()}
        num_sites = fl_ctx.get_prop(SWARM_SITES)
        self._claim_limit = claim_limit(num_sites)
        block_of = assign_blocks(reference, self._blocks)
        self._average = RoundAverage(SentModel(round_number, reference, block_of), AveragingPlan(num_sites))
        return AveragedRound(round_number)

    def _refuse_or_accept(self, site: str, shareable: Shareable, this_round: AveragedRound) -> RefusalReason | None:
        if (code := shareable.get_header(REFUSAL_HEADER)) is not None:
            return RefusalReason.reported(code) or RefusalReason.of(RefusalCode.NO_KNOWN_REASON)
        result = from_shareable(shareable)
        if result.data_kind != DataKind.WEIGHTS:
            return RefusalReason.of(RefusalCode.NO_MODEL)
        if (reason := self._registry.refusal(TRAIN, result.meta, self.settings.network.num_classes)) is not None:
            return reason
        samples = self._claims.counted(site, result.meta["num_samples"], self._claim_limit)
        assert self._average is not None
        reason = self._average.refuse_or_accept(
            site, result.data, samples, shareable.get_header(AppConstants.CURRENT_ROUND)
        )
        if reason is None:
            this_round.reports[site] = site_report(result.meta, self._registry, samples)
        return reason
