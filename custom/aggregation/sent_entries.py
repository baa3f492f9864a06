"""Whether what a site sent has the expected entries; a site loads this, too, and nothing that averages."""

from collections.abc import Collection

import torch

from ..refusals import RefusalCode, RefusalReason


def names_refusal(params: Collection[str], expected: Collection[str]) -> RefusalReason | None:
    """Return why a state dict's names are not the expected ones, or None if they are."""
    if missing := sorted(set(expected) - set(params)):
        return RefusalReason.of(RefusalCode.ENTRIES_MISSING, number=len(missing), entry=missing[0])
    # What comes from outside may have names of any type.
    if unexpected := sorted(str(name) for name in set(params) - set(expected)):
        return RefusalReason.of(RefusalCode.ENTRIES_UNEXPECTED, number=len(unexpected), entry=unexpected[0])
    return None


def shape_refusal(name: str, entry: object, shape: torch.Size) -> RefusalReason | None:
    """Return why an entry is no tensor of the expected shape, or None if it is."""
    if not isinstance(entry, torch.Tensor):
        return RefusalReason.of(RefusalCode.NO_TENSOR, entry=name, type=type(entry).__name__)
    if entry.shape != shape:
        shapes = str(tuple(entry.shape)), str(tuple(shape))
        return RefusalReason.of(RefusalCode.OTHER_SHAPE, entry=name, shape=shapes[0], expected=shapes[1])
    return None
