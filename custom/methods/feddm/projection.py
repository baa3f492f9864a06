"""The mean of updates without what conflicts in them (FedDM, after Yu et al., NeurIPS 2020)."""

from collections.abc import Sequence

import torch


def without_conflict(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Return two updates, each without its part against the other, and whether there was any.

    Both are projected off the other as it was given. In the last pair the authors' program subtracts from the second
    ⟨a, b⟩ / ‖a'‖² a' with the first as it is projected already, a'.

    Args:
        first: a, ``(N,)``.
        second: b, ``(N,)``.

    Example:
        >>> first, second, _ = without_conflict(torch.tensor([1.0, 1.0]), torch.tensor([1.0, -3.0]))
        >>> [[round(value, 3) for value in update.tolist()] for update in (first, second)]
        [[1.2, 0.4], [2.0, -2.0]]
    """
    product = torch.dot(first, second)
    if not bool(product < 0):
        return first, second, False
    # Neither is 0: their product is not.
    return (
        first - product / torch.dot(second, second) * second,
        second - product / torch.dot(first, first) * first,
        True,
    )


def projected_mean(updates: Sequence[torch.Tensor], history: torch.Tensor) -> torch.Tensor | None:
    """Return the mean of a layer's updates without conflicts, ``(N,)``; None where there are none.

    Updates are sorted by their projections on the history, the highest is paired with the lowest, and so on. Pairs
    without their conflicts are added up, and these sums paired in the same way until one is left, which is divided by
    the number of updates. Where projections are equal the order is that of the updates.

    Args:
        updates: of every site, ``(N,)`` each.
        history: the direction along which they are sorted, ``(N,)``.
    """
    left, has_conflict = list(updates), False
    while len(left) > 1:
        # With two the order decides nothing; the length of the history is the same for all.
        places = sorted(range(len(left)), key=lambda place: -float(torch.dot(left[place], history)))
        sums = []
        for rank in range(len(left) // 2):
            first, second, is_projected = without_conflict(left[places[rank]], left[places[-1 - rank]])
            has_conflict |= is_projected
            sums.append(first + second)
        if len(left) % 2:
            sums.append(left[places[len(left) // 2]])
        left = sums
    return left[0] / len(updates) if has_conflict else None
