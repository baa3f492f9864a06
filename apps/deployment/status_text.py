"""What is said of a federation: its sites, its jobs, and what to do next."""

import dataclasses
from datetime import UTC, datetime
from typing import TypedDict

from ...custom.run.run_progress import Failure, Phase, RunProgress
from ...custom.run.time_left import duration
from ..wording.refusals import refusal_in_words
from ..wording.shell_words import shell_word
from .federation_status import SHOWN_ENDED, FederationStatus, JobStatus
from .job_state import JobState


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the status.

    Attributes:
        text: what is said.
        level: of indentation.
        is_trouble: whether somebody has to do something.
        is_remedy: whether it says what to do.
    """

    text: str
    level: int = 0
    is_trouble: bool = False
    is_remedy: bool = False


def status_lines(status: FederationStatus) -> list[Line]:
    """Return the lines that describe the status of a federation."""
    up = "" if status.up_since is None else f", up since {_when(status.up_since)}"
    lines = [Line(f"Server {status.server}{up}, its clock says {_when(status.now)}")]
    if not status.sites:
        lines.append(Line("No site is registered: no job starts.", is_trouble=True))
    for sign in status.sites:
        if sign.is_silent:
            lines.append(Line(f"{sign.name}: SILENT, nothing heard for {duration(sign.silent)}", 1, True))
            lines.append(Line("Ask the site: is its machine up, its process, its network?", 2, is_remedy=True))
        else:
            lines.append(Line(f"{sign.name}: there, heard from {duration(sign.silent)} ago", 1))
    if not status.jobs:
        lines.append(Line("No jobs."))
    for job in status.jobs:
        lines += _job_lines(job, status)
    if sum(job.state.is_end for job in status.jobs) >= SHOWN_ENDED:
        lines.append(Line(f"Of ended jobs the latest {SHOWN_ENDED} are shown; all: nvflare job list"))
    return lines


def _job_lines(job: JobStatus, status: FederationStatus) -> list[Line]:
    head = f"Job {job.job_id} {job.name}: {_state_text(job)}"
    lines = [Line(head, is_trouble=job.state.is_trouble)]
    if job.progress is not None:
        lines += _progress_lines(job, job.progress, status)
    lines += [Line(f"refused: {text}", 1) for text in job.refusals]
    if (remedy := what_to_do(job, status)) is not None:
        lines.append(Line(remedy, 1, is_remedy=True))
    return lines


def _state_text(job: JobStatus) -> str:
    progress = job.progress
    where = "" if progress is None else f" in round {max(progress.round_number, 1)} of {progress.rounds}"
    texts = {
        JobState.NOT_ANSWERING: "its process at the server does not answer",
        JobState.ENDING: "its process at the server has ended, or is about to",
        JobState.DIED: f"ended: the server's process of the job died{where}",
        JobState.STOPPED: f"ended: NVFlare stopped it{where}",
        JobState.FAILED: f"ended by itself{where}: {_failure(progress)}",
        JobState.REFUSED: "refused, or could not be started",
        JobState.NOT_STARTED: "never started: its sites were not there in time",
    }
    return f"{texts.get(job.state, job.state.value)} ({job.nvflare_status})"


_FAILURES = {
    Failure.TOO_FEW_RESULTS: "too few usable results",
    Failure.STATE: "the state that it was to go on with cannot be used",
    Failure.DATA: "the start model or the server's test set cannot be used",
    Failure.SETTINGS: "its settings cannot be used",
    Failure.ERROR: "an error",
}


def _failure(progress: RunProgress | None) -> str:
    return "an error" if progress is None or progress.failure is None else _FAILURES[progress.failure]


def _progress_lines(job: JobStatus, progress: RunProgress, status: FederationStatus) -> list[Line]:
    stage = f" ({progress.stage})" if progress.stage else ""
    now = f"round {progress.round_number}/{progress.rounds}{stage}, {progress.finished_rounds} finished"
    lines = [Line(f"{now}; {_score(progress)}{_times(job.state, progress)}", 1)]
    request = progress.request
    if job.state is JobState.RUNNING and request is not None and progress.phase is Phase.WAITING:
        since = duration(max(status.now - request.since, 0.0))
        lines.append(Line(f"{len(request.answered)} of {len(request.sites)} answered {request.task!r} in {since}", 1))
        gone = set(status.gone(job))
        for site in progress.missing:
            is_gone = site in gone
            text = f"waits for {site}" + (", which is silent" if is_gone else "")
            lines.append(Line(text, 1, is_gone))
    elif job.state is JobState.RUNNING:
        lines.append(Line("the server computes" if progress.request is not None else "the server starts the run", 1))
    lines += [
        Line(f"{site} does not count: {refusal_in_words(reason)}", 1)
        for site, reason in sorted(progress.refused.items())
    ]
    if progress.absent:
        lines.append(Line(f"not in the job, since not there at its start: {', '.join(progress.absent)}", 1))
    return lines


def _score(progress: RunProgress) -> str:
    if progress.score is None:
        return "no score yet"
    return f"{progress.score_label} {100 * progress.score:.1f} %"


def _times(state: JobState, progress: RunProgress) -> str:
    if progress.round_seconds is None or state.is_end:
        return ""
    left = "" if not progress.seconds_left else f", about {duration(progress.seconds_left)} left"
    return f"; {duration(progress.round_seconds)} a round{left}"


def what_to_do(job: JobStatus, status: FederationStatus) -> str | None:
    """Return what to do about a job; None where it goes on, or has a result, without anybody's help."""
    job_id, progress = job.job_id, job.progress
    if job.state is JobState.RUNNING:
        gone = status.gone(job)
        return None if progress is None or not gone else _without(gone, progress)
    if job.state is JobState.QUEUED:
        awaited = ", ".join(status.awaited(job))
        return f"It may wait for {awaited}: not registered. Are they started, and called so?" if awaited else None
    if job.state in (JobState.DIED, JobState.STOPPED):
        return _of_stop(job_id, progress)
    if job.state is JobState.FAILED:
        return _of_failure(job_id, progress)
    text = _WHAT_TO_DO.get(job.state)
    return None if text is None else text.format(job_id=shell_word(job_id))


# What to do that follows from the state alone.
_WHAT_TO_DO = {
    JobState.NOT_ANSWERING: "If it stays so: nvflare job abort {job_id} --force, then the job with "
    "--set resume_from={job_id}.",
    JobState.ENDING: "Look again in a minute: the server then says how it ended.",
    JobState.REFUSED: "Ask those who refused; they approve it with `fedannot deploy approve`, or change limits.json.",
    JobState.NOT_STARTED: "Submit it again when its sites are there.",
    JobState.COMPLETED: "Get the result: nvflare job download {job_id}",
}


def _of_stop(job_id: str, progress: RunProgress | None) -> str:
    """What to do about a job that died or was stopped."""
    if progress is None:
        return f"Submit the job made with --set resume_from={shell_word(job_id)}, or again if no round was finished."
    if not progress.finished_rounds:
        return "No round was finished: submit the job again."
    goes_on = f"it goes on after round {progress.finished_rounds}, to the same bits"
    return f"Submit the job made with --set resume_from={shell_word(job_id)}: {goes_on}."


def _without(gone: tuple[str, ...], progress: RunProgress) -> str:
    """How a round goes on that waits for sites that are silent."""
    names = ", ".join(gone)
    if len(progress.request.sites if progress.request else ()) - len(gone) < progress.min_sites:
        return (
            f"Without {names} too few are left (at least {progress.min_sites}): the round fails after "
            f"{duration(progress.task_timeout)}. Get the sites back, or abort the job and {_later(progress)}."
        )
    waits = progress.task_timeout if progress.grace_period is None else progress.grace_period
    after = "" if progress.grace_period is None else f" after {progress.min_sites} have answered"
    return f"The round goes on without {names}, {duration(waits)}{after} at the latest; nothing to do for the job."


def _later(progress: RunProgress) -> str:
    return "resume it later" if progress.finished_rounds else "submit it again later"


def _of_failure(job_id: str, progress: RunProgress | None) -> str:
    failure = None if progress is None else progress.failure
    if failure is Failure.TOO_FEW_RESULTS:
        return (
            f"Mend what the refusals above say, then submit the job made with --set resume_from={shell_word(job_id)}."
        )
    if failure is Failure.STATE:
        return "Name a job of yours in resume_from whose rounds are at the server, with the same settings."
    return f"Ask the server's operator: private/{job_id}/fedannot_server.log in the server's kit says why."


class StatusJson(TypedDict):
    """A status as plain values; a job has the fields of :class:`JobStatus` and what is to be done."""

    server: dict[str, str | float | None]
    sites: list[dict[str, str | float | bool]]
    jobs: list[dict[str, object]]
    is_trouble: bool


def as_json(status: FederationStatus) -> StatusJson:
    """Return a status as plain values, with what to do."""
    jobs = [
        {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}
        | {
            "progress": None if job.progress is None else job.progress.model_dump(mode="json"),
            "is_trouble": job.state.is_trouble,
            "silent_sites": list(status.gone(job)) if job.state is JobState.RUNNING else [],
            "what_to_do": what_to_do(job, status),
        }
        for job in status.jobs
    ]
    sites: list[dict[str, str | float | bool]] = [
        {"name": sign.name, "silent": round(sign.silent, 1), "is_silent": sign.is_silent} for sign in status.sites
    ]
    server: dict[str, str | float | None] = {"address": status.server, "up_since": status.up_since, "now": status.now}
    return {"server": server, "sites": sites, "jobs": jobs, "is_trouble": status.is_trouble}


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
