"""What the server's parent process watches: sites that have fallen silent, and jobs whose process has died.

NVFlare forgets a site that sends nothing after ten minutes, and says so then. Jobs that ran when the server was killed
keep the status RUNNING for ever. A job that has finished at the server waits up to a quarter of an hour for the last
word of a site that is gone, and counts as abnormal then.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, SystemComponents
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import JobMetaKey, RunStatus

from ..data.path_names import is_job_id
from .kept_files import JOB_STORE, STORED_WORKSPACE
from .live_progress import PROGRESS_GROUP, kept_progress
from .private_log import COURSE_LOGGER

# Sites send a sign of life every 10 s, from a process that does not train.
SILENT_AFTER = 30.0


class ServerWatch(FLComponent):  # type: ignore[misc]
    """Names silent sites in the server's log, and has jobs end that have ended.

    Args:
        silent_after: seconds without a sign of life after which a site is named.
        gone_after: seconds after which a job that has finished does not wait for a site any more.
        every: seconds between two looks.
    """

    def __init__(self, silent_after: float = SILENT_AFTER, gone_after: float = 60.0, every: float = 5.0) -> None:
        super().__init__()
        # Names of sites and ids of jobs are for everybody who may see NVFlare's lines; names of files are not in them.
        self.logger = logging.getLogger(COURSE_LOGGER)
        self._signs = SignsOfLife(silent_after)
        self._gone_after, self._every = gone_after, every
        self._is_over = threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to watch when the server starts, and note in a job's meta how far it was when it has ended."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            # Before NVFlare starts jobs.
            self._end_jobs_of_an_earlier_process(fl_ctx)
        elif event_type == EventType.SYSTEM_START:
            watch = threading.Thread(target=self._watch, args=(fl_ctx.get_engine(),), name="server_watch", daemon=True)
            watch.start()
        elif event_type == EventType.SYSTEM_END:
            self._is_over.set()
        elif event_type in (EventType.JOB_COMPLETED, EventType.JOB_ABORTED):
            job_id = str((fl_ctx.get_prop(FLContextKey.EVENT_DATA) or {}).get(JobMetaKey.JOB_ID.value))
            if is_job_id(job_id):
                self._note_progress(job_id, fl_ctx)

    def _end_jobs_of_an_earlier_process(self, fl_ctx: FLContext) -> None:
        """Set the status of jobs that say that they run: nothing runs yet in this process."""
        engine = fl_ctx.get_engine()
        jobs = engine.get_component(SystemComponents.JOB_MANAGER)
        for job in jobs.get_jobs_by_status([RunStatus.RUNNING, RunStatus.DISPATCHED], fl_ctx):
            jobs.set_status(job.job_id, RunStatus.ABANDONED, fl_ctx)
            self._note_progress(job.job_id, fl_ctx)
            self.log_warning(
                fl_ctx,
                f"Job {job.job_id} ended when the server's process did. It goes on as resume_from={job.job_id}.",
                fire_event=False,
            )

    def _note_progress(self, job_id: str, fl_ctx: FLContext) -> None:
        """Note in the meta of a job that has ended how far it was; nobody else writes it any more."""
        engine = fl_ctx.get_engine()
        root = Path(engine.get_workspace().get_root_dir())
        progress = kept_progress(root / job_id, root / JOB_STORE / job_id / STORED_WORKSPACE)
        if progress is not None:
            added = {PROGRESS_GROUP: progress.model_dump(mode="json")}
            engine.get_component(SystemComponents.JOB_MANAGER).update_meta(job_id, added, fl_ctx)

    def _watch(self, engine: Any) -> None:
        while not self._is_over.wait(self._every):
            try:
                self._look(engine)
            except Exception as error:
                # The next look may do; without one nobody would be named any more.
                self.logger.error(f"The watch of sites failed: {type(error).__name__}: {error}")

    def _look(self, engine: Any) -> None:
        for sign in self._signs.look({client.name: client.last_connect_time for client in engine.get_clients()}):
            if sign.silent is None:
                self.logger.warning(f"{sign.site} is heard from again.")
            else:
                self.logger.warning(
                    f"Nothing heard from {sign.site} for {sign.silent:.0f} s: is its machine up, and the network?"
                )
        for site in self._signs.silent(self._gone_after):
            for job_id in _finished(engine, site):
                self.logger.warning(f"Job {job_id} has finished and does not wait for {site}, which is silent.")
                engine.job_runner.resolve_client_outcome(job_id, site)


def _finished(engine: Any, site: str) -> Iterable[str]:
    """Jobs whose process at the server has ended without an error, and that wait for a site's last word."""
    waiting = engine.job_runner.get_client_outcome_jobs(site)
    return [job for job in waiting if job not in engine.run_processes and job not in engine.exception_run_processes]


class Sign(NamedTuple):
    """A site that has fallen silent, or is back.

    Attributes:
        site: its name.
        silent: seconds since it was last heard from; None where it is heard from again.
    """

    site: str
    silent: float | None


@dataclass
class SignsOfLife:
    """When each site was last heard from.

    Attributes:
        silent_after: seconds without a sign of life after which a site is named.
        clock: gives seconds since 1970.
    """

    silent_after: float
    clock: Callable[[], float] = time.time
    _heard: dict[str, float] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    def look(self, heard: dict[str, float]) -> list[Sign]:
        """Return who has fallen silent and who is back since the last look; each once.

        Args:
            heard: of the sites that are registered now, when each was last heard from.
        """
        # One that NVFlare has forgotten stays silent until it registers again, or has left by itself.
        self._heard = {site: at for site, at in self._heard.items() if site in self._named} | heard
        now, signs = self.clock(), []
        for site, at in sorted(self._heard.items()):
            silent = now - at
            if silent > self.silent_after and site not in self._named:
                self._named.add(site)
                signs.append(Sign(site, silent))
            elif silent <= self.silent_after and site in self._named:
                self._named.discard(site)
                signs.append(Sign(site, None))
        return signs

    def silent(self, seconds: float) -> list[str]:
        """Return the sites that have been silent for so long."""
        now = self.clock()
        return sorted(site for site in self._named if now - self._heard[site] > seconds)
