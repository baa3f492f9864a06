"""What a federation does right now, as an account sees it: sites, jobs, rounds; asked over NVFlare's own connection."""

import contextlib
import io
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nvflare.apis.job_def import JobMetaKey
from nvflare.fuel.flare_api.api_spec import JobNotFound, JobNotRunning, NoConnection
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from pydantic import ValidationError

from ...custom.data.path_names import is_job_id
from ...custom.flare.live_progress import PROGRESS_GROUP
from ...custom.flare.server_watch import SILENT_AFTER
from ...custom.run.run_progress import RunProgress
from ...transforms.strict_files import JsonObject
from ..runs.job import ALL_MEMBERS
from .identity_checks import server_time
from .job_state import JobState, Process, state_of
from .kit import KitError, read_json

_START_FILE = "fed_admin.json"
_CONNECT_SECONDS = 10.0
# More than the server itself waits for a job's process.
_ANSWER_SECONDS = 20.0
# Jobs that have ended and are shown with those that have not.
SHOWN_ENDED = 3
# That a job's process may take from its start until it answers.
_START_SECONDS = 120.0
# NVFlare waits 5 s for a process that is there.
_HANG_SECONDS = 3.0
_LOOKED_AT = 50


class NoAnswerError(RuntimeError):
    """The server cannot be asked; the text says why, and what to do."""


@dataclass(frozen=True)
class SiteSign:
    """A site that is registered at the server.

    Attributes:
        name: of the site.
        silent: seconds since it was last heard from; it sends a sign of life every 10 s, also while it trains.
    """

    name: str
    silent: float

    @property
    def is_silent(self) -> bool:
        """Whether it must be taken for gone."""
        return self.silent > SILENT_AFTER


@dataclass(frozen=True)
class JobStatus:
    """A job.

    Attributes:
        job_id: NVFlare's id.
        name: of the job.
        state: what has become of it.
        nvflare_status: what NVFlare says.
        submitted: when, in ISO 8601.
        refusals: why participants have refused it, each with its name.
        progress: how far it is, or was; None where nobody says, as in swarms and in jobs that have not started.
        sites: that it names; none where all that are there take part.
    """

    job_id: str
    name: str
    state: JobState
    nvflare_status: str
    submitted: str
    refusals: tuple[str, ...]
    progress: RunProgress | None
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class FederationStatus:
    """A federation at a moment.

    Attributes:
        server: its host name and port.
        up_since: when its process started, in seconds since 1970; None where it does not say.
        now: the server's time, as above.
        sites: those that are registered.
        jobs: that have not ended, and the latest that have; or the one that was asked for.
    """

    server: str
    up_since: float | None
    now: float
    sites: tuple[SiteSign, ...]
    jobs: tuple[JobStatus, ...]

    def sign_of(self, site: str) -> SiteSign | None:
        """Return when a site was last heard from; None if it is not registered."""
        return next((sign for sign in self.sites if sign.name == site), None)

    def gone(self, job: JobStatus) -> tuple[str, ...]:
        """Return the sites of a running job that are silent, or that the server has forgotten."""
        asked = job.progress.request.sites if job.progress is not None and job.progress.request is not None else ()
        signs = {site: self.sign_of(site) for site in asked}
        return tuple(site for site, sign in signs.items() if sign is None or sign.is_silent)

    def awaited(self, job: JobStatus) -> tuple[str, ...]:
        """Return the sites that a job names and that are not registered."""
        return tuple(site for site in job.sites if self.sign_of(site) is None)

    @property
    def is_trouble(self) -> bool:
        """Whether a running job lacks a site, or a job that is shown will not come to a result by itself."""
        return any(job.state.is_trouble or (job.state is JobState.RUNNING and self.gone(job)) for job in self.jobs)


class Observer:
    """An account's connection to the server, which only looks.

    Args:
        session: NVFlare's.
        account: what the kit's start file says.
        context: with the kit's certificates.
    """

    def __init__(self, session: Session, account: Mapping[str, Any], context: ssl.SSLContext) -> None:
        self._session, self._context = session, context
        self._host, self._port = str(account["host"]), int(account["port"])

    def look(self, job_id: str | None = None) -> FederationStatus:
        """Ask once.

        Args:
            job_id: the job to look at; None for those that have not ended and the latest others.

        Raises:
            NoAnswerError: if the server does not answer any more, the account may not look, or there is no such job.
        """
        if job_id is not None and not is_job_id(job_id):
            raise NoAnswerError(f"Expected a job's id, as `nvflare job list` shows it, but got {job_id[:60]!r}.")
        with _explained(self._host, self._port):
            system = self._session.get_system_info()
            server_clock = server_time(self._host, self._port, self._context)
            heard = {client.name: float(client.last_connect_time) for client in system.client_info}
            # The server's clock, not this machine's.
            now = max([server_clock.timestamp() if server_clock else time.time(), *heard.values()])
            running = {job.job_id for job in system.job_info}
            jobs = tuple(self._job(meta, running, now) for meta in self._metas(job_id))
        started = system.server_info.start_time
        return FederationStatus(
            server=f"{self._host}:{self._port}",
            up_since=float(started) if started else None,
            now=now,
            sites=tuple(SiteSign(site, now - at) for site, at in sorted(heard.items())),
            jobs=jobs,
        )

    def _metas(self, job_id: str | None) -> list[JsonObject]:
        if job_id is not None:
            return [self._session.get_job_meta(job_id)]
        listed = self._session.list_jobs(limit=_LOOKED_AT, reverse=True)
        ended = [job for job in listed if _has_ended(job)]
        shown = [job for job in listed if not _has_ended(job) or job in ended[:SHOWN_ENDED]]
        return [self._session.get_job_meta(str(job["job_id"])) for job in shown]

    def _job(self, meta: Mapping[str, Any], running: Collection[str], now: float) -> JobStatus:
        job_id, progress = str(meta[JobMetaKey.JOB_ID.value]), _progress(meta.get(PROGRESS_GROUP))
        process = Process.RUNS if job_id in running else Process.NONE
        if process is Process.RUNS and not _has_ended(meta):
            # In a swarm there is a process, but nothing of ours.
            began, stats = time.monotonic(), self._stats(job_id)
            progress = _progress(stats.get(PROGRESS_GROUP))
            if not stats:
                process = _without_answer(time.monotonic() - began, now - _start_time(meta))
        detail = meta.get(JobMetaKey.JOB_DEPLOY_DETAIL.value) or []
        return JobStatus(
            job_id=job_id,
            name=str(meta.get(JobMetaKey.JOB_NAME.value)),
            state=state_of(str(meta.get(JobMetaKey.STATUS.value)), process, progress),
            nvflare_status=str(meta.get(JobMetaKey.STATUS.value)),
            submitted=str(meta.get(JobMetaKey.SUBMIT_TIME_ISO.value) or ""),
            refusals=tuple(str(line) for line in detail if not str(line).endswith(": OK")),
            progress=progress,
            sites=_named_sites(meta),
        )

    def _stats(self, job_id: str) -> JsonObject:
        try:
            stats = self._session.show_stats(job_id, "server").get("server")
        except (JobNotRunning, JobNotFound):
            # So NVFlare calls it, too, when the job's process does not answer.
            return {}
        return stats if isinstance(stats, dict) else {}


def _without_answer(waited: float, age: float) -> Process:
    """What a job's process does that has not answered. A missing process is known at once, a hanging one is not.

    Args:
        waited: seconds that NVFlare has waited for the answer.
        age: of the job, in seconds.
    """
    if waited > _HANG_SECONDS:
        return Process.HANGS
    return Process.STARTS if age < _START_SECONDS else Process.NONE


def _start_time(meta: Mapping[str, Any]) -> float:
    """When a job began to run, in seconds since 1970; now where it does not say."""
    try:
        return datetime.fromisoformat(str(meta.get(JobMetaKey.START_TIME.value))).timestamp()
    except ValueError:
        return time.time()


def _named_sites(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The sites that a job names; none where it is for all."""
    apps = meta.get(JobMetaKey.DEPLOY_MAP.value)
    names = {str(name) for listed in apps.values() for name in listed} if isinstance(apps, Mapping) else set()
    return tuple(sorted(names - {"server", ALL_MEMBERS}))


def _has_ended(meta: Mapping[str, Any]) -> bool:
    return str(meta.get(JobMetaKey.STATUS.value)).startswith("FINISHED")


def _progress(values: Any) -> RunProgress | None:
    """What a server says of a run; None where it says nothing, or another version of fedannot does."""
    try:
        return RunProgress.model_validate(values)
    except ValidationError:
        return None


@contextlib.contextmanager
def connected(kit: Path) -> Iterator[Observer]:
    """Connect as the person whose kit it is.

    Args:
        kit: the startup kit of a person: of the administrator, or of the researcher.

    Raises:
        KitError: if it is no such kit.
        NoAnswerError: if the server does not answer, or does not accept it.
    """
    file = kit / "startup" / _START_FILE
    if not file.is_file():
        raise KitError(
            f"Expected the startup kit of a person in {kit}, but found no startup/{_START_FILE}. What the server's or "
            "a site's own machine does: fedannot deploy health KIT"
        )
    account = read_json(file).get("admin") or {}
    if missing := {"username", "host", "port"} - set(account):
        raise KitError(f"{file}: expected {', '.join(sorted(missing))} in 'admin'.")
    startup = file.parent
    try:
        context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    except (OSError, ssl.SSLError) as error:
        raise KitError(f"The certificates in {startup} cannot be used: {error}") from error
    try:
        # NVFlare itself would try for longer than a person waits.
        socket.create_connection((account["host"], account["port"]), _CONNECT_SECONDS).close()
    except OSError as error:
        raise NoAnswerError(_no_answer(account["host"], account["port"])) from error
    # NVFlare says on the standard output that it connects.
    with _explained(account["host"], account["port"]), contextlib.redirect_stdout(io.StringIO()):
        session = new_secure_session(
            account["username"], str(kit.resolve()), timeout=_CONNECT_SECONDS, command_timeout=_ANSWER_SECONDS
        )
    try:
        yield Observer(session, account, context)
    finally:
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            session.close()


@contextlib.contextmanager
def _explained(host: str, port: int) -> Iterator[None]:
    """Make of NVFlare's errors one that says what to do.

    Raises:
        NoAnswerError: in place of NVFlare's own, whose kinds are many.
    """
    try:
        yield
    except NoAnswerError:
        raise
    except NoConnection as error:
        raise NoAnswerError(_no_answer(host, port)) from error
    except Exception as error:
        raise NoAnswerError(f"The server {host}:{port}: {type(error).__name__}: {error}") from error


def _no_answer(host: str, port: int) -> str:
    return (
        f"The server {host}:{port} does not answer. Is its process up (there: fedannot deploy health KIT), and may "
        "this machine connect to that port? Jobs that ran when it died go on with --set resume_from=JOB_ID."
    )
