"""Plain values of records, states and files: what JSON and a restart can hold."""

import math
from collections.abc import Mapping
from typing import Any

import torch


def finite(values: Any) -> Any:
    """Return nested plain values with None in place of NaN and infinities, which JSON has no numbers for."""
    if isinstance(values, Mapping):
        return {key: finite(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def check_restorable(values: Any, what: str) -> None:
    """Check that a state file gives values back as they are.

    Args:
        values: what is to be written.
        what: whose they are, for the message.

    Raises:
        TypeError: if they are not plain: mappings, lists, tuples, texts, numbers, truth values, None, tensors.
    """
    if isinstance(values, Mapping):
        for key, value in values.items():
            check_restorable(value, f"{what}[{key!r}]")
    elif isinstance(values, list | tuple):
        for value in values:
            check_restorable(value, what)
    elif not (values is None or type(values) in (str, int, float, bool) or isinstance(values, torch.Tensor)):
        raise TypeError(f"Expected plain values or tensors in {what}, but found {type(values).__name__}.")
