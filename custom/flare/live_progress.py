"""How far a run is, reported to whoever may look at the job, and kept for when the run's process has died.

NVFlare asks every component of a running job for statistics (`show_stats`, the right to view): the progress goes along.
When the job has ended, its file in the job's folder, or in the archive of that folder, says where it was.
"""

import json
import zipfile
from pathlib import Path

from nvflare.apis.fl_context import FLContext
from nvflare.widgets.info_collector import InfoCollector
from pydantic import ValidationError

from ...transforms.errors import DataError
from ..data.path_names import is_job_id
from ..data.whole_files import write_text
from ..run.run_progress import PROGRESS_FILE, Failure, RunProgress
from ..run.state import ResumeError, RunFailedError
from ..settings import SettingsError

# The group of NVFlare's statistics of a job, and the key of a job's meta, which has the version as "fedannot".
PROGRESS_GROUP = "fedannot_progress"

_FAILURES: tuple[tuple[type[Exception], Failure], ...] = (
    (RunFailedError, Failure.TOO_FEW_RESULTS),
    (ResumeError, Failure.STATE),
    (DataError, Failure.DATA),
    (SettingsError, Failure.SETTINGS),
)


def tell_progress(progress: RunProgress, fl_ctx: FLContext) -> None:
    """Add the progress to the statistics that NVFlare collects."""
    collector = fl_ctx.get_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR)
    if collector is not None:
        collector.set_info(PROGRESS_GROUP, progress.model_dump(mode="json"))


def keep_progress(progress: RunProgress, fl_ctx: FLContext | None) -> str | None:
    """Write the progress of a submitted job into its folder; a simulated one has nobody who asks.

    Args:
        progress: of the run.
        fl_ctx: NVFlare's context at the server; None before NVFlare has given one.

    Returns:
        Why it could not be written, which is no reason to end a run; None where nothing is wrong.
    """
    if fl_ctx is None or not is_job_id(job_id := str(fl_ctx.get_job_id())):
        return None
    file = Path(fl_ctx.get_engine().get_workspace().get_run_dir(job_id)) / PROGRESS_FILE
    try:
        write_text(file, json.dumps(progress.model_dump(mode="json")) + "\n")
    except OSError as error:
        return f"The progress cannot be written: {error}."
    return None


def kept_progress(run_folder: Path, archive: Path) -> RunProgress | None:
    """Return the last progress of a job whose process has ended; None where there is none that can be read.

    Args:
        run_folder: the job's folder, where it is still there.
        archive: NVFlare's archive of it in the job store.
    """
    try:
        if (file := run_folder / PROGRESS_FILE).is_file():
            text = file.read_text(encoding="utf-8")
        else:
            with zipfile.ZipFile(archive) as files:
                text = files.read(PROGRESS_FILE).decode()
        return RunProgress.model_validate_json(text)
    except (OSError, KeyError, zipfile.BadZipFile, ValidationError, ValueError):
        return None


def failure_of(error: Exception) -> Failure:
    """Return of which kind an error is that has ended a run; its text stays in the server's log."""
    return next((failure for kind, failure in _FAILURES if isinstance(error, kind)), Failure.ERROR)
