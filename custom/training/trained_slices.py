"""Which slices of its volumes a site trains on: every n-th one, and of those without annotation a share."""

from collections.abc import Sequence

import torch

from ...transforms.ignored_label import IGNORED_LABEL
from ..data.description import SliceDescription
from ..data.site_data import SiteData


def trained_slices(data: SiteData, labels: Sequence[torch.Tensor] | torch.Tensor) -> torch.Tensor | None:
    """Return which samples are trained on, ``(N,)`` booleans, as the site's description says; None for all.

    Neighbouring slices resemble each other, and most show nothing. Slices are left out in the same places in every
    round: every `stride`-th one counts, and of those in which nothing is annotated `empty_slices`, spread evenly over
    the volume. At least one slice of every volume counts. Scores and estimates are of all slices.

    Args:
        data: the site's data.
        labels: the annotations that count, one for each sample.
    """
    description = data.description
    if not isinstance(description, SliceDescription) or description.trains_on_all:
        return None
    chosen: list[torch.Tensor] = []
    first = 0
    for case in data.cases:
        count = len(case.image)
        annotated = [bool(((label != 0) & (label != IGNORED_LABEL)).any()) for label in labels[first : first + count]]
        chosen.append(slices_of(torch.tensor(annotated), description.stride, description.empty_slices))
        first += count
    return torch.cat(chosen)


def slices_of(annotated: torch.Tensor, stride: int, empty_share: float) -> torch.Tensor:
    """Return which slices of a volume count, ``(S,)`` booleans.

    Args:
        annotated: in which slices something is annotated, ``(S,)`` booleans.
        stride: every so many slices one counts, the first in the middle of the first `stride`.
        empty_share: fraction of those among them without annotation that count, rounded.
    """
    start = min(stride // 2, (len(annotated) - 1) // 2)
    in_step = torch.arange(start, len(annotated), stride)
    empty = in_step[~annotated[in_step]]
    kept = round(empty_share * len(empty))
    if not kept and len(empty) == len(in_step):
        kept = 1
    places = torch.div((2 * torch.arange(kept) + 1) * len(empty), 2 * max(kept, 1), rounding_mode="floor")
    counts = torch.zeros(len(annotated), dtype=torch.bool)
    counts[in_step[annotated[in_step]]] = True
    counts[empty[places]] = True
    return counts
