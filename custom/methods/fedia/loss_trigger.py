"""When a site's loss asks for a correction of its annotations: the published trigger (FedIA, Eq. 6 and 7)."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ...interface.views import Round
from ...records.round_records import RoundRecord, SiteReport
from .completeness import IouLine, iou_of_loss

# A site that was absent for this many rounds no longer counts when all have to have corrected.
_ABSENT_ROUNDS = 5

# From what a site reported of a round to the loss that is followed.
LossOf = Callable[[SiteReport], float]


def dice_loss(report: SiteReport) -> float:
    """Return the mean Dice loss of a site's round, NaN where it reported none or has nothing annotated."""
    return math.nan if report.dice_loss is None else report.dice_loss


def fit_lines(history: Sequence[RoundRecord], warmup_end: int, loss_of: LossOf = dice_loss) -> dict[str, IouLine]:
    """Return the line through the IoU of each site that reported any in the warm-up.

    Args:
        history: records of the finished rounds.
        warmup_end: the last round of the warm-up.
        loss_of: the loss that is followed, from 0 up; NaN for none.
    """
    warmup = [record for record in history if record.round <= warmup_end]
    sites = sorted({site for record in warmup for site in record.sites})
    values = {site: [_iou(record.sites.get(site), loss_of) for record in warmup] for site in sites}
    return {site: IouLine.fit(ious) for site, ious in values.items() if not all(map(math.isnan, ious))}


def sites_below(
    lines: Mapping[str, IouLine],
    record: RoundRecord,
    corrected: Collection[str],
    margin: float,
    loss_of: LossOf = dice_loss,
) -> set[str]:
    """Return the sites whose IoU of a round lies below their line by more than the margin, without corrected ones."""
    return {
        site
        for site, line in lines.items()
        if site not in corrected
        and line.asks_for_correction(record.round, _iou(record.sites.get(site), loss_of), margin)
    }


def all_have_corrected(history: Sequence[RoundRecord], lines: Collection[str], corrected: Collection[str]) -> bool:
    """Return whether every site has corrected whose loss is followed; False if there is none of them.

    Args:
        history: records of the finished rounds; a site that is in none of the last five is not waited for.
        lines: the sites whose loss is followed.
        corrected: the sites that have corrected.
    """
    present = {site for record in history[-_ABSENT_ROUNDS:] for site in record.sites}
    awaited = present & set(lines)
    return bool(awaited) and awaited <= set(corrected)


def forget_lost_corrections(this_round: Round, corrected: dict[str, int]) -> list[str]:
    """Take out of `corrected` the sites that trained on the given ones in the last round all the same; return them."""
    reports = this_round.history[-1].sites
    lost = [site for site in reports if site in corrected and not reports[site].extra.get("has_corrected", False)]
    for site in lost:
        this_round.warning(f"{site} no longer has its corrected annotations; it is asked for them again.")
        del corrected[site]
    return lost


def _iou(report: SiteReport | None, loss_of: LossOf) -> float:
    """The IoU of a site's round, NaN where it reported no loss or has nothing annotated."""
    return math.nan if report is None else iou_of_loss(loss_of(report))
