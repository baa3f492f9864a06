"""Files of tensors that are written in one step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .whole_files import replaced


def write_tensors(file: Path, content: Mapping[str, Any]) -> None:
    """Write tensors and plain values in one step: after a crash the file is whole or as it was.

    Args:
        file: the file; its folder exists.
        content: what ``torch.load`` is to give back, with ``weights_only``.
    """
    with replaced(file) as temporary, temporary.open("wb") as stream:
        torch.save(dict(content), stream)
