"""Losses that leave open which of several labels is right (FedGSCA, robust credal labelling)."""

import math
from typing import Literal

import torch
from torch import nn

BetaSchedule = Literal["cosine", "linear", "constant"]


class CredalLoss(nn.Module):
    """Robust credal labelling loss, or its rival with uniform credal labels (FedGSCA, Eq. 14 to 17).

    Fully plausible, π = 1, are the given label and every class whose predicted probability is at least β; the others
    have π = α. A prediction that gives the others at most α lies in the credal set and has no loss. Else the loss is
    KL(p^r ‖ p̂) from the prediction projected onto the set's border, which gives 1 − α to the plausible classes and α to
    the others, each in proportion to p̂; p^r has no gradient. With uniform labels a sample in which another class than
    the given one reaches β is wholly uncertain and has no loss.

    Args:
        alpha: α, from 0 to below 1; see :class:`fedannot.custom.methods.fedgsca.settings.FedGSCASettings`.
        beta: β of the round.
        uniform: the rival form.
    """

    def __init__(self, alpha: float, beta: float, *, uniform: bool = False) -> None:
        super().__init__()
        self.alpha, self.beta, self.uniform = alpha, beta, uniform

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of logits ``(B, C)`` and classes ``(B,)``."""
        log_p = logits.float().log_softmax(dim=1)
        given = nn.functional.one_hot(labels, logits.shape[1]).bool()
        confident = log_p.detach() >= math.log(self.beta)
        plausible = given | confident
        target = self._projected(log_p.detach(), plausible)
        # Where the target is 0 so is its product with its logarithm.
        divergence = (torch.special.xlogy(target, target) - target * log_p).sum(dim=1)
        others = log_p.detach().exp().masked_fill(plausible, 0).sum(dim=1)
        open_ = others <= self.alpha
        if self.uniform:
            open_ = open_ | (confident & ~given).any(dim=1)
        mean: torch.Tensor = divergence.masked_fill(open_, 0).mean()
        return mean

    def _projected(self, log_p: torch.Tensor, plausible: torch.Tensor) -> torch.Tensor:
        """p^r of every sample, ``(B, C)``; in logarithms, as the given class may have next to no probability."""
        minus_infinity = -math.inf
        inside = log_p.masked_fill(~plausible, minus_infinity)
        outside = log_p.masked_fill(plausible, minus_infinity)
        inside = (inside - inside.logsumexp(dim=1, keepdim=True)).exp() * (1 - self.alpha)
        # Where every class is plausible nothing is outside.
        total = outside.logsumexp(dim=1, keepdim=True)
        return inside + torch.where(total > minus_infinity, (outside - total).exp() * self.alpha, 0.0)


def scheduled_beta(schedule: BetaSchedule, start: float, end: float, round_number: int, rounds: int) -> float:
    """Return β of a round: it falls from the start in the first round to the end in the last.

    Args:
        schedule: ``cosine``, ``linear``, or ``constant``, which stays at the start.
        start: β_0.
        end: β_1.
        round_number: from 1.
        rounds: number of all rounds.
    """
    done = 0.0 if rounds == 1 else (round_number - 1) / (rounds - 1)
    if schedule == "constant":
        return start
    if schedule == "linear":
        return start + (end - start) * done
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
