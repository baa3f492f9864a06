"""How many threads PyTorch computes with: a participant's own choice, and the job's where it has made none."""

import os
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field

from ..data.json_record import JsonRecord, read_record
from ..settings import SettingsError

# More than any machine has cores; memory for as many would be asked for at once.
MOST_THREADS = 1024
THREADS_VARIABLE = "FEDANNOT_THREADS"
# In a kit's folder `local`.
COMPUTE_FILE = "compute.json"

# What PyTorch starts with: OMP_NUM_THREADS, or all cores that the process may use.
_DEFAULT = torch.get_num_threads()


class Compute(JsonRecord):
    """How a participant computes, whatever a job says.

    Attributes:
        threads: of PyTorch, in every process; 0 leaves it to the job.
    """

    threads: Annotated[int, Field(ge=0, le=MOST_THREADS)] = 0


def set_threads(asked: int, config_folder: Path) -> None:
    """Let PyTorch compute with the participant's number of threads; see :func:`number_of_threads`."""
    torch.set_num_threads(number_of_threads(asked, config_folder))


def number_of_threads(asked: int, config_folder: Path | None = None) -> int:
    """Return how many threads a participant computes with.

    First the environment variable ``FEDANNOT_THREADS`` counts, then ``compute.json`` in the participant's configuration
    folder, then the job's setting. Where all are 0 or absent PyTorch takes ``OMP_NUM_THREADS``, or all cores.

    Args:
        asked: the job's setting ``threads``; 0 for none.
        config_folder: NVFlare's ``local`` folder of the participant; None for one without.

    Raises:
        SettingsError: if the variable is no whole number of at least 0.
        DataError: if the file cannot be used.
    """
    of_kit = 0 if config_folder is None else _of_kit(config_folder)
    return _of_environment() or of_kit or asked or _DEFAULT


def _of_environment() -> int:
    value = os.environ.get(THREADS_VARIABLE, "").strip() or "0"
    if not (value.isascii() and value.isdigit() and int(value) <= MOST_THREADS):
        raise SettingsError(
            f"Expected a number of threads from 0 to {MOST_THREADS} in {THREADS_VARIABLE}, but found {value!r:.40}."
        )
    return int(value)


def _of_kit(config_folder: Path) -> int:
    return (read_record(config_folder / COMPUTE_FILE, Compute) or Compute()).threads
