"""Which sites gave no usable result of late, so that others are asked to train before them."""

from collections.abc import Collection, Sequence

from ...records.round_records import RoundRecord

# As long comes such a site after the others; then it is asked again.
_ROUNDS = 5
# What a method's record calls the sites that were asked to train.
ASKED = "asked"


def failed_sites(history: Sequence[RoundRecord], sites: Collection[str]) -> set[str]:
    """Return the sites that gave no usable result when they were last asked, in the five latest rounds.

    A round with too few results fails. So where some of the sites are asked, one that always fails could end a run.

    Args:
        history: records of the finished rounds; those of methods that ask some of the sites have `asked`.
        sites: of the run.
    """
    result: dict[str, bool] = {}
    for record in history[-_ROUNDS:]:
        asked = record.named(ASKED)
        for site in asked if isinstance(asked, list | tuple) else ():
            result[site] = site not in record.sites
    return {site for site in sites if result.get(site, False)}
