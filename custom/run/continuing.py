"""What a run begins with, or goes on with: a state that does not fit the job is refused with the name of its file."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from ..aggregation.streaming_average import refusal_reason
from ..networks.start_weights import read_start_weights
from ..settings import RunSettings
from .state import ResumeError, RunState
from .transport import RunContext


def start_params(beginning: RunContext, say: Callable[[str], None]) -> dict[str, torch.Tensor]:
    """Return what the run begins with, the same however often: drawn weights, or those of a start model.

    Args:
        beginning: of the run.
        say: writes a sentence to the log.

    Raises:
        DataError: if the start model cannot be used.
    """
    params = dict(beginning.params)
    if beginning.start_model is None:
        return params
    say(f"Beginning with the weights of {beginning.start_model.name}.")
    return read_start_weights(beginning.start_model, params)


def earlier_state(
    file: Path, settings: RunSettings, rounds_of_averaging: int, reference: Mapping[str, torch.Tensor]
) -> RunState:
    """Return the state that a job goes on with, as one of this job.

    Args:
        file: the state of the earlier run.
        settings: the job's settings.
        rounds_of_averaging: see :meth:`RunState.check_continues`.
        reference: a state dict of the job's network.

    Raises:
        ResumeError: if it cannot be read, is of another network, or another method or other settings made it.
    """
    values = settings.model_dump(mode="json")
    with named_with_its_file(file):
        state = RunState.load(file)
        # Each round was checked when it was made; running statistics may have grown far beyond what a start allows.
        if (reason := refusal_reason(state.params, reference, dict.fromkeys(reference, math.inf))) is not None:
            raise ResumeError(f"The model in {file} does not fit the job's network: {reason}.")
        if not 0 <= state.round_number == len(state.history):
            raise ResumeError(f"{file} is after round {state.round_number}, but has {len(state.history)} records.")
        state.check_continues(settings.method, values, rounds_of_averaging)
    state.method, state.settings = settings.method, values
    return state


@contextmanager
def named_with_its_file(file: Path) -> Iterator[None]:
    """Make of whatever is wrong with a state an error that names its file.

    Raises:
        ResumeError: in place of any other error.
    """
    try:
        yield
    except ResumeError:
        raise
    except Exception as error:
        raise ResumeError(f"{file} cannot be continued ({type(error).__name__}: {error}).") from error
