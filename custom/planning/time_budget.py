"""How many rounds of how many steps a time budget has room for, next to what a run predicts and scores."""

import math
from dataclasses import dataclass

# Rounds that a run has at best.
_ROUNDS = 50
# Fractions of the time that scoring may take, and what a round takes without its steps.
_SCORING, _OVERHEAD = 0.1, 0.2
# Steps of a round at least, where there is time for them.
_FEWEST_STEPS = 5
# The fraction of the time that is left to training, however long predictions take.
_LEAST_TRAINING = 0.3


@dataclass(frozen=True)
class PartSeconds:
    """Seconds of the parts of a run on one machine.

    Attributes:
        step: one step of training, with its patches and augmentation, while as many sites train as do at a time.
        site_round: a round at a site without its steps: its model is copied, sent and averaged.
        case: prediction and scores of a case.
        case_reading: first reading of a case, before the run; next to nothing where it is prepared already.
    """

    step: float
    site_round: float
    case: float
    case_reading: float = 0.0


@dataclass(frozen=True)
class RunCost:
    """What a run takes on one machine.

    Attributes:
        parts: seconds of its parts.
        num_sites: how many sites train.
        sites_at_once: how many of them train at a time.
        scored_cases: how many cases a scoring has.
        predicted_cases: how many predictions of cases a run makes outside training and scoring.
    """

    parts: PartSeconds
    num_sites: int
    scored_cases: int
    predicted_cases: int
    sites_at_once: int = 1

    @property
    def turns(self) -> int:
        """How many sites train one after the other in a round."""
        return math.ceil(self.num_sites / self.sites_at_once)

    @property
    def scoring(self) -> float:
        """Seconds of one scoring."""
        return self.scored_cases * self.parts.case

    @property
    def predictions(self) -> float:
        """Seconds of all predictions outside training and scoring."""
        return self.predicted_cases * self.parts.case

    def seconds(self, rounds: int, local_steps: int, scorings: int) -> float:
        """Return what a run takes in seconds.

        Args:
            rounds: of the run.
            local_steps: of each site in a round.
            scorings: how often the model is scored.
        """
        return self.predictions + scorings * self.scoring + rounds * self.round_seconds(local_steps)

    def round_seconds(self, local_steps: int) -> float:
        """Return what the training of a round takes in seconds."""
        return self.turns * (self.parts.site_round + local_steps * self.parts.step)


@dataclass(frozen=True)
class Rounds:
    """Rounds and steps that a budget has room for.

    Attributes:
        rounds: of the run.
        local_steps: of each site in a round.
        validate_every: rounds from one score to the next; 1 for a score after each round.
    """

    rounds: int
    local_steps: int
    validate_every: int

    @property
    def scorings(self) -> int:
        """How often the model is scored: the last round's is scored, too."""
        return math.ceil(self.rounds / self.validate_every)


def fit_rounds(
    cost: RunCost,
    seconds: float,
    *,
    rounds: int | None = None,
    local_steps: int | None = None,
    validate_every: int | None = None,
    least_rounds: int = 1,
) -> Rounds:
    """Return rounds and steps that take a number of seconds; what is given stays.

    Args:
        cost: what the parts of the run take.
        seconds: of the whole run.
        rounds: given number of rounds; None for at most 50, and fewer where a round takes long without its steps.
        local_steps: given steps of a round; None for as many as there is time for.
        validate_every: given rounds from one score to the next; None for scores that take a tenth of the time.
        least_rounds: that the method needs.

    Example:
        >>> parts = PartSeconds(step=0.5, site_round=0.0, case=1.0)
        >>> cost = RunCost(parts, num_sites=2, scored_cases=10, predicted_cases=0)
        >>> fit_rounds(cost, 1000.0)
        Rounds(rounds=50, local_steps=18, validate_every=5)
    """
    left = max(seconds - cost.predictions, _LEAST_TRAINING * seconds)
    most_scorings = max(math.floor(_SCORING * left / cost.scoring), 1) if cost.scoring else _ROUNDS
    if rounds is None:
        rounds = _num_rounds(cost, left, local_steps, validate_every, most_scorings, least_rounds)
    every = validate_every or math.ceil(rounds / most_scorings)
    training = max(left - math.ceil(rounds / every) * cost.scoring, _LEAST_TRAINING * seconds)
    if local_steps is None:
        of_site = training / (rounds * cost.turns)
        local_steps = max(math.floor((of_site - cost.parts.site_round) / cost.parts.step), 1)
    return Rounds(rounds, local_steps, every)


def _num_rounds(
    cost: RunCost, left: float, local_steps: int | None, every: int | None, most_scorings: int, least: int
) -> int:
    # Scores after every so many rounds are a part of these; else there are so many, or the last one.
    of_round = 0.0 if every is None else cost.scoring / every
    room = left if every is not None else left - min(most_scorings * cost.scoring, left)
    if local_steps is not None:
        return max(math.floor(room / (cost.round_seconds(local_steps) + of_round)), least)
    # Few steps of a round would be lost in what else it takes.
    by_steps = math.floor(room / (cost.round_seconds(_FEWEST_STEPS) + of_round))
    overhead = cost.turns * cost.parts.site_round
    by_messages = math.floor(_OVERHEAD * left / overhead) if overhead else _ROUNDS
    return max(min(_ROUNDS, by_steps, by_messages), least)
