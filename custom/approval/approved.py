"""Records of the jobs that a participant has approved, by the digests of their configurations."""

import importlib.metadata
from pathlib import Path

from ...transforms.errors import DataError
from ..data.json_record import JsonRecord, read_record, write_record
from .configuration import JobConfiguration, JobRefusedError

# In a kit's folder `local`.
APPROVED_FILE = "approved_jobs.json"


class ApprovedJob(JsonRecord):
    """A job's configuration, settings apart, and its method.

    Attributes:
        name: the job's name, for people.
        method: what is learnt and how, ``task/method``; which code runs hangs on it, also another package's.
        digest: of its configurations, see :class:`fedannot.custom.approval.configuration.JobConfiguration`.
        classes: what they name.
    """

    name: str
    method: str
    digest: str
    classes: tuple[str, ...]

    @classmethod
    def of(cls, name: str, configuration: JobConfiguration) -> "ApprovedJob":
        """Return the record of a job."""
        return cls(name=name, method=configuration.method, digest=configuration.digest, classes=configuration.classes)


class ApprovedJobs(JsonRecord):
    """What a participant has approved.

    Attributes:
        fedannot: the version whose jobs the first group is.
        installed: the jobs that come with that version.
        others: jobs that the participant approved besides.
    """

    fedannot: str
    installed: tuple[ApprovedJob, ...]
    others: tuple[ApprovedJob, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes and functions that approved jobs name, sorted."""
        return tuple(sorted({name for job in (*self.installed, *self.others) for name in job.classes}))

    def with_other(self, job: ApprovedJob) -> "ApprovedJobs":
        """Return the record with one more job, in place of one of the same digest and method."""
        same = (job.digest, job.method)
        kept = tuple(other for other in self.others if (other.digest, other.method) != same)
        return self.model_copy(update={"others": (*kept, job)})

    def check(self, configuration: JobConfiguration) -> None:
        """Check that a job's configuration is approved.

        Raises:
            JobRefusedError: if it is not, or what is installed is no longer what the jobs were approved for.
        """
        if self.fedannot != (installed := installed_version()):
            raise JobRefusedError(
                f"Jobs were approved for fedannot {self.fedannot}, but {installed} is installed here; the kit has to "
                "be prepared again."
            )
        approved = [job for job in (*self.installed, *self.others) if job.digest == configuration.digest]
        if approved and configuration.method not in {job.method for job in approved}:
            raise JobRefusedError(
                f"Its method, {configuration.method!r}, is not approved here. Ask the site to look at what it "
                "does, and to approve the job with `fedannot deploy approve`."
            )
        if not approved:
            raise JobRefusedError(
                f"Its configuration, settings apart, is not approved here (digest {configuration.digest[:12]}). Make "
                f"the job with `fedannot deploy job` of fedannot {installed}, or ask the site to look through it and "
                "approve it with `fedannot deploy approve`."
            )


def installed_version() -> str:
    """Return the version of fedannot that is installed."""
    return importlib.metadata.version("fedannot")


def read_approved(config_folder: Path) -> ApprovedJobs | None:
    """Read what is approved in a kit's folder `local`, None if nothing is.

    Raises:
        DataError: if the file cannot be used.
    """
    return read_record(config_folder / APPROVED_FILE, ApprovedJobs)


def write_approved(config_folder: Path, approved: ApprovedJobs) -> Path:
    """Write what is approved into a kit's folder `local`, in one step, and return the file."""
    write_record(config_folder / APPROVED_FILE, approved)
    return config_folder / APPROVED_FILE


def check_job(configuration: JobConfiguration, config_folder: Path) -> None:
    """Check a job against what a participant has approved, and its settings against the participant's limits.

    Args:
        configuration: what the job asks for.
        config_folder: the kit's folder ``local``.

    Raises:
        JobRefusedError: if the participant does not take part; the text holds nothing of the participant's files.
    """
    # Only the check of a job needs the settings of all methods.
    from .limits import check_minimum, check_settings, read_limits  # noqa: PLC0415

    try:
        approved, limits = read_approved(config_folder), read_limits(config_folder)
    except DataError as error:
        raise JobRefusedError("What is approved here cannot be read; see `fedannot deploy check`.") from error
    if approved is None:
        raise JobRefusedError("No jobs are approved here; the kit has to be prepared with `fedannot deploy prepare`.")
    approved.check(configuration)
    settings = check_settings(configuration.settings, limits)
    check_minimum(settings, limits, configuration.sites, takes_bounds=configuration.takes_bounds)
