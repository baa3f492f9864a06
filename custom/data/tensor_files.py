"""Files of tensors that are written in one step, and those that a site keeps from round to round."""

import pickle
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .whole_files import private_folder, replaced


def write_tensors(file: Path, content: Mapping[str, Any]) -> None:
    """Write tensors and plain values in one step: after a crash the file is whole or as it was.

    Args:
        file: the file; its folder exists.
        content: what ``torch.load`` is to give back, with ``weights_only``.
    """
    with replaced(file) as temporary, temporary.open("wb") as stream:
        torch.save(dict(content), stream)


# What PyTorch raises of a file that is damaged.
UNREADABLE = (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError)

# A server that was killed in a round goes on after the round before.
_KEPT = 2


def save_tensors_of_round(
    folder: Path, round_number: int, params: Mapping[str, Any], keep: Collection[int] = ()
) -> None:
    """Write the tensors of a round in one step; of earlier rounds the last one and those to keep stay.

    Args:
        folder: where they lie; made if it is not there.
        round_number: the round.
        params: a state dict, of a network or of an optimizer.
        keep: rounds after which a run may go on. What counted then stays: of a site that rested, an earlier round's.
    """
    private_folder(folder)
    write_tensors(_file(folder, round_number), params)
    rounds = sorted(_rounds(folder))
    kept = {max((number for number in rounds if number <= last), default=None) for last in keep}
    for number in rounds[:-_KEPT]:
        if number not in kept:
            _file(folder, number).unlink()


def load_latest_tensors(
    folders: Sequence[tuple[Path, int]], *, mapped: bool = False
) -> tuple[int, dict[str, Any]] | None:
    """Read the tensors of the latest round there is, with its number; None if there are none.

    Args:
        folders: places to look, in this order, each with the last round that counts there.
        mapped: map tensors from the disk, so that they take memory only as far as they are used.
    """
    for folder, last_round in folders:
        if rounds := [number for number in _rounds(folder) if number <= last_round]:
            latest = max(rounds)
            return latest, torch.load(_file(folder, latest), map_location="cpu", weights_only=True, mmap=mapped)
    return None


def _file(folder: Path, round_number: int) -> Path:
    return folder / f"round_{round_number}.pt"


def _rounds(folder: Path) -> list[int]:
    result = (re.fullmatch(r"round_(\d+)\.pt", file.name) for file in folder.glob("round_*.pt"))
    return [int(match[1]) for match in result if match]
