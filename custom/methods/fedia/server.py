"""FedIA at the server: weights by the completeness of annotations, and when sites correct theirs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from ....transforms.strict_files import JsonObject
from ...aggregation.weighting import LayerWeights
from ...interface.views import Round, WaitingModels, WeightsRule
from ...records.round_records import RoundRecord
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS
from ..fedavg.server import FedAvgServer
from .answers import LesionCounts
from .completeness import Completeness, IouLine, as_lists, of_lists
from .confirmed_weights import confirmed_weights
from .estimates import log_estimates, log_missing_estimates, warmup_goes_on, weights_of_losses
from .loss_trigger import all_have_corrected, fit_lines, forget_lost_corrections, sites_below
from .records import CompletenessFindings, completeness_record
from .settings import FedIASettings


class FedIAState(TypedDict):
    """What is kept over a restart; ``due`` are the sites that are still to be asked to correct."""

    completeness: dict[str, list[Any]] | None
    warmup_end: int
    due: list[str]
    corrected: dict[str, int]
    estimates: int


class FedIAServer(FedAvgServer):
    """Annotation completeness-aware aggregation and correction (Xiang et al., MICCAI 2024, Sec. 2.2 to 2.4).

    Rounds 1..T are federated averaging. Then every site reports how many lesions it has annotated and how many the
    warm-up model finds there (task ``estimate_completeness``: ``num_annotated_lesions``, ``num_predicted_lesions``,
    ``num_matched_lesions``; nothing per case), which gives its completeness â_k (Eq. 3), once.

    From then on sites weigh softmax(â_k / ℓ_k) with the Dice loss ℓ_k that they report with their model (Eq. 4, 5); the
    models of a round wait for it on disk. The IoU that goes with that loss is followed: the server fits a line to each
    site's IoU of the warm-up (Eq. 6), and a site whose IoU falls below its line by more than λ (Eq. 7) gets the task
    ``correct_annotations`` before the next round's training, once. What a site is asked no other site learns.

    When every site has corrected, the rest is federated averaging. A site that was absent for 5 rounds, or that has no
    line because it never reported a Dice loss in the warm-up, is not waited for. A site without an estimate or a loss
    (it joined later, or has too few patients for a mean to leave it) weighs by quantity, and the others divide the
    rest. A site without any annotated lesion has a Dice loss of 1, whatever the model says.

    If the warm-up model finds no lesion at most sites, the estimate would say nothing: the warm-up goes on and the
    estimate is made again, a bounded number of times.

    The job's own form acts on what is confirmed alone. Sites send the interval of their completeness, and whether the
    model is fit as a reference for it. Where its interval ends below one, a site weighs less
    (:func:`confirmed_weights`, never fewer than half of the sites in effect), and corrects at once if the model is fit.
    Half-way through the remaining rounds the others are assessed again. A site that has corrected weighs by its given
    annotations: what no model predicts with confidence it still lacks. Where nothing is confirmed it is federated
    averaging bit for bit.
    """

    settings: FedIASettings

    def __init__(self, settings: FedIASettings) -> None:
        super().__init__(settings)
        self.completeness: dict[str, Completeness] | None = None
        self._estimates = 0
        self._warmup_end = 0
        self._lines: dict[str, IouLine] = {}
        self._pending: set[str] = set()
        self._corrected: dict[str, int] = {}

    # --- the course of a round

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def before_round(self, this_round: Round) -> None:
        """Estimate the completeness when it is time to; ask sites for corrections."""
        if self.completeness is None:
            if this_round.number > self.settings.warmup_rounds:
                self._estimate_first(this_round)
            if self.completeness is None or self.settings.trigger == "loss":
                return
        elif self._is_time_to_estimate(this_round.number):
            self._estimate_again(this_round)
        if self.settings.correction:
            self._pending.update(forget_lost_corrections(this_round, self._corrected))
            if not self._all_have_corrected(this_round):
                self._ask_for_corrections(this_round)

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up``, ``completeness-aware``, ``corrected`` or, if nothing is, ``federated averaging``."""
        if self.completeness is None:
            return "warm-up"
        if self._all_have_corrected(this_round):
            return "corrected"
        if self.settings.establishes_completeness and not self._confirmed:
            return "federated averaging"
        return "completeness-aware"

    def weights(self, this_round: Round) -> LayerWeights | None:
        """Return weights by the completeness that is confirmed below one, where they are asked for."""
        is_over = self.completeness is None or self._all_have_corrected(this_round)
        if self.settings.weighting != "established" or is_over or not self._confirmed:
            return None
        weights = confirmed_weights(
            this_round.num_samples,
            {site: value for site, value in self._confirmed.items() if site in this_round.num_samples},
            self.settings.completeness_scale,
            self.settings.least_effective_share,
        )
        return LayerWeights.same_in_all_blocks(weights, this_round.blocks)

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return Eq. 4 as a function of the round's losses, where it counts in this round."""
        counts = self.settings.weighting == "completeness" and self.stage(this_round) == "completeness-aware"

        def rule(models: WaitingModels) -> LayerWeights:
            del models
            assert self.completeness is not None
            return weights_of_losses(this_round, self.completeness)

        return rule if counts else None

    @property
    def _confirmed(self) -> dict[str, float]:
        """The completeness of the given annotations, of the sites where it is confirmed below one."""
        floor, known = self.settings.completeness_floor, self.completeness or {}
        return {site: found.value for site, found in known.items() if found.is_confirmed(floor)}

    # --- estimates

    def _is_time_to_estimate(self, number: int) -> bool:
        if not self.settings.establishes_completeness:
            return False
        first = self._warmup_end + 1
        due = first + self._estimates * (self.settings.rounds + 1 - first) // self.settings.estimates
        return self._estimates < self.settings.estimates and number >= due

    def _estimate_first(self, this_round: Round) -> None:
        estimates = self._asked(this_round)
        if this_round.is_stopped():
            return
        if warmup_goes_on(this_round, estimates, self.settings):
            return
        self.completeness, self._warmup_end, self._estimates = {}, this_round.number - 1, 1
        self._lines = fit_lines(this_round.history, self._warmup_end)
        self._take(estimates, this_round)
        log_missing_estimates(this_round, estimates)
        if self.settings.trigger == "estimate":
            return
        for site in sorted(set(this_round.num_samples) - set(self._lines)):
            this_round.warning(f"{site} reported no Dice loss in the warm-up and is not asked for corrections.")

    def _estimate_again(self, this_round: Round) -> None:
        estimates = self._asked(this_round, set(this_round.num_samples) - set(self._corrected))
        if not this_round.is_stopped():
            self._estimates += 1
            self._take(estimates, this_round)

    def _asked(self, this_round: Round, sites: Collection[str] | None = None) -> dict[str, Completeness]:
        """The estimates of the sites that have enough patients for one."""
        answers = this_round.ask(ESTIMATE_COMPLETENESS, sites)
        counts = {site: LesionCounts.of(fields) for site, fields in answers.items()}
        return {site: self._estimate_of(one) for site, one in counts.items() if one is not None}

    def _take(self, estimates: Mapping[str, Completeness], this_round: Round) -> None:
        """Take estimates over, say what they are, and note who is to correct."""
        assert self.completeness is not None
        self.completeness |= estimates
        self._pending |= {site for site, estimate in estimates.items() if self._asks_for_correction(estimate)}
        log_estimates(this_round, estimates)

    def _asks_for_correction(self, estimate: Completeness) -> bool:
        """Whether the completeness is confirmed below one, by a model that is fit as a reference for it."""
        settings = self.settings
        return (
            settings.correction
            and settings.trigger == "estimate"
            and estimate.is_confirmed(settings.completeness_floor)
            and estimate.is_predicted_well(settings.least_recall, settings.least_precision)
        )

    def _estimate_of(self, counts: LesionCounts) -> Completeness:
        if self.settings.estimator == "counts":
            return Completeness.of_counts(counts.annotated, counts.predicted)
        # A site that gives noise to its counts, or lies, may send more lesions that match than are predicted.
        matched = min(counts.matched, counts.predicted)
        estimate = Completeness.of_matches(counts.annotated, counts.predicted, matched)
        assessment = counts.assessment
        return estimate if assessment is None else replace(estimate, value=assessment.value, assessment=assessment)

    # --- corrections

    def _ask_for_corrections(self, this_round: Round) -> None:
        last = this_round.history[-1]
        if self.settings.trigger == "loss" and last.round > self._warmup_end:
            self._pending |= sites_below(self._lines, last, self._corrected, self.settings.correction_margin)
        for site, answer in this_round.ask(CORRECT_ANNOTATIONS, self._pending).items():
            if answer.get("has_corrected"):
                self._pending.discard(site)
                self._corrected[site] = this_round.number
                this_round.info(f"{site} corrected its annotations before round {this_round.number}.")
        if self._all_have_corrected(this_round):
            this_round.info(
                f"Every site has corrected its annotations: federated averaging from round {this_round.number} on."
            )

    def _all_have_corrected(self, this_round: Round) -> bool:
        """Whether every site has corrected whose loss is followed; False if there is none of them."""
        if not self.settings.correction or self.settings.trigger != "loss":
            return False
        return all_have_corrected(this_round.history, self._lines, self._corrected)

    # --- state

    def state(self) -> FedIAState:
        """Return estimates and corrections as plain values."""
        return {
            "completeness": None if self.completeness is None else as_lists(self.completeness),
            "warmup_end": self._warmup_end,
            "due": sorted(self._pending),
            "corrected": dict(self._corrected),
            "estimates": self._estimates,
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take estimates and corrections back."""
        if state.get("completeness") is not None:
            self.completeness = of_lists(state["completeness"])
        self._estimates = state.get("estimates", 0)
        self._warmup_end = state.get("warmup_end", 0)
        self._lines = fit_lines(history, self._warmup_end)
        self._pending = set(state.get("due", []))
        self._corrected = dict(state.get("corrected", {}))

    def describe(self, this_round: Round) -> JsonObject:
        """Return each site's completeness, and the round before which it corrected its annotations."""
        del this_round
        if self.completeness is None:
            return CompletenessFindings(completeness=None).plain()
        floor = self.settings.completeness_floor
        sites = {
            site: completeness_record(estimate, self._corrected.get(site), floor)
            for site, estimate in self.completeness.items()
        }
        corrected = dict(sorted(self._corrected.items()))
        return CompletenessFindings(completeness=sites, corrected_before_round=corrected).plain()
