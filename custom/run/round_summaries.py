"""What a summary says of each round: the part of it that grows with the rounds."""

from collections.abc import Sequence

from ...transforms.strict_files import JsonObject
from ..records.round_records import RoundRecord
from .summary_record import ROUND_SUMMARIES

# What a summary's rounds have where a run has it.
_OPTIONAL = ("stability", "unscored_classes")


def round_summaries(history: Sequence[RoundRecord], task: str) -> JsonObject:
    """Return the fields of a summary that have an entry for each round, or for what happened in it.

    Args:
        history: records of the finished rounds.
        task: of the run.
    """
    return {
        "rounds": _rounds(history, task),
        "refusals": [
            {"round": record.round, "site": site, "reason": reason}
            for record in history
            for site, reason in record.refused.items()
        ],
        "bounded": [
            {"round": record.round, "site": site} | what.plain()
            for record in history
            for site, what in (record.bounded or {}).items()
        ],
        "dominant": [
            {"round": record.round} | record.dominant.plain() for record in history if record.dominant is not None
        ],
    }


def _rounds(history: Sequence[RoundRecord], task: str) -> list[JsonObject]:
    names = set(ROUND_SUMMARIES[task].model_fields)
    for name in _OPTIONAL:
        if all(record.named(name) is None for record in history):
            names.discard(name)
    return [{name: record.named(name) for name in names} for record in history]
