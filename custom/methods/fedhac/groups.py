"""Which sites are noisy: two groups by their losses in all rounds before one of them rose (FedHAC)."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ...mixtures.voted_groups import voted_higher_group
from ...records.round_records import RoundRecord, SiteReport
from ..fedia.loss_trigger import LossOf, dice_loss


def noisy_group(
    history: Sequence[RoundRecord], before: int, sites: Collection[str], loss_of: LossOf = dice_loss
) -> tuple[str, ...]:
    """Return the sites of the group with the higher losses, sorted.

    The program fits a mixture of two Gaussians with full covariance to a point of each site, which has more dimensions
    than there are points. It is 2-means then, and so it is here: nine starts vote. A round in which a site has no loss
    counts as the mean of its other rounds. A site without any loss is clean, and so are all where losses are equal.
    Otherwise one group is always noisy: there is no test of two groups against one.

    Args:
        history: records of the finished rounds.
        before: only earlier rounds count.
        sites: all sites of the run.
        loss_of: the loss that is followed; NaN for none.
    """
    rounds = [record.sites for record in history if record.round < before]
    table = {site: [_loss(record, site, loss_of) for record in rounds] for site in sorted(sites)}
    known = [site for site, row in table.items() if not all(map(math.isnan, row))]
    if not known:
        return ()
    losses = np.array([table[site] for site in known])
    means = np.nanmean(losses, axis=1, keepdims=True)
    is_noisy = voted_higher_group(np.where(np.isnan(losses), means, losses), refine=False)
    return tuple(site for site, noisy in zip(known, is_noisy.tolist(), strict=True) if noisy)


def _loss(reports: Mapping[str, SiteReport], site: str, loss_of: LossOf) -> float:
    """The loss of a site in a round; NaN where it has none."""
    report = reports.get(site)
    return math.nan if report is None else loss_of(report)
