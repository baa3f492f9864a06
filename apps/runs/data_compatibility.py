"""Compatibility of a federation's data with a job, for all sites before anything starts."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...custom.annotation_gaps import AnnotationGap, gaps_of
from ...custom.compatibility import (
    EXAMPLE_PATCH,
    DataMismatchError,
    check_annotations,
    check_augmentation,
    check_component,
    check_consensus,
    check_network,
    check_task,
    held,
    network_settings,
    task_of,
)
from ...custom.components.merging import merged
from ...custom.data.datalist import read_datalist
from ...custom.data.description import DESCRIPTION_FILE, AnyDescription, SiteDescription, read_site_description
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.phantoms.choice import embedded_description
from ...custom.methods.lookup import method_of
from ...custom.settings import RunSettings, SettingsError, SettingValues
from ...transforms.errors import DataError
from .job import Job, JobError

# Descriptions of data by the folders that they are in.
Descriptions = Mapping[Path, AnyDescription]

# Where the embedded phantom would lie, for messages.
_PHANTOM = Path("the embedded phantom")


def read_descriptions(data: Path) -> dict[Path, AnyDescription]:
    """Read what describes the data of a federation's sites, and of its test set if there is one.

    A site whose description cannot be read is passed over unless it is the first: in a run it is refused by name.

    Args:
        data: the federation's folder.

    Raises:
        DataError: if the federation, the first site's description or the test set's cannot be read.
    """
    first, *others = (data / site for site in read_federation(data).sites)
    described = {first: read_site_description(first)}
    for folder in others:
        try:
            described[folder] = read_site_description(folder)
        except DataError:
            continue
    if (data / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        described[data / TEST_FOLDER] = read_site_description(data / TEST_FOLDER)
    return described


def settings_for_data(job: Job, changes: Mapping[str, Any], described: Descriptions | None) -> SettingValues:
    """Return changes of a job's settings with those that follow from the data, and check that the data fit.

    Args:
        job: the job.
        changes: what else differs from its own settings; what they say of the network stays.
        described: what describes the data, by folder; None for the embedded phantom of the settings.

    Raises:
        DataMismatchError: if the data of any site are for another task, those of no site fit the network, or the test
            set does not; one sentence, with the jobs or the settings that fit. A single site whose data do not fit the
            network is refused by name in the run.
        SettingsError: if a setting cannot be used.
    """
    if described is None:
        # The rest may go with what follows from the data alone, as a patch goes with volumes.
        of_phantom = {key: value for key, value in changes.items() if key.startswith("embedded.")}
        described = {_PHANTOM: embedded_description(job.settings_with(of_phantom).embedded)}
    task = job.settings().task
    for folder, description in described.items():
        check_task(
            description, task, place=str(folder), job=str(job.folder), fitting=lambda other: _jobs_that_fit(job, other)
        )
    first, description = next(iter(described.items()))
    changes = merged({f"network.{key}": value for key, value in network_settings(description).items()}, changes)
    _check_dimensions(job, changes, first, description)
    settings = job.settings_with(changes)
    _check_networks(settings, described)
    check_component(description, settings, place=str(job.settings_file))
    check_augmentation(description, settings, place=str(job.settings_file))
    for folder, description in described.items():
        if folder != _PHANTOM:
            check_consensus(folder, description, settings)
        # Of a test set they are left out, whatever the method.
        if folder.name != TEST_FOLDER:
            check_annotations(description, settings, place=str(folder / DESCRIPTION_FILE))
    return changes


def has_several_annotations(described: Descriptions) -> bool:
    """Return whether a case of a federation has several annotations and no label, so that a job needs a rule.

    Raises:
        DataError: if a datalist cannot be read.
    """
    return any(
        case.is_undecided
        for folder, description in described.items()
        for cases in read_datalist(folder / description.datalist).cases.values()
        for case in cases
    )


def fitting_jobs(
    jobs: Path, task: str, descriptions: Iterable[SiteDescription] = (), *, several_annotations: bool = False
) -> list[Path]:
    """Return the folders of jobs in a folder that are for a task.

    Args:
        jobs: the folder.
        task: the task.
        descriptions: of sites, whose ignored pixels and classes that are not annotated the method has to support.
        several_annotations: whether the method has to take a rule for several annotations of a case.
    """
    gaps = frozenset[AnnotationGap]().union(*map(gaps_of, descriptions))
    result = []
    for meta in sorted(jobs.glob("*/meta.json")):
        try:
            settings = Job(meta.parent).settings()
        except (JobError, SettingsError, OSError):
            continue
        method = method_of(settings)
        if settings.task == task and gaps <= method.supports and (method.consensus or not several_annotations):
            result.append(meta.parent)
    return result


def _jobs_that_fit(job: Job, task: str) -> str:
    result = ", ".join(folder.name for folder in fitting_jobs(job.folder.parent, task))
    return f"jobs that fit, in {job.folder.parent}: {result}" if result else f"it takes a job with task = {task}"


def _check_dimensions(job: Job, changes: Mapping[str, Any], folder: Path, description: AnyDescription) -> None:
    """Whole volumes are trained on in patches, and nothing else is; the settings' own check knows of no data."""
    if task_of(description) != "segmentation":
        return
    holds, dimensions = f"{folder} holds {held(description)}", description.spatial_dims
    if (result := changes["network.spatial_dims"]) != dimensions:
        raise DataMismatchError(
            f"{holds}, which have {dimensions} spatial dimensions, but network.spatial_dims is set to {result}; leave "
            f"it out{'' if dimensions == 3 else ', and training.patch, too'}."
        )
    own = getattr(job.settings().training, "patch", None)
    patch = changes.get("training.patch", own)
    if dimensions == 3 and patch is None and not _has_a_patch(job, changes):
        raise DataMismatchError(
            f"{holds}, but {job.folder} names no patch of them to train on; add --set "
            f"training.patch={_example_patch(folder)}, or another patch; `fedannot plan` suggests one."
        )
    if dimensions == 2 and patch is not None:
        remedy = "leave it out" if "training.patch" in changes else "add --set training.patch=null"
        result = list(patch) if isinstance(patch, tuple) else patch
        raise DataMismatchError(f"{holds}, but training.patch is {result}, for patches of whole volumes; {remedy}.")


def _example_patch(folder: Path) -> str:
    """A patch that the volumes of a site are large enough for, as the command line takes it."""
    # Only for an error.
    from ...custom.data.volume_extents import suggested_patch  # noqa: PLC0415

    try:
        return f"[{','.join(map(str, suggested_patch([folder])))}]"
    except DataError:
        # The datalist cannot be read, which the run says.
        return EXAMPLE_PATCH


def _has_a_patch(job: Job, changes: Mapping[str, Any]) -> bool:
    """Whether the method chooses a patch of volumes itself."""
    try:
        return getattr(job.settings_with(changes).training, "patch", None) is not None
    except SettingsError:
        return False


def _check_networks(settings: RunSettings, described: Descriptions) -> None:
    errors: dict[Path, DataMismatchError] = {}
    for folder, description in described.items():
        place = folder if folder == _PHANTOM else folder / DESCRIPTION_FILE
        try:
            check_network(description, settings, place=str(place))
        except DataMismatchError as error:
            errors[folder] = error
    is_test = {folder: folder.name == TEST_FOLDER for folder in described}
    no_site_fits = all(folder in errors for folder, of_test in is_test.items() if not of_test)
    for folder, result in errors.items():
        if is_test[folder] or no_site_fits:
            raise result
