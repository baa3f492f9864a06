"""What `auto`, and an audit for it, has decided of all sites, in words."""

from ...custom.channel.parameters import WRONG_LABELS
from ...custom.corrections.kinds import BoundaryShift
from ...custom.methods.auto.records import ChannelRecord, NotCompared, Outcome, ShadowOf, ShadowRecord
from ...custom.methods.auto.shadow_gains import mean_of_rounds

_NOT_COMPARED = {
    NotCompared.NO_PATIENTS: "no site has reviewed or held-out patients to score models on",
    NotCompared.TOO_FEW_PATIENTS: (
        "no site has enough reviewed patients, or held-out ones whose annotations may be asked"
    ),
    NotCompared.SINGLE_SITES: (
        "so few sites have other weights that one which gets both averages would learn the updates of single sites"
    ),
    NotCompared.NO_ROUND: "no round was compared",
}


def decision_in_words(record: ChannelRecord) -> str:
    """Return what follows from one estimate of all sites; of an audit what `auto` would do."""
    decision, num_sites = record.decision, len(record.sites)
    if decision.outcome is Outcome.TEXT:
        return decision.text
    if not decision.is_applied:
        return _would(record)
    if decision.outcome is Outcome.CORRECTED:
        listed, count = ", ".join(decision.corrected), len(decision.corrected)
        return " ".join([f"Corrected at {count} of {num_sites} sites: {listed}.", *_overshoots(record)])
    if decision.outcome is Outcome.TOLERATED:
        return _tolerated(record)
    if decision.outcome is Outcome.MEASURED:
        return "What is established is measured and not corrected, as the settings ask."
    return f"Nothing is established at any of {num_sites} sites: federated averaging."


def _would(record: ChannelRecord) -> str:
    decision, num_sites = record.decision, len(record.sites)
    if any(WRONG_LABELS in site.parameters for site in record.sites.values()):
        noisy = len(decision.corrected)
        would = f"wrong labels at {noisy} of {num_sites} sites" if noisy else "nothing at any site"
        return f"jobs/auto_classification would undo {would}."
    if decision.outcome is Outcome.UNFIT:
        found, expected = decision.found_share or 0.0, decision.expected_share or 0.0
        return (
            "Nothing could be judged: the model finds too little of what is annotated to judge it: in "
            f"{found:.0%} of the annotated patients, expected {expected:.0%}. More rounds, or more epochs in each, "
            "may help."
        )
    if decision.outcome is Outcome.CORRECTED:
        sites = ", ".join(decision.corrected)
        count = len(decision.corrected)
        return f"jobs/auto would correct what is established at {count} of {num_sites} sites: {sites}."
    if decision.outcome is Outcome.TOLERATED:
        return f"jobs/auto would be federated averaging. {_tolerated(record)}"
    return f"jobs/auto would correct nothing at any of {num_sites} sites: it would be federated averaging."


def _tolerated(record: ChannelRecord) -> str:
    """Why confirmed offsets stay."""
    where = "; ".join(
        f"class {label}: {low:+.2f} to {high:+.2f}" for label, (low, high) in record.decision.tolerated.items()
    )
    return (
        f"Established at {', '.join(record.decision.confirmed)} and left as it is: federated averaging follows the "
        f"middle of all sites, which lies near zero ({where})."
    )


def _overshoots(record: ChannelRecord) -> list[str]:
    """How much further contours move in training, by class."""
    own: dict[int, float] = {}
    for site in record.sites.values():
        shift = site.of(BoundaryShift)
        own |= {} if shift is None else shift.model_bias
    unit = record.decision.unit or "px"
    return [
        f"In training contours of class {label} move by another {-value:+.2f} {unit}, as the model draws that far "
        f"{'outside' if value > 0 else 'inside'} of zero otherwise."
        for label, value in sorted(own.items())
    ]


def shadow_in_words(shadow: ShadowRecord) -> str:
    """Return evidence, threshold and decision of a shadow check, and what would have changed it."""
    if shadow.text:
        return shadow.text
    if not shadow.rounds:
        return f"No shadow check: {_NOT_COMPARED[shadow.not_compared or NotCompared.NO_ROUND]}."
    mean, rounds = mean_of_rounds(shadow.rounds), [one.round for one in shadow.rounds]
    when = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
    evidence = (
        f"Shadow check of {when}: with {_shadow_of(shadow)} the Dice of {mean.patients} patients differs by "
        f"{_points(mean.value)} points (90 % interval {_points(mean.low)} to {_points(mean.high)}). Threshold: all "
        "of the interval above 0."
    )
    if len(rounds) < (shadow.wanted_rounds or 0):
        return f"{evidence} Not decided: {len(rounds)} of {shadow.wanted_rounds} rounds are compared."
    away = f"{100 * abs(mean.low):.1f}"
    if shadow.has_vetoed:
        return (
            f"{evidence} Decision: everything is taken back, and the rest is federated averaging. A difference "
            f"lower by {away} points would have left it."
        )
    return f"{evidence} Decision: it stays. A difference higher by {away} points would have taken it back."


def _shadow_of(shadow: ShadowRecord) -> str:
    if shadow.shadow_of is ShadowOf.WEIGHTS_BY_SAMPLES:
        return "weights by numbers of samples"
    return f"the model of before round {shadow.before_round}"


def _points(dice: float) -> str:
    return f"{100 * dice:+.1f}"
