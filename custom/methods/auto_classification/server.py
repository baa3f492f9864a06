"""`auto` for classification at the server: noise levels of all sites, and who corrects wrong labels."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple
from typing import Any, ClassVar, TypedDict

from torch import nn

from ....transforms.natural_order import natural_order
from ....transforms.strict_files import JsonObject
from ...annotation_bias.estimate import Estimate, received
from ...annotation_bias.estimate_record import ParameterRecord
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.method import ServerMethod
from ...interface.views import Round
from ...records.plain_values import finite
from ...records.round_records import RoundRecord
from ...task_names import CORRECT_LABELS, ESTIMATE_CONFUSION, USE_GIVEN_LABELS
from ..auto.records import RollbackFindings, RollbackScore
from ..auto.rollback_check import RollbackCheck, RollbackState
from ..fedavg.server import FedAvgServer
from .decision import Decision, SiteDecision, decide
from .outbound import CORRECTS_LABELS, NOISE_LEVEL, SUPPORT
from .records import ConfusionFindings, Follows, NoiseLevelEstimate, NoiseLevelRecord
from .settings import AutoClassificationSettings
from .treatments import TREATMENT, treatment_of


class AutoClassificationState(TypedDict):
    """What is kept over a restart: estimates by their rounds, the task that is due at sites, and since when others
    correct; the rollback check, and whether everything was rolled back; the state of the method that treats, None
    without one.
    """

    estimates: list[Any]
    supports: list[Any]
    due: dict[str, str]
    corrected: dict[str, int]
    rollback: RollbackState
    has_taken_back: bool
    treatment: Mapping[str, object] | None


class AutoClassificationServer(FedAvgServer):
    """Noise levels of sites are estimated, and the sites where they are confirmed correct wrong labels.

    Rounds 1..T are federated averaging. Then every site predicts its labels with the received model (task
    ``estimate_confusion``) and reports the fraction of wrong ones among the samples of which the model is most
    confident, with interval and error injection, never a case. A site whose noise level is confirmed is asked to
    correct it (``correct_labels``): it decides by itself which labels to change, and how to correct its loss. What
    one site is asked no other learns. All else is federated averaging; where nothing is confirmed, bit for bit.

    A second estimate comes later in the run. A site that is confirmed again, or not contradicted, corrects again with
    the better model; one that is contradicted uses its labels as they are given (``use_given_labels``). A site that
    does not answer, or has lost what it corrects, is asked before the next round again.

    For some rounds after labels were corrected the sites compare the model with that of before
    (:class:`fedannot.custom.methods.auto.rollback_check.RollbackCheck`). Where that is better beyond doubt, all sites
    use their labels as they are given from then on.

    With the treatment `fedgsca` no site corrects anything: from the first estimate on that establishes something all
    sites are treated by that method.
    """

    settings: AutoClassificationSettings
    site_scalars: ClassVar[tuple[str, ...]] = ("train_loss", "noise_level")

    def __init__(self, settings: AutoClassificationSettings) -> None:
        super().__init__(settings)
        self.estimates: dict[int, dict[str, Estimate]] = {}
        self.supports: dict[int, dict[str, Estimate]] = {}
        self._pending: dict[str, str] = {}
        self._corrected: dict[str, int] = {}
        self._rollback = RollbackCheck(
            settings, settings.rollback_rounds, self._accuracy, RollbackScore.BALANCED_ACCURACY
        )
        self._is_rolled_back = False
        treatment = treatment_of(settings)
        self._other = None if treatment is None else treatment[0].server_part(treatment[1])

    # --- the course of a round

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up``, ``federated averaging`` or ``corrected``, or the stage of the method that treats."""
        if this_round.number <= self.settings.warmup_rounds:
            return "warm-up"
        if (other := self._treating) is not None:
            return other.stage(this_round)
        return "corrected" if self._corrected else "federated averaging"

    def before_round(self, this_round: Round) -> None:
        """Estimate noise levels when it is time, and tell sites what follows."""
        if this_round.number <= self.settings.warmup_rounds:
            return
        if self._rollback.has_vetoed and not self._is_rolled_back:
            self._pending = dict.fromkeys({*self._corrected, *self._pending}, USE_GIVEN_LABELS)
            self._is_rolled_back = True
        self._note_lost(this_round)
        if this_round.number in self.settings.estimate_rounds and not self._is_rolled_back:
            self._estimate(this_round)
        for task in (CORRECT_LABELS, USE_GIVEN_LABELS):
            self._tell(this_round, task)

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return what the method that treats has to say to all sites, and that it does; else nothing."""
        other = self._treating
        if other is None:
            return self._rollback.message
        return {**other.message(this_round), TREATMENT: self.settings.treatment}

    def second_average_without(self, this_round: Round) -> Collection[str] | None:
        """Let scores of the model be kept before the first round with corrected labels; no second average is made."""
        self._rollback.begin(this_round, corrects=bool(self._corrected), weighs=False)
        return None

    def after_training(self, this_round: Round) -> None:
        """Let sites compare the models, and the method that treats take note of reports."""
        if (other := self._treating) is not None:
            other.after_training(this_round)
        if self.estimates:
            last = self.decision(max(self.estimates))
            self._rollback.compare(this_round, set(last.sites) - last.noisy)

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return what the method that treats adds to the record of a round."""
        added = {} if (other := self._treating) is None else other.record(this_round)
        return {**super().record(this_round), **added}

    @property
    def _treating(self) -> ServerMethod | None:
        """The published method in place of corrections, once anything was confirmed."""
        if self._other is None or not any(self.decision(number).noisy for number in self.estimates):
            return None
        return self._other

    def decision(self, before_round: int) -> Decision:
        """Return what was concluded before a round that had an estimate; what an earlier one has confirmed is in it."""
        earlier = max((number for number in self.estimates if number < before_round), default=None)
        return decide(
            self.estimates[before_round],
            self.supports[before_round],
            self.settings.neutral,
            self.settings.floor,
            before=None if earlier is None else self.decision(earlier),
        )

    # --- estimate and what follows

    def _estimate(self, this_round: Round) -> None:
        answers = this_round.ask(ESTIMATE_CONFUSION)
        if this_round.is_stopped():
            return
        self.estimates[this_round.number], self.supports[this_round.number] = (
            {site: received(name, fields)[0] for site, fields in sorted(answers.items())}
            for name in (NOISE_LEVEL, SUPPORT)
        )
        decided = self.decision(this_round.number)
        for site, one in decided.sites.items():
            this_round.info(f"Noise level of {site}: {_shown(one.estimate)}, {one.result.status}.")
        for site in sorted(set(this_round.num_samples) - set(decided.sites), key=natural_order):
            this_round.warning(f"{site} has no estimate of its noise level; it goes on as before.")
        self._note_moves(this_round)
        if self.settings.treatment == "none" or self._other is not None:
            return
        self._pending |= dict.fromkeys(decided.noisy, CORRECT_LABELS)
        self._pending |= dict.fromkeys(
            decided.not_noisy & (set(self._corrected) | set(self._pending)), USE_GIVEN_LABELS
        )

    def _note_moves(self, this_round: Round) -> None:
        """Say which noise levels moved by more than their intervals since the estimate before."""
        empty: dict[str, Estimate] = {}
        *_, before, last = (empty, *(self.estimates[number] for number in sorted(self.estimates)))
        for site in sorted(set(before) & set(last)):
            if before[site].low > last[site].high or before[site].high < last[site].low:
                this_round.warning(
                    f"The noise level of {site} moved by more than its interval: {_shown(before[site])} before, now "
                    f"{_shown(last[site])}."
                )

    def _tell(self, this_round: Round, task: str) -> None:
        asked = sorted(site for site, due in self._pending.items() if due == task)
        if not asked:
            return
        for site, answer in this_round.ask(task, asked).items():
            if answer[CORRECTS_LABELS] != (task == CORRECT_LABELS):
                continue
            del self._pending[site]
            if task == CORRECT_LABELS:
                self._corrected.setdefault(site, this_round.number)
                this_round.info(f"{site} corrects wrong labels from round {this_round.number} on.")
            else:
                self._corrected.pop(site, None)
                this_round.info(f"{site} uses its labels as they are given from round {this_round.number} on.")

    def _note_lost(self, this_round: Round) -> None:
        """Ask a site again that was asked to correct wrong labels and trained on the given ones all the same."""
        last = this_round.history[-1].sites if this_round.history else {}
        for site, report in last.items():
            if site in self._corrected and site not in self._pending and not report.extra.get(CORRECTS_LABELS, False):
                this_round.warning(f"{site} no longer has what it corrects; it is asked again.")
                del self._corrected[site]
                self._pending[site] = CORRECT_LABELS

    # --- state

    def state(self) -> AutoClassificationState:
        """Return estimates and what sites correct as plain values."""
        return {
            "estimates": _plain(self.estimates),
            "supports": _plain(self.supports),
            "due": dict(self._pending),
            "corrected": dict(self._corrected),
            "rollback": self._rollback.state(),
            "has_taken_back": self._is_rolled_back,
            "treatment": None if self._other is None else self._other.state(),
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take estimates and what sites correct back."""
        if self._other is not None and state.get("treatment") is not None:
            self._other.restore(state["treatment"], history)
        self.estimates, self.supports = (_estimates(state.get(name, [])) for name in ("estimates", "supports"))
        self._pending, self._corrected = (
            dict(state.get("due", {})),
            dict(state.get("corrected", state.get("undone", {}))),
        )
        # A state of an earlier version has no check.
        if "rollback" in state:
            self._rollback.restore(state["rollback"])
        self._is_rolled_back = state.get("has_taken_back", False)

    def describe(self, this_round: Round) -> JsonObject:
        """Return each site's estimate, interval, threshold, decision and reason, and who corrects wrong labels."""
        del this_round
        found = ConfusionFindings(
            noise_levels=tuple(self._described(number) for number in sorted(self.estimates)),
            corrected_from_round=dict(sorted(self._corrected.items())),
        )
        return found.plain() | RollbackFindings(rollback=self._rollback.record).plain()

    def _accuracy(self, network: nn.Module, data: SiteData) -> dict[str, float]:
        from .predicted_classes import patient_accuracy  # noqa: PLC0415

        return patient_accuracy(network, data, Inference.of(self.settings))

    def _described(self, number: int) -> NoiseLevelEstimate:
        decided, floor = self.decision(number), self.settings.floor
        return NoiseLevelEstimate(
            before_round=number,
            neutral=decided.neutral,
            right_labels=decided.right_labels,
            floor=floor,
            threshold=decided.neutral + floor,
            sites={site: self._described_site(one) for site, one in decided.sites.items()},
        )

    def _described_site(self, one: SiteDecision) -> NoiseLevelRecord:
        support = finite({"support": one.support.value, "support_low": one.support.low})
        known = ParameterRecord.of(one.estimate, one.result)
        return NoiseLevelRecord(**dict(known), **support, follows=self._follows(one))

    def _follows(self, one: SiteDecision) -> Follows:
        if self._treating is None and not one.is_noisy:
            return Follows.GIVEN if one.can_tell else Follows.UNCHANGED
        return Follows(self.settings.treatment)


def _plain(estimates: Mapping[int, Mapping[str, Estimate]]) -> list[Any]:
    return [
        [number, {site: list(astuple(one)) for site, one in of_round.items()}]
        for number, of_round in sorted(estimates.items())
    ]


def _estimates(plain: Sequence[Any]) -> dict[int, dict[str, Estimate]]:
    return {number: {site: Estimate(*values) for site, values in of_round.items()} for number, of_round in plain}


def _shown(estimate: Estimate) -> str:
    if not estimate.is_known:
        return "no estimate"
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
