"""The shadow check of `auto` at the server: two averages of the same updates, on patients they have not learnt.

One average is the round's own. The other one is without what `auto` has done: by numbers of samples, where weights are
others; else without the sites that undo something. It may only veto: where it is better by more than its interval,
`auto` takes everything back and is federated averaging from then on. It cannot find what all sites do alike: scores on
given annotations prefer the model that errs as they do, so only reviewed cases tell where zero lies.
"""

from collections.abc import Collection, Mapping
from typing import Any

import torch

from ...aggregation.weighting import LayerWeights
from ...channel.estimate import Estimate
from ...channel.estimate_fields import received
from ...channel.estimate_record import plain_estimate
from ...evaluation.inference import Inference
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...settings import RunSettings
from ..views import Round
from .outbound import COMPARE_SHADOW, HELD_OUT_GAIN, REVIEWED_GAIN, SCORE_IN_USE
from .records import ShadowRecord, ShadowRoundRecord
from .shadow_gains import fewest_found, mean_of_rounds, pooled_gains
from .shadow_scores import paired_gain, patient_dice

# Who gets both averages can find a mean of the updates of some sites: never of fewer than this, its own among them.
FEWEST_SITES = 3

_UPDATES = "the updates of single sites"
BY_QUANTITY, WITHOUT_UNDOING = "weights by numbers of samples", "the updates of the sites that undo nothing"


class ShadowCheck:
    """Compares averages for some rounds after something was undone, and then decides once.

    Args:
        rounds: number of rounds that are compared; 0 for no check.
    """

    def __init__(self, rounds: int) -> None:
        self._wanted = rounds
        self._rounds: list[ShadowRoundRecord] = []
        self._shadow_is = ""
        self._reason = ""
        self._asks_sites, self._is_closed = True, rounds == 0
        self._left_out: frozenset[str] | None = None
        self._samples: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether rounds are still to be compared."""
        return not self._is_closed and len(self._rounds) < self._wanted

    @property
    def has_vetoed(self) -> bool:
        """Whether the shadow was better by more than its interval, over all compared rounds."""
        return len(self._rounds) == self._wanted > 0 and self._mean.low > 0

    @property
    def message(self) -> dict[str, Any]:
        """What sites have to know: that a round is checked, and how many samples a model is of."""
        message: dict[str, Any] = {} if self._left_out is None else {"is_checked": True}
        if self._samples is not None:
            message["samples_of_model"] = self._samples
        return message

    def plan(
        self, undoing: frozenset[str], others: frozenset[str], *, weighs: bool, is_reviewed: bool = False
    ) -> frozenset[str] | None:
        """Return the sites that are left out of the coming round's second average; None where there is no second one.

        Args:
            undoing: sites that have undone something.
            others: the other sites.
            weighs: whether the round's weights are others than numbers of samples.
            is_reviewed: whether the server has reviewed cases, which it scores itself.
        """
        self._left_out = None
        if self.is_open and weighs:
            self._shadow_is, self._left_out = BY_QUANTITY, frozenset()
        elif self.is_open and undoing:
            self._shadow_is = WITHOUT_UNDOING
            if self._are_enough(undoing, others) or (is_reviewed and others):
                self._left_out = undoing
        return self._left_out

    def compare(self, this_round: Round, may_be_asked: Collection[str], settings: RunSettings) -> None:
        """Let sites and the server score both averages of a round that was planned and is trained.

        Args:
            this_round: with its second average.
            may_be_asked: sites whose given annotations may say which model is better; reviewed ones of all sites do.
            settings: the job's.
        """
        left_out, self._left_out = self._left_out, None
        if left_out is None or this_round.shadow is None or not self._is_as_planned(left_out, this_round):
            return
        gains = self._of_sites(this_round, left_out, may_be_asked) if self._asks_sites else {}
        of_server = _of_server(this_round, settings)
        if this_round.is_stopped():
            return
        if not gains and of_server is None:
            self._is_closed = not self._asks_sites
            return
        pooled = pooled_gains(gains, of_server, this_round.bounds)
        found = plain_estimate(pooled)
        self._rounds.append(ShadowRoundRecord(round=this_round.number, sites=len(gains), **found))
        this_round.info(self._sentence)

    def _of_sites(
        self, this_round: Round, left_out: frozenset[str], may_be_asked: Collection[str]
    ) -> dict[str, Estimate]:
        """What sites say, if they may be given both averages; without any that can score, none is asked again."""
        samples = this_round.samples_of_reports
        if self._shadow_is == BY_QUANTITY and not self._hides_sites(this_round.weighed, samples):
            return {}
        if self._shadow_is != BY_QUANTITY and not self._are_enough(left_out & set(samples), set(samples) - left_out):
            return {}
        in_shadow = sum(count for site, count in samples.items() if site not in left_out)
        scored = self._ask(this_round, SCORE_IN_USE, sum(samples.values()))
        scoring = [site for site, answer in scored.items() if answer["has_scored"]]
        if not scoring:
            self._asks_sites, self._reason = False, "no site has reviewed or held-out patients to score models on"
            return {}
        answers = self._ask(this_round, COMPARE_SHADOW, in_shadow, scoring, this_round.shadow)
        gains = {site: gain for site, answer in answers.items() if (gain := _gain(answer, site in may_be_asked))}
        if not gains:
            self._asks_sites = False
            self._reason = "no site has enough reviewed patients, or held-out ones whose annotations may be asked"
        return gains

    def _hides_sites(self, weights: LayerWeights | None, samples: Mapping[str, int]) -> bool:
        """Whether nobody who gets an average by these weights and one by samples finds the update of few sites."""
        if weights is not None and fewest_found(weights, samples) >= FEWEST_SITES:
            return True
        self._reason = f"so few sites have other weights that one which gets both averages would learn {_UPDATES}"
        return False

    def _is_as_planned(self, left_out: frozenset[str], this_round: Round) -> bool:
        """Whether those that are left out undid something in this round."""
        reports = this_round.reports
        return all(reports[site].extra.get("has_undone", False) for site in left_out & set(reports))

    def _ask(
        self,
        this_round: Round,
        task: str,
        samples: int,
        sites: Collection[str] | None = None,
        params: Mapping[str, torch.Tensor] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Ask sites about a model of so many samples, in which a site finds its own share where that goes by them."""
        self._samples = samples if self._shadow_is == WITHOUT_UNDOING else None
        answers = this_round.ask(task, sites, params)
        self._samples = None
        return answers

    def state(self) -> dict[str, Any]:
        """Return what was compared as plain values."""
        return {
            "rounds": [one.plain() for one in self._rounds],
            "shadow_is": self._shadow_is,
            "reason": self._reason,
            "asks_sites": self._asks_sites,
            "is_closed": self._is_closed,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self._rounds = [ShadowRoundRecord.model_validate(one) for one in state["rounds"]]
        self._shadow_is, self._reason = state["shadow_is"], state["reason"]
        self._asks_sites, self._is_closed = state["asks_sites"], state["is_closed"]

    @property
    def record(self) -> ShadowRecord | None:
        """Evidence, threshold, decision, and what would have changed it; None where nothing was to be checked."""
        if not (self._shadow_is or self._reason):
            return None
        sentence = self._sentence if self._rounds else f"No shadow check: {self._reason or 'no round was compared'}."
        return ShadowRecord(
            shadow_is=self._shadow_is, rounds=tuple(self._rounds), has_vetoed=self.has_vetoed, sentence=sentence
        )

    @property
    def _mean(self) -> Estimate:
        """Over the compared rounds; their patients are the same, so that it is no surer than one of them."""
        return mean_of_rounds(self._rounds)

    @property
    def _sentence(self) -> str:
        mean, rounds = self._mean, [one.round for one in self._rounds]
        when = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
        evidence = (
            f"Shadow check of {when}: with {self._shadow_is} the Dice of {mean.patients} patients differs by "
            f"{_points(mean.value)} points (90 % interval {_points(mean.low)} to {_points(mean.high)}). Threshold: all "
            "of the interval above 0."
        )
        if len(rounds) < self._wanted:
            return f"{evidence} Not decided: {len(rounds)} of {self._wanted} rounds are compared."
        away = f"{100 * abs(mean.low):.1f}"
        if self.has_vetoed:
            return (
                f"{evidence} Decision: everything is taken back, and the rest is federated averaging. A difference "
                f"lower by {away} points would have left it."
            )
        return f"{evidence} Decision: it stays. A difference higher by {away} points would have taken it back."

    def _are_enough(self, undoing: Collection[str], others: Collection[str]) -> bool:
        if min(len(undoing), len(others)) >= FEWEST_SITES:
            self._reason = ""
            return True
        self._reason = (
            f"{len(undoing)} sites undo something and {len(others)} do not; with fewer than {FEWEST_SITES} of either "
            f"one which gets both averages would learn {_UPDATES}"
        )
        return False


def _of_server(this_round: Round, settings: RunSettings) -> Estimate | None:
    """By how much the shadow is better on the server's reviewed patients; None without enough of them."""
    scores = []
    for params in (None, this_round.shadow):
        found = this_round.reviewed(params)
        if found is None:
            return None
        scores.append(patient_dice(*found, settings.network.num_classes, Inference.of(settings)))
    gain = paired_gain(*scores, seed=derive_seed(settings.seed, "shadow"))
    return gain if gain.patients >= MINIMUM_CASES else None


def _gain(answer: Mapping[str, Any], may_be_asked: bool) -> Estimate | None:
    """A site's gain on reviewed patients; else on held-out ones, where their annotations may be asked."""
    reviewed, held_out = received(REVIEWED_GAIN, answer)[0], received(HELD_OUT_GAIN, answer)[0]
    if reviewed.is_known:
        return reviewed
    return held_out if may_be_asked and held_out.is_known else None


def _points(dice: float) -> str:
    return f"{100 * dice:+.1f}"
