"""FedIA at the server: weights by the completeness of annotations, and when sites correct theirs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from ...aggregation.weighting import LayerWeights, completed_weights, quantity_weights
from ...run.records import RoundRecord, SiteReport
from ..fedavg.server import FedAvgServer
from ..views import Round, WaitingModels, WeightsRule
from .answers import LesionCounts
from .completeness import Completeness, IouLine, completeness_weights, iou_of_dice_loss
from .outbound import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS
from .records import CompletenessFindings, CompletenessRecord
from .settings import FedIASettings

# A site that was absent for this many rounds no longer counts when all have to have corrected.
_ABSENT_ROUNDS = 5


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
    estimate is made anew, a bounded number of times.
    """

    settings: FedIASettings

    def __init__(self, settings: FedIASettings) -> None:
        super().__init__(settings)
        self.completeness: dict[str, Completeness] | None = None
        self._warmup_end = 0
        self._lines: dict[str, IouLine] = {}
        self._due: set[str] = set()
        self._corrected: dict[str, int] = {}

    # --- the course of a round

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def before_round(self, this_round: Round) -> None:
        """Estimate the completeness when the warm-up is over; later ask sites for corrections."""
        if self.completeness is None:
            if this_round.number > self.settings.warmup_rounds:
                self._estimate(this_round)
        elif self.settings.correction:
            self._note_lost_corrections(this_round)
            if not self._all_have_corrected(this_round):
                self._ask_for_corrections(this_round)

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up``, ``completeness-aware`` or ``corrected``."""
        if self.completeness is None:
            return "warm-up"
        return "corrected" if self._all_have_corrected(this_round) else "completeness-aware"

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return Eq. 4 as a function of the round's losses, where it counts in this round."""
        counts = self.settings.weighting == "completeness" and self.stage(this_round) == "completeness-aware"

        def rule(models: WaitingModels) -> LayerWeights:
            del models
            return self._completeness_weights(this_round)

        return rule if counts else None

    def _completeness_weights(self, this_round: Round) -> LayerWeights:
        """Eq. 4's weights; a site without an estimate or a loss keeps its quantity weight."""
        assert self.completeness is not None
        losses = {
            # None stands for NaN: nothing is annotated, and the loss without an annotation is 1.
            site: 1.0 if report.dice_loss is None else report.dice_loss
            for site, report in this_round.reports.items()
            if report.has_dice_loss and site in self.completeness
        }
        quantity = quantity_weights(this_round.samples_of_reports)
        weights = (
            completeness_weights({site: self.completeness[site].value for site in losses}, losses) if losses else {}
        )
        return LayerWeights.same_in_all_blocks(completed_weights(weights, quantity), this_round.blocks)

    # --- estimate and corrections

    def _estimate(self, this_round: Round) -> None:
        answers = {site: LesionCounts.of(fields) for site, fields in this_round.ask(ESTIMATE_COMPLETENESS).items()}
        if this_round.is_stopped():
            return
        estimates = {site: self._estimate_of(counts) for site, counts in answers.items() if counts is not None}
        blind = [site for site, estimate in estimates.items() if not estimate.is_estimable]
        extra_rounds = this_round.number - 1 - self.settings.warmup_rounds
        says_nothing = not estimates or 2 * len(blind) > len(estimates)
        if says_nothing and extra_rounds < self.settings.max_extra_warmup_rounds:
            what = f"The warm-up model finds no lesion at {blind}" if blind else "No site has an estimate"
            this_round.warning(f"{what}: one more warm-up round.")
            return
        self.completeness, self._warmup_end = estimates, this_round.number - 1
        self._lines = self._fit_lines(this_round.history)
        for site, estimate in estimates.items():
            what = (
                f"{estimate.value:.2f}" if estimate.is_estimable else "not estimable (no lesion predicted), taken as 1"
            )
            this_round.info(
                f"Completeness of {site}: {what}; {estimate.num_annotated} lesions annotated, "
                f"{estimate.num_predicted} predicted."
            )
        for site in sorted(set(this_round.num_samples) - set(estimates)):
            this_round.warning(f"{site} has no estimate of its completeness and is weighed by its number of samples.")
        for site in sorted(set(this_round.num_samples) - set(self._lines)):
            this_round.warning(f"{site} reported no Dice loss in the warm-up and is not asked for corrections.")

    def _estimate_of(self, counts: LesionCounts) -> Completeness:
        if self.settings.estimator == "matched":
            # A site that gives noise to its counts, or lies, may send more lesions that match than are predicted.
            matched = min(counts.matched, counts.predicted)
            return Completeness.of_matches(counts.annotated, counts.predicted, matched)
        return Completeness.of_counts(counts.annotated, counts.predicted)

    def _ask_for_corrections(self, this_round: Round) -> None:
        last = this_round.history[-1]
        if last.round > self._warmup_end:
            for site, line in self._lines.items():
                iou = _iou(last.sites.get(site))
                if site not in self._corrected and line.asks_for_correction(
                    last.round, iou, self.settings.correction_margin
                ):
                    self._due.add(site)
        for site, answer in this_round.ask(CORRECT_ANNOTATIONS, self._due).items():
            if answer.get("has_corrected"):
                self._due.discard(site)
                self._corrected[site] = this_round.number
                this_round.info(f"{site} corrected its annotations before round {this_round.number}.")
        if self._all_have_corrected(this_round):
            this_round.info(
                f"Every site has corrected its annotations: federated averaging from round {this_round.number} on."
            )

    def _note_lost_corrections(self, this_round: Round) -> None:
        """Ask a site anew that has corrected its annotations and trained on the given ones all the same."""
        for site, report in this_round.history[-1].sites.items():
            if site in self._corrected and not report.extra.get("has_corrected", False):
                this_round.warning(f"{site} no longer has its corrected annotations; it is asked for them again.")
                del self._corrected[site]
                self._due.add(site)

    def _fit_lines(self, history: Sequence[RoundRecord]) -> dict[str, IouLine]:
        """The line through the IoU of each site that reported any in the warm-up."""
        warmup = [record for record in history if record.round <= self._warmup_end]
        sites = sorted({site for record in warmup for site in record.sites})
        values = {site: [_iou(record.sites.get(site)) for record in warmup] for site in sites}
        return {site: IouLine.fit(ious) for site, ious in values.items() if not all(map(math.isnan, ious))}

    def _all_have_corrected(self, this_round: Round) -> bool:
        """Whether every site has corrected that is there and can be asked; False if there is none of them."""
        if not self.settings.correction:
            return False
        recent = this_round.history[-_ABSENT_ROUNDS:]
        present = {site for record in recent for site in record.sites}
        awaited = present & set(self._lines)
        return bool(awaited) and awaited <= set(self._corrected)

    # --- state

    def state(self) -> dict[str, Any]:
        """Return estimates and corrections as plain values."""
        estimates = self.completeness
        return {
            "completeness": None if estimates is None else {site: list(astuple(e)) for site, e in estimates.items()},
            "warmup_end": self._warmup_end,
            "due": sorted(self._due),
            "corrected": dict(self._corrected),
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take estimates and corrections back."""
        if state.get("completeness") is not None:
            self.completeness = {site: Completeness(*values) for site, values in state["completeness"].items()}
        self._warmup_end = state.get("warmup_end", 0)
        self._lines = self._fit_lines(history)
        self._due = set(state.get("due", []))
        self._corrected = dict(state.get("corrected", {}))

    def describe(self, this_round: Round) -> dict[str, Any]:
        """Return each site's completeness, and the round before which it corrected its annotations."""
        del this_round
        if self.completeness is None:
            return CompletenessFindings(completeness=None).plain()
        sites = {
            site: CompletenessRecord(
                estimate=estimate.value,
                is_estimable=estimate.is_estimable,
                num_annotated_lesions=estimate.num_annotated,
                num_predicted_lesions=estimate.num_predicted,
                corrected_before_round=self._corrected.get(site),
            )
            for site, estimate in self.completeness.items()
        }
        corrected = dict(sorted(self._corrected.items()))
        return CompletenessFindings(completeness=sites, corrected_before_round=corrected).plain()


def _iou(report: SiteReport | None) -> float:
    """The IoU of a site's round, NaN where it reported no Dice loss or has nothing annotated."""
    loss = None if report is None else report.dice_loss
    return math.nan if loss is None else iou_of_dice_loss(loss)
