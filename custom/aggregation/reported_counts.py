"""How many samples a site may say it has: no more than at first, and no more than its part of what all may have."""

from collections.abc import Callable, Mapping

# Numbers of samples are used as weights as they are; this bounds their sum over the sites.
MAX_TOTAL_SAMPLES = 2**24


def claim_limit(num_sites: int) -> int:
    """Return the largest number of samples that each of so many sites may claim, so that no claim takes others' room.

    Raises:
        ValueError: if there is no site.
    """
    if num_sites < 1:
        raise ValueError(f"Expected at least one site, but got {num_sites=}.")
    return MAX_TOTAL_SAMPLES // num_sites


class ReportedCounts:
    """The first number of samples that each site claimed in a run; what it claims later counts up to that.

    A dataset does not grow during a run. An honest site's claim rises where files that could not be read come back; it
    then trains on all of them, and its weight stays what it was.

    Args:
        warn: called with a sentence for every site whose claim counts as less.
        first: first claims by site, of a run that is continued.

    Attributes:
        first: first claims by site.
    """

    def __init__(self, warn: Callable[[str], None], first: Mapping[str, int] | None = None) -> None:
        self._warn = warn
        self.first: dict[str, int] = dict(first or {})
        self._warned: set[tuple[str, int]] = set()

    def counted(self, site: str, claim: int, limit: int) -> int:
        """Return how much of a claim counts: all of a first one, which is kept, of a later one as much as of that.

        A first claim beyond the limit, or of nothing, is returned as it is and not kept; the caller refuses it.
        """
        if site not in self.first and not 1 <= claim <= limit:
            return claim
        first = self.first.setdefault(site, claim)
        if claim > first and (site, claim) not in self._warned:
            self._warned.add((site, claim))
            self._warn(
                f"{site} claims {claim} samples and claimed {first} at first, which counts: a dataset does not grow "
                "during a run. If its data were not all there at first, start the run again."
            )
        return min(claim, first)
