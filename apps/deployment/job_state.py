"""What has become of a job, by NVFlare's status, by its process at the server, and by what that has said of the run."""

from enum import StrEnum

from nvflare.apis.job_def import RunStatus

from ...custom.run.run_progress import Phase, RunProgress


class JobState(StrEnum):
    """What has become of a job."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    NOT_ANSWERING = "not answering"
    ENDING = "ending"
    COMPLETED = "completed"
    ABORTED = "aborted"
    STOPPED = "stopped"
    FAILED = "failed"
    DIED = "died"
    REFUSED = "refused"
    NOT_STARTED = "not started"

    @property
    def is_trouble(self) -> bool:
        """Whether somebody has to do something for this job to have a result."""
        return self not in _FINE

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after it."""
        return self not in _GOES_ON


_FINE = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.ENDING, JobState.COMPLETED, JobState.ABORTED)
_GOES_ON = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.NOT_ANSWERING, JobState.ENDING)


class Process(StrEnum):
    """What the server's process of a job does."""

    NONE = "none"
    STARTS = "starts"
    RUNS = "runs"
    HANGS = "hangs"


_OF_PROCESS = {
    Process.NONE: JobState.ENDING,
    Process.STARTS: JobState.STARTING,
    Process.RUNS: JobState.RUNNING,
    Process.HANGS: JobState.NOT_ANSWERING,
}
# What NVFlare's status says by itself.
_PLAIN: dict[str, JobState] = {
    RunStatus.SUBMITTED.value: JobState.QUEUED,
    RunStatus.APPROVED.value: JobState.QUEUED,
    RunStatus.DISPATCHED.value: JobState.STARTING,
    RunStatus.FINISHED_COMPLETED.value: JobState.COMPLETED,
    RunStatus.FINISHED_ABORTED.value: JobState.ABORTED,
    RunStatus.FINISHED_CANT_SCHEDULE.value: JobState.NOT_STARTED,
    RunStatus.FAILED_TO_RUN.value: JobState.REFUSED,
}


def state_of(status: str, process: Process, progress: RunProgress | None) -> JobState:
    """Return what has become of a job.

    NVFlare says RUNNING until it has written down how a job ended, and calls jobs abnormal whose process was killed as
    well as jobs that a site has left. The progress that the job's own process has kept tells them apart.

    Args:
        status: NVFlare's.
        process: what the server's process of the job does.
        progress: the last that it has said, or kept.
    """
    if status == RunStatus.RUNNING:
        return _OF_PROCESS[process]
    phase = None if progress is None else progress.phase
    if phase is Phase.FAILED:
        return JobState.FAILED
    if status in _PLAIN:
        return _PLAIN[status]
    if phase is Phase.FINISHED:
        return JobState.COMPLETED
    return JobState.STOPPED if phase is Phase.STOPPED else JobState.DIED
