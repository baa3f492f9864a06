"""What others learn of an error that ends a job at a participant: a short reason. Its private log has the full text."""

from pathlib import Path

from nvflare.apis.fl_context import FLContext

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..components.component import ComponentError
from ..data.path_names import is_job_id
from ..networks.start_weights import ModelFileError
from ..run.state import ResumeError, RunFailedError
from ..settings import SettingsError

# Their texts are made of sites, settings, and states and models that the job itself has named.
_ABOUT_THE_JOB = (ComponentError, ModelFileError, ResumeError, RunFailedError)
# As NVFlare's simulator, and a run in one process, name their job.
SIMULATED_JOB = "simulate_job"
_KIT_FILES = ("fed_client.json", "fed_server.json")
_LOGGER = printable_logger(__name__)


class PublicError(RuntimeError):
    """What everybody learns of an error that may name files: its kind alone.

    Args:
        error: what ended the job.
    """

    NO_TEST_SET = "The server's test set or its reviewed cases cannot be used; the operator's log says why."
    NO_SETTINGS = "A participant's own settings cannot be used; the operator's log says why."

    def __init__(self, error: Exception) -> None:
        if isinstance(error, DataError):
            text = self.NO_TEST_SET
        elif isinstance(error, SettingsError):
            text = self.NO_SETTINGS
        else:
            text = f"The run failed at a participant ({type(error).__name__}); the operator's log says why."
        super().__init__(text)


def is_submitted(fl_ctx: FLContext) -> bool:
    """Return whether a job was submitted to a federation; who runs a simulation is operator and researcher in one."""
    return is_job_id(str(fl_ctx.get_job_id()))


def is_simulated(fl_ctx: FLContext) -> bool:
    """Return whether a job is simulated, so that whoever reads of an error may read all of it.

    A participant of a federation has a startup kit: there the server's word for the job decides nothing.

    Args:
        fl_ctx: NVFlare's context.
    """
    if str(fl_ctx.get_job_id()) != SIMULATED_JOB:
        return False
    kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir()) / "startup"
    return not any((kit / name).exists() for name in _KIT_FILES)


def public_reason(error: Exception, fl_ctx: FLContext) -> str:
    """Return what an error that ends the job is to say to everybody, and log all of it.

    NVFlare writes the reason to its logs, which it returns to the researcher. An error may name files of a test set.

    Args:
        error: the error.
        fl_ctx: NVFlare's context.

    Returns:
        In a simulation the error's text. In a submitted job one that names no file but those that the job names, and
        no folder of the participant.
    """
    is_known = isinstance(error, (DataError, SettingsError, *_ABOUT_THE_JOB))
    if is_submitted(fl_ctx) or not is_known:
        _LOGGER.error("The job ends here: %s", error, exc_info=None if is_known else error)
    if not is_submitted(fl_ctx):
        return str(error)
    if isinstance(error, _ABOUT_THE_JOB):
        return str(error).replace(f"{fl_ctx.get_engine().get_workspace().get_root_dir()}/", "")
    return str(PublicError(error))
