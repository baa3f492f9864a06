"""What is printed of wrong labels: what `auto` for classification has estimated, what follows from it, and why."""

from ...custom.annotation_bias.statuses import Status
from ...custom.methods.auto_classification.records import ConfusionFindings, NoiseLevelRecord
from ...transforms.natural_order import natural_order
from ..terminal import Terminal
from ..wording.evidence import evidence_in_words, reason_in_words

LEGEND = (
    "wrong: fraction of the labels that are; in brackets: not confirmed; ?: cannot tell; corrected from: the round "
    "from which on the site corrects wrong labels"
)


def noise_level_entries(found: ConfusionFindings | None, site: str) -> dict[str, str]:
    """Return what the last estimate says of a site, and since when it is corrected, for the table of sites."""
    estimates = () if found is None else found.noise_levels
    level = estimates[-1].sites.get(site) if estimates else None
    since = None if found is None else found.corrected_from_round.get(site)
    return {"wrong, %": _entry(level), "corrected from": "-" if since is None else f"round {since}"}


def print_noise_levels(found: ConfusionFindings | None, console: Terminal) -> None:
    """Print what counts as right, when sites were assessed, where wrong labels were corrected, and who cannot be
    assessed.

    Args:
        found: by the run; None where it estimated nothing.
        console: where it is printed.
    """
    if found is None or not found.noise_levels:
        return
    last = found.noise_levels[-1]
    corrected = sorted(found.corrected_from_round, key=natural_order)
    before = ", ".join(str(noise_level.before_round) for noise_level in found.noise_levels)
    did = (
        f"Corrected at {len(corrected)} of {len(last.sites)} sites: {', '.join(corrected)}."
        if corrected
        else "Nothing is corrected."
    )
    if last.right_labels is not None:
        console.print(evidence_in_words(last.right_labels))
    console.print(f"Estimated before round{'s' if len(found.noise_levels) > 1 else ''} {before}. {did}")
    for site in sorted(last.sites, key=natural_order):
        if last.sites[site].status is Status.UNKNOWN:
            console.print(f"{site}: {reason_in_words(last.sites[site])}")


def _entry(level: NoiseLevelRecord | None) -> str:
    if level is None:
        return "-"
    if level.estimate is None or level.status is Status.UNKNOWN:
        return "?"
    text = f"{100 * level.estimate:z.0f}"
    return text if level.is_confirmed else f"({text})"
