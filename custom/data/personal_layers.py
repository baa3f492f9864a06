"""A site's personal layers on its disk, a file for each round: they outlive the process, and never leave the site."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch

from .tensor_files import write_tensors

PERSONAL_FOLDER = "personal"
LOCAL_MODEL_FILE = "local_model.pt"
LOCAL_SCORES_FILE = "local_scores.json"

# A server that was killed in a round goes on after the round before.
_KEPT = 2


def save_personal_layers(
    folder: Path, round_number: int, params: Mapping[str, torch.Tensor], keep: Collection[int] = ()
) -> None:
    """Write the personal layers after a round in one step; of earlier rounds the last one and those to keep stay.

    Args:
        folder: where they lie; made if it is not there.
        round_number: the round.
        params: a state dict.
        keep: rounds whose files stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(_file(folder, round_number), params)
    for number in sorted(_rounds(folder))[:-_KEPT]:
        if number not in keep:
            _file(folder, number).unlink()


def load_personal_layers(folders: Sequence[tuple[Path, int]]) -> dict[str, torch.Tensor] | None:
    """Read the personal layers of the latest round there is, None if there are none.

    Args:
        folders: places to look, in this order, each with the last round that counts there.
    """
    for folder, last_round in folders:
        if rounds := [number for number in _rounds(folder) if number <= last_round]:
            params: dict[str, torch.Tensor] = torch.load(
                _file(folder, max(rounds)), map_location="cpu", weights_only=True
            )
            return params
    return None


def _file(folder: Path, round_number: int) -> Path:
    return folder / f"layers_round_{round_number}.pt"


def _rounds(folder: Path) -> list[int]:
    found = (re.fullmatch(r"layers_round_(\d+)\.pt", file.name) for file in folder.glob("layers_round_*.pt"))
    return [int(match[1]) for match in found if match]
