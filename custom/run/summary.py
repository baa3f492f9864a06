"""The summary of a run, rewritten after every round: what a person or a program wants to know of it."""

import json
from pathlib import Path
from typing import Any

from ...transforms.natural_order import natural_order
from ..data.whole_files import write_text
from ..evaluation.scoring import Scoring
from .state import RunState

# The papers report the mean over the last rounds, since single rounds fluctuate.
LAST_ROUNDS = 5

_ROUND_KEYS = ("round", "stage", "seconds", "effective_sites")


def write_summary(path: Path, state: RunState, details: dict[str, Any]) -> None:
    """Write the summary file in one step; see :func:`summarize`."""
    write_text(path, json.dumps(summarize(state, details), indent=2) + "\n")


def summarize(state: RunState, details: dict[str, Any]) -> dict[str, Any]:
    """Return method, seed, sites, the rounds' scores, their mean over the last five rounds, refusals and settings.

    Args:
        state: the run after its last finished round.
        details: what the method adds.

    Returns:
        Plain values that JSON can hold, None where a score is undefined.
    """
    sites: dict[str, dict[str, Any]] = {}
    for record in state.history:
        for site, report in record["sites"].items():
            sites[site] = dict(report)
    refusals = [
        {"round": record["round"], "site": site, "reason": reason}
        for record in state.history
        for site, reason in record["refused"].items()
    ]
    bounded = [
        {"round": record["round"], "site": site, **what}
        for record in state.history
        for site, what in record.get("bounded", {}).items()
    ]
    dominant = [{"round": record["round"], **record["dominant"]} for record in state.history if "dominant" in record]
    scoring = Scoring.of(state.settings["task"])
    round_keys = (*_ROUND_KEYS, *scoring.names, *scoring.details)
    if any("stability" in record for record in state.history):
        round_keys = (*round_keys, "stability")
    return {
        "task": state.settings["task"],
        "method": state.method,
        "seed": state.settings["seed"],
        "rounds_finished": state.round_number,
        "sites": {site: sites[site] for site in sorted(sites, key=natural_order)},
        "rounds": [{key: record.get(key) for key in round_keys} for record in state.history],
        "last_rounds": {key: mean_of_last(state.history, key) for key in scoring.names},
        "last_round": {
            key: state.history[-1].get(key) if state.history else None for key in (*scoring.names, *scoring.final)
        },
        "refusals": refusals,
        "bounded": bounded,
        "dominant": dominant,
        "seconds": sum(record["seconds"] for record in state.history),
        "settings": state.settings,
        **details,
    }


def mean_of_last(history: list[dict[str, Any]], key: str) -> float | None:
    """Return the mean of a score over the last :data:`LAST_ROUNDS` records that have it, None if none has."""
    values = [record[key] for record in history[-LAST_ROUNDS:] if record.get(key) is not None]
    return sum(values) / len(values) if values else None
