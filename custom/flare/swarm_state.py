"""What a site of a swarm knows of the run: the round of its model, and the state that it kept of an earlier one."""

import time
from pathlib import Path

from nvflare.apis.fl_context import FLContext

from ..data.path_names import is_job_id
from ..run.state import STATE_FILE, RunState
from ..settings import RunSettings
from .kept_files import earlier_run_folders

# Our rounds count from 1, NVFlare's from 0.
FIRST_ROUND = 1
# Property of NVFlare's context beside the global model: the round after which it is that.
_MODEL_ROUND = "fedannot_model_round"
# And when this site began with the round in which it is.
_ROUND_BEGAN = "fedannot_round_began"


def set_model_round(round_number: int, fl_ctx: FLContext) -> None:
    """Note after which round the global model in a site's context is that."""
    fl_ctx.set_prop(_MODEL_ROUND, round_number, private=True, sticky=True)


def model_round(fl_ctx: FLContext) -> int:
    """Return the round after which the global model in a site's context is that; 0 before the first."""
    return int(fl_ctx.get_prop(_MODEL_ROUND, 0))


def note_beginning(fl_ctx: FLContext) -> None:
    """Note that a round begins at this site."""
    fl_ctx.set_prop(_ROUND_BEGAN, time.monotonic(), private=True, sticky=True)


def seconds_in_round(fl_ctx: FLContext) -> float:
    """Return how long the round has been going on at this site."""
    now = time.monotonic()
    return now - float(fl_ctx.get_prop(_ROUND_BEGAN, now))


def kept_state(settings: RunSettings, fl_ctx: FLContext) -> RunState:
    """Read the state that this site kept of the run that is continued, or the named one if it kept none.

    Raises:
        ResumeError: if there is none, or it is damaged.
    """
    job, given = continued_job(settings.resume_from), Path(settings.resume_from)
    own = [folder / STATE_FILE for folder in earlier_run_folders(job, settings.resume_from, fl_ctx)]
    return RunState.load(next((file for file in own if file.is_file()), given))


def continued_job(resume_from: str) -> str:
    """Return the job that a swarm's settings continue, which they name by itself or by the path of a state."""
    return resume_from if is_job_id(resume_from) else Path(resume_from).parent.name
