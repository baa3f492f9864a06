"""Which rounds' scores say how good a run's model is: the last ones, or the best by the sites' validation."""

from collections.abc import Sequence

from ..records.round_records import RoundRecord
from ..settings import ScoredRoundsKind
from .summary_record import LAST_ROUNDS

# The papers report the mean over the last rounds, since single rounds fluctuate.
DEFAULT_KIND: ScoredRoundsKind = "last_5"
_COUNTS = {"last": 1, "last_5": LAST_ROUNDS, "last_10": 10}


def scored_records(history: Sequence[RoundRecord], kind: ScoredRoundsKind | None) -> Sequence[RoundRecord]:
    """Return the records of the rounds that count.

    Args:
        history: of the finished rounds.
        kind: the setting ``scored_rounds``; None for :data:`DEFAULT_KIND`.

    Returns:
        The last records; with ``best`` the one with the highest validation score, of equal ones the first, and the last
        one where no round was validated.
    """
    if kind != "best":
        return history[-_COUNTS[kind or DEFAULT_KIND] :]
    validated = [record for record in history if record.validation_score is not None]
    best = max(validated, key=lambda record: record.validation_score or 0.0, default=None)
    return history[-1:] if best is None else [best]
