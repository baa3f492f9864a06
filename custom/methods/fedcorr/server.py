"""FedCorr at the server: whose labels are noisy, who trains in which stage, and when labels are replaced."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_NOISE_SHARE, ESTIMATE_SITE_NOISE
from ..fedavg.failed_sites import ASKED, failed_sites
from ..fedavg.server import FedAvgServer
from ..fednoro.noisy_sites import noisy_sites, warn_of_extremes
from .outbound import HAS_CORRECTED, NOISE_SHARE
from .settings import NoiseCorrectionSettings

# Goes to one site alone: μ_k.
SHARE_OF_NOISE = "fedannot_noise_share"
# Goes to one site alone: the round whose own model counts.
TRAINED_ROUND = "fedannot_own_model_round"

_FEWEST_SITES = 2


class FedCorrServer(FedAvgServer):
    """Divides the sites after every round of the first stage; noisy ones say what share of their labels is noisy.

    All sites train at once in the first stage: one after the other each would receive the model of a single site. Where
    labels are replaced, a site does so before the next round. In the second stage sites with few noisy labels train, at
    least `min_sites` of them and at least two, those with the smallest shares; after it the noisy sites replace all
    labels of which the model is confident. In the third all train. A site without a statistic counts as clean, and one
    that joins later does. A noisy site that says no share keeps its earlier one, else all of its labels count as noisy.
    """

    settings: NoiseCorrectionSettings

    def __init__(self, settings: NoiseCorrectionSettings) -> None:
        super().__init__(settings)
        self.noisy: tuple[str, ...] = ()
        self.shares: dict[str, float] = {}
        self._statistics: dict[str, list[float]] = {}
        self._trained: dict[str, int] = {}
        self._corrected: dict[str, int] = {}
        self._chosen: tuple[str, ...] = ()

    def stage(self, this_round: Round) -> str:
        """Return ``pre-processing``, ``fine-tuning`` or ``usual training``."""
        if this_round.number <= self.settings.preprocessing_rounds:
            return "pre-processing"
        return "fine-tuning" if this_round.number < self.settings.first_usual_round else "usual training"

    def before_round(self, this_round: Round) -> None:
        """Divide the sites after each round of the first stage; after the second let the noisy ones relabel."""
        number, settings = this_round.number, self.settings
        if 2 <= number <= settings.preprocessing_rounds + 1:
            self._divide(this_round)
        if settings.finetuning_rounds and number == settings.first_usual_round and settings.correction and self.noisy:
            answers = this_round.ask(CORRECT_ANNOTATIONS, self.noisy)
            self._corrected |= {site: number for site, answer in answers.items() if answer.get(HAS_CORRECTED)}
            if silent := sorted(set(self.noisy) - set(answers)):
                this_round.warning(f"{silent} did not relabel: their labels stay as they are.")

    def _divide(self, this_round: Round) -> None:
        places = {site: {TRAINED_ROUND: number} for site, number in self._trained.items()}
        answers = this_round.ask(ESTIMATE_SITE_NOISE, sorted(places), own_messages=places)
        for site, answer in sorted(answers.items()):
            value = answer.get(self.settings.statistic_field)
            if value is not None and math.isfinite(value):
                self._statistics.setdefault(site, []).append(float(value))
        if this_round.is_stopped():
            return
        self.noisy = noisy_sites({site: [math.fsum(row) / len(row)] for site, row in self._statistics.items()})
        self.shares = {site: self.shares[site] for site in self.noisy if site in self.shares}
        self._warn_of_extremes(this_round)
        if not self.noisy:
            this_round.warning("No site is noisier than the others, or too few have a statistic.")
            return
        answers = this_round.ask(ESTIMATE_NOISE_SHARE, self.noisy, own_messages=places)
        for site, answer in sorted(answers.items()):
            share = answer.get(NOISE_SHARE)
            if share is not None and 0.0 <= share <= 1.0:
                self.shares[site] = float(share)
                if self.settings.correction:
                    self._corrected[site] = this_round.number
        shown = {site: round(share, 3) for site, share in self.shares.items()}
        this_round.info(f"Noisy sites: {list(self.noisy)}; shares of noisy labels: {shown}.")

    def _warn_of_extremes(self, this_round: Round) -> None:
        """Say whose statistic hides those of others."""
        warn_of_extremes(
            {site: math.fsum(row) / len(row) for site, row in sorted(self._statistics.items())}, this_round.warning
        )

    def own_messages(self, this_round: Round) -> Mapping[str, Mapping[str, object]]:
        """Return in the first stage which model of a site counts, and its share of noisy labels."""
        if this_round.number > self.settings.preprocessing_rounds:
            return {}
        places = {site: {TRAINED_ROUND: number} for site, number in self._trained.items()}
        shares = {site: {SHARE_OF_NOISE: share} for site, share in self.shares.items()}
        return {site: {**places.get(site, {}), **shares.get(site, {})} for site in sorted({*places, *shares})}

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Sequence[str]:
        """Return in the second stage the sites with few noisy labels, else all.

        Sites that failed of late come after the others.
        """
        self._chosen = tuple(sites)
        if self.stage(this_round) == "fine-tuning":
            shares = {site: self.shares.get(site, 1.0 if site in self.noisy else 0.0) for site in sites}
            failed = failed_sites(this_round.history, sites)
            order = sorted(sites, key=lambda site: (site in failed, shares[site], site))
            clean = sum(shares[site] <= self.settings.clean_share for site in sites if site not in failed)
            self._chosen = tuple(sorted(order[: max(clean, self.settings.min_sites, _FEWEST_SITES)]))
        return self._chosen

    def after_training(self, this_round: Round) -> None:
        """Take note of who has trained, and of sites that have lost their corrections."""
        for site, report in sorted(this_round.reports.items()):
            self._trained[site] = this_round.number
            if site in self._corrected and not report.extra.get(HAS_CORRECTED, False):
                this_round.warning(f"{site} no longer has its corrections, and trains on its given labels.")
                del self._corrected[site]

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return who was asked to train, and the shares of noisy labels so far."""
        return {**super().record(this_round), ASKED: list(self._chosen), "noise_shares": dict(self.shares)}

    def state(self) -> dict[str, Any]:
        """Return the statistics, the noisy sites, their shares, and who has trained and corrected when."""
        return {
            "statistics": self._statistics,
            "noisy_sites": list(self.noisy),
            "noise_shares": self.shares,
            "trained": self._trained,
            "corrected": self._corrected,
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back."""
        del history
        self._statistics = {site: list(row) for site, row in state.get("statistics", {}).items()}
        self.noisy, self.shares = tuple(state.get("noisy_sites", ())), dict(state.get("noise_shares", {}))
        self._trained, self._corrected = dict(state.get("trained", {})), dict(state.get("corrected", {}))

    def describe(self, this_round: Round) -> dict[str, Any]:
        """Return the mean statistic of each site, who is noisy, by what share, and before which round it relabelled."""
        del this_round
        return {
            "site_statistics": {site: math.fsum(row) / len(row) for site, row in sorted(self._statistics.items())},
            "noisy_sites": list(self.noisy),
            "noise_shares": dict(sorted(self.shares.items())),
            "corrected_before_round": dict(sorted(self._corrected.items())),
        }
