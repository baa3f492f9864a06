"""The rollback check of `auto`, for masks and for classes, at the server: the model in use compared with one
without what was done, on patients not learnt.

Where weights are others than numbers of samples, the other model is the average of the same updates by these numbers.
Where sites correct something no average of the same updates is what federated averaging would have made; the other
model is then the one that it had made before. The check may only veto: where the other model is better by more than its
interval, `auto` takes everything back and is federated averaging from then on. It finds no harm that is smaller than
what training has gained since, nor what all sites do alike: scores on given annotations prefer the model that errs as
they do, so that only reviewed cases tell where the reference level is.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

import torch
from torch import nn

from ....transforms.strict_files import JsonObject
from ...annotation_bias.estimate import Estimate, received
from ...annotation_bias.estimate_record import plain_estimate
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Round
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...settings import RunSettings
from ...task_names import COMPARE_SCORES, KEEP_SCORES
from .outbound import HELD_OUT_GAIN, REVIEWED_GAIN
from .records import NotCompared, RollbackOf, RollbackRecord, RollbackRoundRecord, RollbackScore
from .rollback_gains import fewest_found, mean_of_rounds, negative, pooled_gains
from .rollback_scores import paired_gain, patient_dice
from .scored_cases import PatientScores
from .thresholds import THRESHOLDS
from .version_1 import state_of_version_1


class RollbackState(TypedDict):
    """What is kept over a restart; ``shadow_of`` says what the other model is."""

    rounds: list[JsonObject]
    shadow_of: str | None
    before_round: int | None
    not_compared: str | None
    asks_sites: bool
    is_closed: bool
    kept_round: int | None
    of_server: dict[str, float]


class RollbackCheck:
    """Compares models for some rounds after something was done, and then decides once.

    Args:
        settings: the job's.
        rounds: number of rounds that are compared; 0 for no check.
        scores: of each of the server's reviewed patients by a model; None for Dice.
        score: what all scores are.
    """

    def __init__(
        self,
        settings: RunSettings,
        rounds: int,
        scores: PatientScores | None = None,
        score: RollbackScore = RollbackScore.DICE,
    ) -> None:
        self._settings, self._wanted = settings, rounds
        self._scores, self._score = scores or self._dice, score
        self._rounds: list[RollbackRoundRecord] = []
        self._rollback_of: RollbackOf | None = None
        self._before_round: int | None = None
        self._not_compared: NotCompared | None = None
        self._asks_sites, self._is_closed = True, rounds == 0
        self._kept_round: int | None = None
        self._of_server: dict[str, float] = {}

    @property
    def is_open(self) -> bool:
        """Whether rounds are still to be compared."""
        return not self._is_closed and len(self._rounds) < self._wanted

    @property
    def has_vetoed(self) -> bool:
        """Whether the other model was better by more than its interval, over all compared rounds."""
        return len(self._rounds) == self._wanted > 0 and mean_of_rounds(self._rounds).low > 0

    @property
    def message(self) -> dict[str, int]:
        """What sites have to know: with which scores they compare those of the model that comes along."""
        return {} if self._kept_round is None else {"kept_round": self._kept_round}

    def begin(self, this_round: Round, *, corrects: bool, weighs: bool) -> bool:
        """Begin a round; return whether its models are to be averaged a second time, by numbers of samples.

        Args:
            this_round: before its training.
            corrects: whether any site has corrected something.
            weighs: whether the round's weights are others than numbers of samples.
        """
        if not self.is_open:
            return False
        if weighs and self._rollback_of is None:
            self._rollback_of = RollbackOf.WEIGHTS_BY_SAMPLES
        elif corrects and self._rollback_of is None:
            self._rollback_of, self._before_round = RollbackOf.MODEL_BEFORE, this_round.number
            self._keep(this_round)
        return weighs and self._rollback_of is RollbackOf.WEIGHTS_BY_SAMPLES

    def compare(self, this_round: Round, may_be_asked: Collection[str]) -> None:
        """Let sites and the server score the models of a round that is trained.

        Args:
            this_round: with its second average, where that was to be made.
            may_be_asked: sites whose given annotations may say which model is better; reviewed ones of all sites do.
        """
        if not self.is_open or self._rollback_of is None:
            return
        is_before = self._rollback_of is RollbackOf.MODEL_BEFORE
        if not is_before:
            if this_round.second_average is None:
                return
            self._keep(this_round)
        other = None if is_before else this_round.second_average
        gains, of_server = self._of_sites(this_round, other, may_be_asked), self._at_server(this_round, other)
        if this_round.is_stopped():
            return
        if not gains and of_server is None:
            self._is_closed = not self._asks_sites
            return
        pooled = pooled_gains(gains, of_server, this_round.bounds)
        result = plain_estimate(negative(pooled) if is_before else pooled)
        self._rounds.append(RollbackRoundRecord(round=this_round.number, sites=len(gains), **result))
        compared, wanted = len(self._rounds), self._wanted
        this_round.info(f"Rollback check: {compared} of {wanted} rounds compared; vetoed: {self.has_vetoed}.")

    def _keep(self, this_round: Round) -> None:
        """Let scores of the global model be kept."""
        self._kept_round = this_round.number
        if self._asks_sites and self._may_ask(this_round):
            answers = this_round.ask(KEEP_SCORES)
            if not any(answer["has_scored"] for answer in answers.values()):
                self._asks_sites, self._not_compared = False, NotCompared.NO_PATIENTS
        if (reviewed := this_round.reviewed()) is not None:
            self._of_server = self._scores(*reviewed)

    def _of_sites(
        self, this_round: Round, other: Mapping[str, torch.Tensor] | None, may_be_asked: Collection[str]
    ) -> dict[str, Estimate]:
        """By how much a model scores better than the one whose scores are kept; the global one without another one."""
        if not (self._asks_sites and self._may_ask(this_round)):
            return {}
        answers = this_round.ask(COMPARE_SCORES, None, other)
        gains = {site: gain for site, answer in answers.items() if (gain := _gain(answer, site in may_be_asked))}
        if not gains:
            self._asks_sites, self._not_compared = False, NotCompared.TOO_FEW_PATIENTS
        return gains

    def _at_server(self, this_round: Round, other: Mapping[str, torch.Tensor] | None) -> Estimate | None:
        """As above on the server's reviewed patients; None without enough of them."""
        if (reviewed := this_round.reviewed(other)) is None:
            return None
        gain = paired_gain(self._of_server, self._scores(*reviewed), seed=derive_seed(self._settings.seed, "shadow"))
        return gain if gain.patients >= MINIMUM_CASES else None

    def _dice(self, network: nn.Module, data: SiteData) -> dict[str, float]:
        return patient_dice(network, data, self._settings.network.num_classes, Inference.of(self._settings))

    def _may_ask(self, this_round: Round) -> bool:
        """Whether nobody who gets the models finds the update of few sites; one from before tells nothing new."""
        if self._rollback_of is not RollbackOf.WEIGHTS_BY_SAMPLES:
            return True
        weights, samples = this_round.weighed, this_round.samples_of_reports
        # In a coordinate those that differ may be just the ones that are dropped.
        dropped = self._settings.aggregation.num_dropped
        if weights is not None and fewest_found(weights, samples) - dropped >= THRESHOLDS.min_sites_of_two_averages:
            return True
        self._not_compared = NotCompared.SINGLE_SITES
        return False

    def state(self) -> RollbackState:
        """Return what was compared as plain values; scores are of the server's own cases alone."""
        return {
            "rounds": [item.plain() for item in self._rounds],
            "shadow_of": None if self._rollback_of is None else self._rollback_of.value,
            "before_round": self._before_round,
            "not_compared": None if self._not_compared is None else self._not_compared.value,
            "asks_sites": self._asks_sites,
            "is_closed": self._is_closed,
            "kept_round": self._kept_round,
            "of_server": dict(self._of_server),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it back; the state of version 1, with sentences, is read as well."""
        if "shadow_is" in state:
            state = state_of_version_1(state)
        self._rounds = [RollbackRoundRecord.model_validate(item) for item in state["rounds"]]
        rollback, reason = state["shadow_of"], state["not_compared"]
        self._rollback_of = None if rollback is None else RollbackOf(rollback)
        self._before_round = state["before_round"]
        self._not_compared = None if reason is None else NotCompared(reason)
        self._asks_sites, self._is_closed = state["asks_sites"], state["is_closed"]
        self._kept_round, self._of_server = state["kept_round"], dict(state["of_server"])

    @property
    def record(self) -> RollbackRecord | None:
        """What was compared, and what follows; None where nothing was to be checked."""
        if self._rollback_of is None:
            return None
        return RollbackRecord(
            rollback_of=self._rollback_of,
            score=self._score,
            before_round=self._before_round,
            wanted_rounds=self._wanted,
            rounds=tuple(self._rounds),
            has_vetoed=self.has_vetoed,
            not_compared=None if self._rounds else self._not_compared or NotCompared.NO_ROUND,
        )


def _gain(answer: Mapping[str, Any], may_be_asked: bool) -> Estimate | None:
    """A site's gain on reviewed patients; else on held-out ones, where their annotations may be asked."""
    reviewed, held_out = received(REVIEWED_GAIN, answer)[0], received(HELD_OUT_GAIN, answer)[0]
    if reviewed.is_known:
        return reviewed
    return held_out if may_be_asked and held_out.is_known else None
