"""What is said and drawn of a finished round, and how many sites its weights are of in effect."""

from collections.abc import Callable, Sequence
from typing import Any

from ..aggregation.weighting import FEW_EFFECTIVE_SITES, LayerWeights
from ..evaluation.scoring import Scoring
from ..records.round_records import Dominant, RoundRecord
from .time_left import duration, time_left


def dominant_site(weights: LayerWeights) -> Dominant | None:
    """Return the site that nearly decides alone, None where none does."""
    if weights.fewest_effective_sites >= FEW_EFFECTIVE_SITES or len(weights.sites) < 2:
        return None
    site, weight = weights.strongest
    return Dominant(site=site, weight=weight)


def recorded_weights(weights: LayerWeights) -> dict[str, Any]:
    """Return what the record of a round says of its weights."""
    dominant = dominant_site(weights)
    record: dict[str, Any] = {"effective_sites": weights.fewest_effective_sites, "weights": weights.most_concentrated}
    return record if dominant is None else record | {"dominant": dominant}


def warn_of_dominance(weights: LayerWeights, warn: Callable[[str], None]) -> None:
    """Warn if one site nearly decides alone.

    Args:
        weights: of a round.
        warn: writes a line to the log.
    """
    if (dominant := dominant_site(weights)) is not None:
        warn(
            f"{dominant.site} nearly decides alone: it has {dominant.weight:.2f} of the weight in a layer block, "
            f"{weights.fewest_effective_sites:.2f} effective sites of {len(weights.sites)}."
        )


def note_weights(weights: LayerWeights, history: Sequence[RoundRecord], warn: Callable[[str], None]) -> dict[str, Any]:
    """Return what a round's record says of its weights, and warn where one site nearly decides alone.

    Args:
        weights: of the round.
        history: records of the rounds before it; the warning comes once for all rounds in a row.
        warn: writes a sentence to the log.
    """
    if not (history and history[-1].dominant is not None):
        warn_of_dominance(weights, warn)
    return recorded_weights(weights)


def round_scalars(record: RoundRecord, names: Sequence[str], site_names: Sequence[str]) -> dict[str, float]:
    """Return the numbers of a round that are drawn over the rounds, by tag; of a class the tag is ``name/class 1``.

    Args:
        record: the round's record.
        names: fields of the record.
        site_names: fields of the sites' reports; a site's tag is ``name/site``.
    """
    result = {name: record.named(name) for name in names} | {"accepted_sites": len(record.sites)}
    # Of a segmentation the background has no score.
    first_class = 0 if hasattr(record, "f1_per_class") else 1
    for name in names:
        of_classes = getattr(record, f"{name}_per_class", None) or ()
        result |= {f"{name}/class {number}": value for number, value in enumerate(of_classes, start=first_class)}
    for name in site_names:
        result |= {f"{name}/{site}": report.named(name) for site, report in record.sites.items()}
    return {tag: float(value) for tag, value in result.items() if value is not None}


def progress_sentence(history: Sequence[RoundRecord], rounds: int, scoring: Scoring) -> str:
    """Say what the last finished round scores and how long the rest takes.

    Args:
        history: records of the finished rounds, at least one.
        rounds: of the run.
        scoring: the scores of the job's task.
    """
    record = history[-1]
    value = record.main_score
    score = "not scored" if value is None else f"{scoring.label} {100 * value:.1f} %"
    if value is not None and (names := record.named("unscored_classes")):
        score += f" without {', '.join(names)}"
    if record.validation_score is not None and record.named("evaluated_on") != "sites":
        score += f", at the sites {100 * record.validation_score:.1f} %"
    rounds_left = rounds - record.round
    seconds = time_left([earlier.seconds for earlier in history], rounds_left)
    left = f", about {duration(seconds)} left" if rounds_left else ""
    return f"Round {record.round}/{rounds} ({record.stage}): {score}{left}"
