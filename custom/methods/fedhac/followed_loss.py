"""Which loss of the sites FedHAC follows: the Dice loss alone, or all that is made small, as its program does."""

import math
from collections.abc import Mapping

from ...records.round_records import SiteReport
from ..fedia.estimates import known_dice_losses
from ..fedia.loss_trigger import LossOf, dice_loss

# Squares of a larger one, which only a site that lies or is broken sends, could overflow.
_LARGEST = 1e3


def training_loss(report: SiteReport) -> float:
    """Return the mean of all that a site made small in a round; NaN where it sent none, or none that can be."""
    loss = report.train_loss
    return math.nan if loss is None or loss < 0 else min(loss, _LARGEST)


def followed(kind: str) -> LossOf:
    """Return what gives the loss that is followed."""
    return training_loss if kind == "training" else dice_loss


def known_losses(kind: str, reports: Mapping[str, SiteReport]) -> dict[str, float]:
    """Return the losses that weigh models, of the sites that have one."""
    if kind == "dice":
        return known_dice_losses(reports)
    losses = {site: training_loss(report) for site, report in reports.items()}
    return {site: loss for site, loss in losses.items() if not math.isnan(loss)}
