"""Which sites are noisy: a vote of mixtures over their mean losses of each class (FedNoRo, stage 1)."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np

from ....transforms.array_types import Floats
from ...mixtures.voted_groups import voted_higher_group

# Two groups of two sites say nothing.
MIN_SITES = 3
# No statistic of a site is as large.
_REACH = 1e3
# Of mean losses: a cross entropy is at most 16.1.
LEAST_LOSS, LARGEST_LOSS = 0.0, 17.0
# A statistic that is as many times the middle one hides differences between the others.
_FAR = 10


def warn_of_extremes(statistics: Mapping[str, float], warning: Callable[[str], None]) -> None:
    """Say whose statistic is so large that next to it no other site looks noisy."""
    middle = median(statistics.values()) if statistics else 0.0
    if far := [site for site, value in statistics.items() if value > _FAR * middle > 0]:
        shown = {site: float(f"{statistics[site]:.3g}") for site in far}
        warning(
            f"{shown}: more than {_FAR} times the middle statistic, {middle:.3g}. Next to it noisy sites may count as "
            "clean. Ask these sites whether it is right."
        )


def possible_losses(losses: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    """Return mean losses within what a mean cross entropy can be; NaN for none.

    A site that lies could send one below 0, next to which all others are noisy, and noise that hides patients may.
    """
    return {
        site: [math.nan if value is None else min(max(value, LEAST_LOSS), LARGEST_LOSS) for value in row]
        for site, row in losses.items()
    }


def noisy_sites(losses: Mapping[str, Sequence[float | None]]) -> tuple[str, ...]:
    """Return the sites in the component with the larger sum of means, sorted.

    A class that a site has no loss of takes the smallest of the others, a class that no site has one of does not count.
    Each class is scaled to 0 to 1 over the sites; where all agree it says nothing. A site without any loss is not
    looked at, and not noisy; of fewer than three others none is. There is no test of two groups against one.

    Args:
        losses: of every site the mean losses of all classes; NaN or None where it has none. What lies beyond ±1000, as
            only a site that lies or is broken sends it, counts as that.

    Raises:
        ValueError: if sites report different numbers of classes.

    Example:
        >>> noisy_sites({"a": [0.1, 0.2], "b": [0.1, float("nan")], "c": [2.0, 0.9], "d": [1.8, 0.8]})
        ('c', 'd')
    """
    rows = {site: [math.nan if value is None else float(value) for value in row] for site, row in losses.items()}
    if len({len(row) for row in rows.values()}) > 1:
        lengths = {site: len(row) for site, row in sorted(rows.items())}
        raise ValueError(f"Expected losses of the same number of classes from every site, but found {lengths}.")
    sites = [site for site in sorted(rows) if not all(map(math.isnan, rows[site]))]
    if len(sites) < MIN_SITES:
        return ()
    is_noisy = voted_higher_group(_scaled(np.array([rows[site] for site in sites])))
    return tuple(site for site, noisy in zip(sites, is_noisy.tolist(), strict=True) if noisy)


def _scaled(table: Floats) -> Floats:
    """Columns from 0 to 1, without those that no site has; constant ones are 0."""
    table = np.clip(table[:, ~np.isnan(table).all(axis=0)], -_REACH, _REACH)
    lowest = np.nanmin(table, axis=0)
    table = np.where(np.isnan(table), lowest, table)
    extent = table.max(axis=0) - lowest
    scaled: Floats = (table - lowest) / np.where(extent > 0, extent, 1.0)
    return scaled
