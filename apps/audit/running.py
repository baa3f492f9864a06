"""An audit in one process: of a federation's folder, of one site's, or of the embedded phantom."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ...custom.data.description import DESCRIPTION_FILE, SegmentationDescription, read_site_description
from ...custom.data.federation import FEDERATION_FILE, FederationDescription, read_federation, write_federation
from ...custom.data.whole_files import private_folder
from ...custom.data.yaml_file import read_values, validated
from ...custom.methods.audit.records import AuditFindings
from ...custom.run.summary_record import Summary
from ...transforms.errors import DataError
from ..runs.installed import jobs_folder
from ..runs.progress import Progress
from ..runs.simulate import simulate

Profile = Literal["quick", "thorough"]

# By what is annotated; the embedded phantom is segmented.
JOBS = {"segmentation": "audit", "classification": "audit_classification"}
# Next to the output folder, after its name: a federation of the one site that is audited.
ALONE_FOLDER = "federation"
_MADE = "One site alone"
# A quick audit whose model cannot predict yet goes on to twice the rounds, up to so many.
_MOST_ROUNDS = 24


def run_audit(
    out: Path,
    *,
    jobs: Path | None = None,
    data: Path | None = None,
    profile: Profile = "quick",
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Run the job that audits such data in this process; what it finds at a site lies in the run's folder of the site.

    Args:
        out: the output folder.
        jobs: a folder of jobs; None for those that are installed.
        data: a federation's folder, or one site's; None for the embedded phantom.
        profile: ``quick`` has one early model predict all cases, after more rounds where it finds too little to
            predict; ``thorough`` is the job as it is: of contours models that have not learnt them, of labels one of
            more rounds.
        overrides: settings that replace the job's; rounds that are given stay.
        resume: whether the run in the output folder goes on.
        progress: where it learns what is done.

    Raises:
        DataError: if the data are neither a federation's nor a site's, or cannot be used.
        JobError, RunError: as :func:`fedannot.apps.runs.simulate.simulate`.
    """
    federation = None if data is None else _federation(data, out)
    task = "segmentation" if federation is None else read_federation(federation).task
    progress = progress or Progress()

    def run(changes: Mapping[str, Any], *, resume: bool) -> Summary:
        return simulate(
            jobs_folder(jobs) / JOBS[task],
            out,
            data=federation,
            settings="quick" if profile == "quick" else None,
            overrides=changes,
            resume=resume,
            progress=progress,
        )

    given = dict(overrides or {})
    summary = run(given, resume=resume)
    if profile == "thorough" or "rounds" in given:
        return summary
    while not _is_fit(summary) and (more := 2 * summary.rounds_finished) <= _MOST_ROUNDS:
        progress.tell(f"The model finds too few of the annotated objects to be a reference: on to {more} rounds.")
        summary = run(given | {"rounds": more}, resume=True)
    return summary


def _is_fit(summary: Summary) -> bool:
    """Whether the model could predict; also where that is not asked."""
    result = summary.added(AuditFindings)
    return result is None or result.audit is None or result.audit.is_fit is not False


def _federation(data: Path, out: Path) -> Path:
    """The folder of a federation; of one site a federation is made next to the output, without a copy of its data."""
    if (data / FEDERATION_FILE).is_file():
        return data
    if not (data / DESCRIPTION_FILE).is_file():
        raise DataError(
            f"{data}: found neither {FEDERATION_FILE} nor {DESCRIPTION_FILE}; expected a federation's folder or a "
            "site's."
        )
    name = data.resolve().name
    is_segmentation = isinstance(read_site_description(data), SegmentationDescription)
    values = {"task": "segmentation" if is_segmentation else "classification", "sites": (name,)}
    try:
        description = FederationDescription.model_validate({"name": name, "made": f"{_MADE}: {data}", **values})
    except ValidationError as error:
        raise DataError(f"{data}: the folder's name cannot be a site's: {error.errors()[0]['msg']}.") from error
    folder = out.with_name(f"{out.name}-{ALONE_FOLDER}")
    link = folder / name
    if folder.exists() and not _is_made_here(folder):
        raise DataError(f"{folder}: found other files; an audit of one site needs this folder, or another --out.")
    private_folder(folder)
    # An earlier audit of this name may have been of other data.
    link.unlink(missing_ok=True)
    link.symlink_to(data.resolve(), target_is_directory=True)
    write_federation(folder, description)
    return folder


def _is_made_here(folder: Path) -> bool:
    """Whether a folder is that of an earlier audit of one site."""
    file = folder / FEDERATION_FILE
    if not file.is_file():
        return not any(folder.iterdir())
    made = validated(read_values(file, FederationDescription), FederationDescription, str(file)).made
    return made is not None and made.startswith(_MADE)
