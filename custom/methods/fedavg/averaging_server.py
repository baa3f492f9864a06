"""Federated averaging at the server with what its settings add: optimizer, correction of drift, sampling of sites."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...aggregation.server_optimizer import ServerOptimizer
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...seeding import derive_seed
from ...training.schedules import LearningRate
from .averaging_settings import AveragingSettings
from .control_variates import COUNTED_ROUND, IS_CONTROLLED, ServerVariate
from .failed_sites import ASKED, failed_sites
from .local_progress import accumulated_steps, reported_steps, scaled_mean, shares_of
from .server import FedAvgServer


class AveragingServer(FedAvgServer):
    """Averages by numbers of samples; with the defaults of its settings it does nothing else.

    Example:
        >>> from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
        >>> AveragingServer(SegmentationAveragingSettings()).needs_models
        False
    """

    settings: AveragingSettings

    def __init__(self, settings: AveragingSettings) -> None:
        super().__init__(settings)
        name = settings.server_optimizer.name
        self._optimizer = None if name == "none" else ServerOptimizer(settings.server_optimizer)
        self._variate = ServerVariate() if settings.drift_correction == "scaffold" else None
        self._num_sites = 0
        self._asked: tuple[str, ...] = ()

    @property
    def needs_models(self) -> bool:
        """Where drift is corrected: sites may differ in their numbers of steps."""
        return self.settings.drift_correction != "none"

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Sequence[str]:
        """Return the settings' fraction of the sites, at least `min_sites`, drawn by seed and round.

        Sites that failed of late are drawn after the others.
        """
        self._num_sites = len(sites)
        if self.settings.fraction < 1:
            # Rounded, so that 0.29 of 100 sites are 29.
            number = max(math.floor(round(self.settings.fraction * len(sites), 9)), self.settings.min_sites)
            chooser = random.Random(derive_seed(self.settings.seed, this_round.number, "sites to train"))
            failed = sorted(failed_sites(this_round.history, sites))
            others = [site for site in sites if site not in failed]
            drawn = chooser.sample(others, min(number, len(others)))
            sites = sorted(drawn + chooser.sample(failed, min(number - len(drawn), len(failed))))
        self._asked = tuple(sites)
        return sites

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return whether any site's control variate has counted, with SCAFFOLD."""
        del this_round
        return {} if self._variate is None else {IS_CONTROLLED: bool(self._variate.rounds)}

    def own_messages(self, this_round: Round) -> Mapping[str, Mapping[str, object]]:
        """Return in which round a site's control variate counted last, with SCAFFOLD."""
        del this_round
        rounds = {} if self._variate is None else self._variate.rounds
        return {site: {COUNTED_ROUND: number} for site, number in rounds.items()}

    def combine(self, this_round: Round) -> Mapping[str, torch.Tensor]:
        """Return the average, with drift corrected, and followed by the server's optimizer."""
        model = self._normalised(this_round) if self.settings.drift_correction == "fednova" else this_round.average
        if self._optimizer is not None:
            model = self._optimizer.step(this_round.params, model, this_round.trained)
        if self._variate is not None:
            model = dict(model) | self._variate.step(this_round, self._num_sites, self._rate(this_round))
        return model

    def _rate(self, this_round: Round) -> LearningRate:
        return LearningRate(self.settings.training, this_round.number, self.settings.rounds)

    def _normalised(self, this_round: Round) -> Mapping[str, torch.Tensor]:
        """FedNova: θ − τ_eff Σ p_k (θ − θ_k) / a_k with τ_eff = Σ p_k a_k; what is not trained is the average's."""
        shares, rate = shares_of(this_round), self._rate(this_round)
        steps = reported_steps(this_round, self.settings.training)
        scales = {site: accumulated_steps(self.settings.training, rate, number) for site, number in steps.items()}
        mean, total = scaled_mean(this_round, shares, scales)
        if mean is this_round.average:
            return mean
        beyond = total * sum(share * scales[site] for site, share in sorted(shares.items())) - 1.0
        result = dict(this_round.average)
        for name in this_round.trained:
            reached = mean[name].double()
            result[name] = (reached + beyond * (reached - this_round.params[name].double())).to(mean[name].dtype)
        return result

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return the sites that were asked to train, where not all were."""
        asked = {ASKED: list(self._asked)} if self.settings.fraction < 1 else {}
        return {**super().record(this_round), **asked}

    def state(self) -> Mapping[str, object]:
        """Return the server's optimizer and who has a control variate; the server's own is in the model."""
        parts = {"server_optimizer": self._optimizer, "control_variates": self._variate}
        return {**super().state(), **{name: part.state() for name, part in parts.items() if part is not None}}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back."""
        super().restore(state, history)
        if self._optimizer is not None:
            self._optimizer.restore(state["server_optimizer"])
        if self._variate is not None:
            self._variate.restore(state["control_variates"])
