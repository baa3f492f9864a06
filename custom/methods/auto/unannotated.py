"""How many unannotated objects each site ignores, where some site leaves objects out."""

from collections.abc import Mapping

from .answers import ChannelAnswer

Shares = Mapping[int, float]


def unannotated_shares(
    answers: Mapping[str, ChannelAnswer], missing: Mapping[str, Shares], *, floor: float
) -> dict[str, dict[int, float]]:
    """Return by site and class the share of its objects that is ignored where it is not annotated.

    What is established counts from the most complete site, which may leave objects out itself. So where objects of a
    class are established to be missing anywhere, each site ignores as many as it leaves out by its own completeness a:
    1 − a, no less than what is established of it, and nothing below the floor. A site that hides its patients tells the
    completeness of all objects that the model predicts, with its false ones: there what is established counts alone.

    Args:
        answers: of the sites whose images are alike.
        missing: by site, what is established of each.
        floor: smaller shares are left as they are.
    """
    found = {site: dict(shares) for site, shares in missing.items()}
    for label in {label for shares in missing.values() for label in shares}:
        for site, answer in answers.items():
            own = answer.completeness[label - 1]
            share = 1 - own.value if own.is_known and not answer.hides_patients else 0.0
            share = max(share, found.get(site, {}).get(label, 0.0))
            if share >= floor:
                found.setdefault(site, {})[label] = share
    return {site: shares for site, shares in found.items() if shares}
