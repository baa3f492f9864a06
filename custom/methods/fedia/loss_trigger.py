"""When a site's loss asks for a correction of its annotations: the published trigger (FedIA, Eq. 6 and 7)."""

import math
from collections.abc import Collection, Mapping, Sequence

from ...records.round_records import RoundRecord, SiteReport
from .completeness import IouLine, iou_of_dice_loss


def fit_lines(history: Sequence[RoundRecord], warmup_end: int) -> dict[str, IouLine]:
    """Return the line through the IoU of each site that reported any in the warm-up.

    Args:
        history: records of the finished rounds.
        warmup_end: the last round of the warm-up.
    """
    warmup = [record for record in history if record.round <= warmup_end]
    sites = sorted({site for record in warmup for site in record.sites})
    values = {site: [_iou(record.sites.get(site)) for record in warmup] for site in sites}
    return {site: IouLine.fit(ious) for site, ious in values.items() if not all(map(math.isnan, ious))}


def sites_below(
    lines: Mapping[str, IouLine], record: RoundRecord, corrected: Collection[str], margin: float
) -> set[str]:
    """Return the sites whose IoU of a round lies below their line by more than the margin, without corrected ones."""
    return {
        site
        for site, line in lines.items()
        if site not in corrected and line.asks_for_correction(record.round, _iou(record.sites.get(site)), margin)
    }


def _iou(report: SiteReport | None) -> float:
    """The IoU of a site's round, NaN where it reported no Dice loss or has nothing annotated."""
    loss = None if report is None else report.dice_loss
    return math.nan if loss is None else iou_of_dice_loss(loss)
