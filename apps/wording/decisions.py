"""What `auto`, and an audit for it, has decided of all sites, in words."""

from ...custom.annotation_bias.parameters import WRONG_LABELS
from ...custom.annotation_bias.profile.thresholds import THRESHOLDS
from ...custom.methods.auto.records import (
    BiasRecord,
    NotCompared,
    Outcome,
    RollbackOf,
    RollbackRecord,
    RollbackScore,
    WitnessRecord,
)
from ...custom.methods.auto.rollback_gains import mean_of_rounds

_NOT_COMPARED = {
    NotCompared.NO_PATIENTS: "no site has reviewed or held-out patients to score models on",
    NotCompared.TOO_FEW_PATIENTS: (
        "no site has enough reviewed patients, or enough held-out ones without a confirmed effect"
    ),
    NotCompared.SINGLE_SITES: (
        "so few sites have other weights that a site with both averages could compute the updates of single sites"
    ),
    NotCompared.NO_ROUND: "no round was compared",
}

_SCORES = {RollbackScore.DICE: "Dice", RollbackScore.BALANCED_ACCURACY: "balanced accuracy"}


def decision_in_words(record: BiasRecord) -> str:
    """Return what follows from one estimate of all sites; of an audit what `auto` would do."""
    decision, num_sites, noun = record.decision, len(record.sites), unit_noun(record)
    if decision.outcome is Outcome.TEXT:
        return decision.text
    if not decision.is_applied:
        return _would(record)
    if decision.outcome is Outcome.CORRECTED:
        listed, count = ", ".join(decision.corrected), len(decision.corrected)
        return f"Corrected at {count} of {num_sites} {noun}: {listed}."
    if decision.outcome is Outcome.TOLERATED:
        return _tolerated(record)
    if decision.outcome is Outcome.MEASURED:
        return "What is confirmed is measured and not corrected, as the settings ask."
    return f"Nothing is confirmed at any of {num_sites} {noun}: federated averaging."


def moved_masks_in_words(patients: int) -> str:
    """Return that a site has moved all its masks back."""
    return f"all masks were shifted against the images ({patients} patients); the site has moved them back."


def unit_noun(record: BiasRecord) -> str:
    """Return of what an estimate is, in the plural: sites, or the groups of annotators in them."""
    return "groups of annotators" if record.groups else "sites"


def witness_in_words(witness: WitnessRecord, noun: str = "sites") -> str:
    """Return of a class how many sites' boundary biases images show, and whether the model counts besides them."""
    known, count = sum(one.is_known for one in witness.sites.values()), len(witness.sites)
    shown = f"Images show the boundary bias of {known} of {count} {noun}"
    if not witness.is_shown:
        return f"{shown}, which are too few to count."
    if witness.is_model_used:
        return f"{shown}; the model differs by {witness.spread or 0.0:z.1f} px, and counts by its precision."
    if witness.spread is None:
        return f"{shown}, and count alone."
    if witness.spread <= THRESHOLDS.max_model_spread:
        return f"{shown}; the model says otherwise at single sites, and does not count."
    return f"{shown}; the model differs by {witness.spread:z.1f} px, and does not count."


def _would(record: BiasRecord) -> str:
    decision, num_sites = record.decision, len(record.sites)
    if any(WRONG_LABELS in site.parameters for site in record.sites.values()):
        noisy = len(decision.corrected)
        would = f"wrong labels at {noisy} of {num_sites} sites" if noisy else "nothing at any site"
        return f"jobs/auto_classification would correct {would}."
    if decision.outcome is Outcome.UNFIT:
        result, expected = decision.found_share or 0.0, decision.expected_share or 0.0
        return (
            "Nothing could be assessed: the model finds too few of the annotated objects to be a reference: in "
            f"{result:.0%} of the annotated patients, expected {expected:.0%}. More rounds, or more epochs in each, "
            "may help."
        )
    if decision.outcome is Outcome.CORRECTED:
        sites = ", ".join(decision.corrected)
        count = len(decision.corrected)
        return f"jobs/auto would correct what is confirmed at {count} of {num_sites} sites: {sites}."
    if decision.outcome is Outcome.TOLERATED:
        return f"jobs/auto would be federated averaging. {_tolerated(record)}"
    return f"jobs/auto would correct nothing at any of {num_sites} sites: it would be federated averaging."


def _tolerated(record: BiasRecord) -> str:
    """Why a confirmed boundary bias stays."""
    where = "; ".join(
        f"class {label}: {low:+z.2f} to {high:+z.2f}" for label, (low, high) in record.decision.tolerated.items()
    )
    return (
        f"Confirmed at {', '.join(record.decision.confirmed)} and tolerated: federated averaging has its "
        f"boundary near the reference level anyway ({where})."
    )


def rollback_in_words(rollback: RollbackRecord) -> str:
    """Return evidence, threshold and decision of a rollback check, and what would have changed it."""
    if rollback.text:
        return rollback.text
    if not rollback.rounds:
        return f"No rollback check: {_NOT_COMPARED[rollback.not_compared or NotCompared.NO_ROUND]}."
    mean, rounds = mean_of_rounds(rollback.rounds), [item.round for item in rollback.rounds]
    when = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
    score = f"the {_SCORES[rollback.score]} of {mean.patients} patients"
    evidence = (
        f"Rollback check of {when}: with {_rollback_of(rollback)} {score} differs by {_points(mean.value)} points "
        f"(90 % interval {_points(mean.low)} to {_points(mean.high)}). Threshold: all of the interval above 0."
    )
    if len(rounds) < (rollback.wanted_rounds or 0):
        return f"{evidence} Not decided: {len(rounds)} of {rollback.wanted_rounds} rounds are compared."
    away = f"{100 * abs(mean.low):z.1f}"
    if rollback.has_vetoed:
        return (
            f"{evidence} Decision: everything is rolled back, and the rest is federated averaging. A difference "
            f"lower by {away} points would have left it."
        )
    return f"{evidence} Decision: it stays. A difference higher by {away} points would have rolled it back."


def _rollback_of(rollback: RollbackRecord) -> str:
    if rollback.rollback_of is RollbackOf.WEIGHTS_BY_SAMPLES:
        return "weights by numbers of samples"
    return f"the model of before round {rollback.before_round}"


def _points(dice: float) -> str:
    return f"{100 * dice:+z.1f}"
