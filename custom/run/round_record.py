"""What is said and drawn of a finished round, and how many sites its weights are of in effect."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..aggregation.weighting import FEW_EFFECTIVE_SITES, LayerWeights
from ..evaluation.scoring import Scoring
from .time_left import duration, time_left


def influence_record(weights: LayerWeights) -> dict[str, Any]:
    """Return how many sites weights are of in effect, and the site that nearly decides alone where one does."""
    effective = weights.fewest_effective_sites
    if effective >= FEW_EFFECTIVE_SITES or len(weights.sites) < 2:
        return {"effective_sites": effective}
    site, weight = weights.strongest
    return {"effective_sites": effective, "dominant": {"site": site, "weight": weight}}


def dominance_sentence(weights: LayerWeights) -> str:
    """Say which site nearly decides alone."""
    site, weight = weights.strongest
    return (
        f"{site} nearly decides alone: it has {weight:.2f} of the weight in a layer block, "
        f"{weights.fewest_effective_sites:.2f} effective sites of {len(weights.sites)}."
    )


def round_scalars(record: Mapping[str, Any], names: Sequence[str], site_names: Sequence[str]) -> dict[str, float]:
    """Return the numbers of a round that are drawn over the rounds, by tag.

    Args:
        record: the round's record.
        names: fields of the record.
        site_names: fields of the sites' reports; a site's tag is ``name/site``.
    """
    found = {name: record.get(name) for name in names} | {"accepted_sites": len(record["sites"])}
    for name in site_names:
        found |= {f"{name}/{site}": report.get(name) for site, report in record["sites"].items()}
    return {tag: float(value) for tag, value in found.items() if value is not None}


def progress_sentence(history: Sequence[Mapping[str, Any]], rounds: int, scoring: Scoring) -> str:
    """Say what the last finished round scores and how long the rest takes.

    Args:
        history: records of the finished rounds, at least one.
        rounds: of the run.
        scoring: the scores of the job's task.
    """
    record = history[-1]
    value = record[scoring.names[0]]
    score = "not scored" if value is None else f"{scoring.label} {100 * value:.1f} %"
    rounds_left = rounds - record["round"]
    seconds = time_left([earlier["seconds"] for earlier in history], rounds_left)
    left = f", about {duration(seconds)} left" if rounds_left else ""
    return f"Round {record['round']}/{rounds} ({record['stage']}): {score}{left}"
