"""FedHAC at the server: weights by completeness, the first loss that rises, and who corrects when."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from ....transforms.strict_files import JsonObject
from ...aggregation.weighting import LayerWeights
from ...interface.views import Round, WaitingModels, WeightsRule
from ...records.round_records import RoundRecord
from ...task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS
from ..fedavg.server import FedAvgServer
from ..fedia.completeness import Completeness, IouLine, as_lists, of_lists
from ..fedia.estimates import log_estimates, log_missing_estimates, warmup_goes_on, weights_of_losses
from ..fedia.loss_trigger import all_have_corrected, fit_lines, forget_lost_corrections, sites_below
from ..fedia.records import completeness_record
from .class_means import Prototypes, averaged_prototypes, median_prototypes, rows_of, without_rare_classes
from .followed_loss import followed, known_losses
from .groups import noisy_group
from .outbound import COUNTS, PROTOTYPES
from .prototypes import num_features_of, prototypes_of_round
from .settings import FedHACSettings

# Goes to all sites: whether features are drawn to prototypes in this round, and those that are means of the sites'.
HAS_PROTOTYPES, RECEIVED_PROTOTYPES = "fedannot_has_prototypes", "fedannot_prototypes"
_NOISY_DELAY = 1


class FedHACState(TypedDict):
    """What is kept over a restart: `risen` are the rounds in which losses rose, `corrected` those of corrections."""

    completeness: dict[str, list[Any]] | None
    warmup_end: int
    risen: dict[str, int]
    noisy: list[str]
    corrected: dict[str, int]
    prototypes: NotRequired[Prototypes]


class FedHACServer(FedAvgServer):
    """Federated averaging in the warm-up; then weights by completeness, and corrections by two groups of sites.

    As in FedIA, sites count lesions once after the warm-up, weigh softmax(â_k / ℓ_k), and a line is fitted to the IoU
    of each in the warm-up. The first site whose IoU falls below its line by more than λ, in round t*, sets the schedule
    of all. The sites with the higher losses until then are noisy, and correct before round t* + 1. The clean ones do
    before t* + 11, and prototypes end. Before t* + 21 all correct their given annotations once more, and numbers of
    samples are the weights again. Nothing of this happens while no loss rises.

    A site that is absent when it is due corrects when it is back; one that joins later counts as clean. A site without
    a line cannot rise, and corrects with its group. Of sites without an estimate or a loss see FedIA.
    """

    settings: FedHACSettings

    def __init__(self, settings: FedHACSettings) -> None:
        super().__init__(settings)
        self.completeness: dict[str, Completeness] | None = None
        self.noisy: tuple[str, ...] = ()
        self._loss_of = followed(settings.followed_loss)
        self._warmup_end = 0
        self._lines: dict[str, IouLine] = {}
        self._risen: dict[str, int] = {}
        self._corrected: dict[str, int] = {}
        self._prototypes: Prototypes | None = None

    # --- the course of a round

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up, unless its loss is FedHAC's own."""
        has_own_loss = self.settings.prototype_weight or self.settings.proximity_weight
        return 0 if has_own_loss else self.settings.warmup_rounds

    @property
    def trigger_round(self) -> int | None:
        """t*, the first round in which a loss rose; None before."""
        return min(self._risen.values(), default=None)

    def before_round(self, this_round: Round) -> None:
        """Estimate the completeness after the warm-up; later see whose loss has risen, and ask for corrections."""
        if self.completeness is None:
            if this_round.number > self.settings.warmup_rounds:
                self._estimate(this_round)
            return
        if not self.settings.correction:
            return
        forget_lost_corrections(this_round, self._corrected)
        if self.settings.schedule == "own" and self._is_over(this_round):
            return
        self._note_risen_losses(this_round)
        self._ask_for_corrections(this_round)

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up``, ``completeness-aware`` or ``corrected``."""
        if self.completeness is None:
            return "warm-up"
        return "corrected" if self._is_over(this_round) else "completeness-aware"

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return whether there are prototypes in this round, and which, once they are means of the sites' features."""
        start = self.trigger_round
        has_prototypes = start is None or this_round.number < start + self.settings.clean_delay
        received = {RECEIVED_PROTOTYPES: self._prototypes} if has_prototypes and self._prototypes else {}
        return {HAS_PROTOTYPES: has_prototypes, **received}

    def after_training(self, this_round: Round) -> None:
        """Average the sites' means to prototypes."""
        super().after_training(this_round)
        if self.settings.prototypes == "fixed" or not self.message(this_round)[HAS_PROTOTYPES]:
            return
        shape = (self.settings.network.num_classes + 1, num_features_of(self.settings.network))
        sent: dict[str, Prototypes] = {}
        for site, report in sorted(this_round.reports.items()):
            if not report.has(PROTOTYPES):
                continue
            try:
                sent[site] = rows_of(report.extra[PROTOTYPES], *shape)
            except ValueError as error:
                this_round.warning(f"The prototypes of {site} are not used: {error}")
        if sent:
            self._average(this_round, sent, shape)

    def _average(self, this_round: Round, sent: Mapping[str, Prototypes], shape: tuple[int, int]) -> None:
        """Average means; where softmax(â_k / ℓ_k) weighs models it weighs prototypes, before that softmax(1 / ℓ_k).

        With a robust rule of aggregation the median of each number counts. With it, or a bound of updates, a class that
        fewer than three sites send keeps its prototype.
        """
        known = self._prototypes or [None] * shape[0]
        self._prototypes = [new or old for new, old in zip(self._averaged(this_round, sent, shape), known, strict=True)]

    def _averaged(self, this_round: Round, sent: Mapping[str, Prototypes], shape: tuple[int, int]) -> Prototypes:
        if self.settings.aggregation.is_robust or self.settings.influence.max_update_ratio is not None:
            sent = without_rare_classes(sent, shape[0])
        if self.settings.aggregation.is_robust:
            return median_prototypes(sent, shape[0])
        estimates = dict.fromkeys(this_round.reports, Completeness(1.0, 0, 0))
        if self.completeness is not None and self.weights_rule(this_round) is not None:
            estimates = self.completeness
        weights = self._weights_of_losses(this_round, estimates)
        weights = this_round.bounds.bounded(weights, this_round.samples_of_reports)
        before = prototypes_of_round(self._prototypes, self.settings.seed, *shape).tolist()
        return averaged_prototypes(sent, weights, before, self.settings.influence.max_update_ratio)

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return softmax(â_k / ℓ_k) as a function of the round's losses, where it counts in this round."""
        completeness = self.completeness
        if completeness is None or self.settings.weighting == "quantity" or self._is_over(this_round):
            return None

        def rule(models: WaitingModels) -> LayerWeights:
            del models
            return self._weights_of_losses(this_round, completeness)

        return rule

    def _weights_of_losses(self, this_round: Round, estimates: Mapping[str, Completeness]) -> LayerWeights:
        return weights_of_losses(this_round, estimates, known_losses(self.settings.followed_loss, this_round.reports))

    def _is_over(self, this_round: Round) -> bool:
        """Whether numbers of samples are the weights again."""
        if not self.settings.correction:
            return False
        if self.settings.schedule == "own":
            return all_have_corrected(this_round.history, self._lines, self._corrected)
        start = self.trigger_round
        return start is not None and this_round.number >= start + self.settings.redo_delay

    # --- estimate and corrections

    def _estimate(self, this_round: Round) -> None:
        answers = this_round.ask(ESTIMATE_COMPLETENESS)
        estimates = {
            site: Completeness.of_counts(*(int(fields[f"num_{name}_lesions"]) for name in COUNTS))
            for site, fields in answers.items()
            # A site with too few patients has none.
            if "num_predicted_lesions" in fields
        }
        if this_round.is_stopped() or warmup_goes_on(this_round, estimates, self.settings):
            return
        self.completeness, self._warmup_end = estimates, this_round.number - 1
        self._lines = fit_lines(this_round.history, self._warmup_end, self._loss_of)
        log_estimates(this_round, estimates)
        log_missing_estimates(this_round, estimates)

    def _note_risen_losses(self, this_round: Round) -> None:
        """Note the sites whose loss rose in the last round; of groups only the first counts."""
        last, is_of_groups = this_round.history[-1], self.settings.schedule == "groups"
        if last.round <= self._warmup_end or (is_of_groups and self._risen):
            return
        risen = sites_below(self._lines, last, self._risen, self.settings.correction_margin, self._loss_of)
        self._risen |= dict.fromkeys(sorted(risen), last.round)
        if not risen or not is_of_groups:
            return
        self.noisy = noisy_group(this_round.history, last.round, this_round.num_samples, self._loss_of)
        this_round.info(
            f"The loss of {sorted(risen)} rose in round {last.round}. Noisy sites: {list(self.noisy)}; they correct "
            f"before round {last.round + _NOISY_DELAY}, the others before round "
            f"{last.round + self.settings.clean_delay}, all once more before {last.round + self.settings.redo_delay}."
        )

    def _ask_for_corrections(self, this_round: Round) -> None:
        """Ask the sites for whom it is time; who does not answer is asked again before the next round."""
        due = {site for site in this_round.num_samples if self._corrected.get(site, 0) < self._due(site, this_round)}
        if not due:
            return
        for site, answer in this_round.ask(CORRECT_ANNOTATIONS, due).items():
            if answer.get("has_corrected"):
                self._corrected[site] = this_round.number
                this_round.info(f"{site} corrected its annotations before round {this_round.number}.")

    def _due(self, site: str, this_round: Round) -> int:
        """The round before which a site had to correct last; 0 where it had not yet to."""
        start = self._risen.get(site) if self.settings.schedule == "own" else self.trigger_round
        if start is None:
            return 0
        delays = [_NOISY_DELAY]
        if self.settings.schedule == "groups":
            first = _NOISY_DELAY if site in self.noisy else self.settings.clean_delay
            delays = [first, self.settings.redo_delay]
        return max((start + delay for delay in delays if start + delay <= this_round.number), default=0)

    # --- state

    def state(self) -> FedHACState:
        """Return estimates, groups and corrections as plain values."""
        state: FedHACState = {
            "completeness": None if self.completeness is None else as_lists(self.completeness),
            "warmup_end": self._warmup_end,
            "risen": dict(self._risen),
            "noisy": list(self.noisy),
            "corrected": dict(self._corrected),
        }
        if self._prototypes:
            state["prototypes"] = self._prototypes
        return state

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back."""
        if state.get("completeness") is not None:
            self.completeness = of_lists(state["completeness"])
        self._warmup_end = state.get("warmup_end", 0)
        self._lines = fit_lines(history, self._warmup_end, self._loss_of)
        self._risen, self.noisy = dict(state.get("risen", {})), tuple(state.get("noisy", ()))
        self._corrected = dict(state.get("corrected", {}))
        self._prototypes = state.get("prototypes")

    def describe(self, this_round: Round) -> JsonObject:
        """Return each site's completeness, which sites are noisy since when, and before which round they corrected."""
        del this_round
        sites = {
            site: completeness_record(estimate, self._corrected.get(site), 0.0).plain()
            for site, estimate in (self.completeness or {}).items()
        }
        return {
            "completeness": None if self.completeness is None else sites,
            "trigger_round": self.trigger_round,
            "noisy_sites": list(self.noisy),
            "corrected_before_round": dict(sorted(self._corrected.items())),
        }
