"""Compatibility of a site's data with a job: task, dimensions, channels, classes; before anything is decoded."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..transforms.errors import DataError
from .annotation_gaps import KEYS, AnnotationGap, gaps_of
from .components.component import Component, ComponentError
from .data.datalist import read_datalist
from .data.decided_labels import RuleNeededError
from .data.description import (
    DESCRIPTION_FILE,
    ClassificationDescription,
    SegmentationDescription,
    SiteDescription,
    read_site_description,
)
from .methods.lookup import all_methods, method_names, method_of
from .settings import RunSettings, TrainingSettings

# What describes data for a task, and what its cases are.
_TASKS: dict[str, tuple[type[SiteDescription], str]] = {
    "segmentation": (SegmentationDescription, "images or volumes with masks"),
    "classification": (ClassificationDescription, "images with one class each"),
}
_HELD = {
    "image2d": "2D images with masks",
    "volume_slices": "slices of volumes with masks",
    "volume": "whole volumes with masks",
    "classification": "images with one class each",
}

# What a patch may be where the settings name none; a person will want another.
EXAMPLE_PATCH = "[96,96,64]"


class DataMismatchError(DataError):
    """Data are of another kind than a job trains on."""


class OtherTaskError(DataMismatchError):
    """Data are for another task than a job.

    Args:
        place: where the data lie.
        description: what describes them.
        job: what the job is called.
        task: the job's.
        fits: the jobs that fit the data; by default the methods are named.
    """

    def __init__(self, place: str, description: SiteDescription, job: str, task: str, fits: str | None = None) -> None:
        kind, wanted = task_of(description), _TASKS[task][1]
        fits = fits or f"a job with task = {kind} fits, its method one of {', '.join(method_names(kind))}"
        super().__init__(f"{place} holds {held(description)}, but {job} is for {task} and needs {wanted}; {fits}.")


class AnnotationGapError(DataMismatchError):
    """A method cannot use annotations that say nothing of some pixels or classes.

    Args:
        place: the file that describes the data.
        gap: of what they say nothing.
        method: the method.
    """

    def __init__(self, place: str, gap: AnnotationGap, method: str) -> None:
        able = sorted(item.name for item in all_methods() if gap in item.supports)
        super().__init__(
            f"{place} has the key {KEYS[gap]!r}, but the method {method!r} cannot use {gap}: they would count as "
            f"background. Methods that can: {', '.join(able)}."
        )


def check_compatibility(folder: Path, settings: RunSettings, *, site: str) -> None:
    """Check that the network that the job's settings describe can take the data of a folder.

    Args:
        folder: the folder with ``data.yaml``.
        settings: the job's settings.
        site: the site's name, for messages.

    Raises:
        DataMismatchError: if the data are for another task, or differ from the network in spatial dimensions, channels
            or classes; it says which methods or settings would fit.
        DataError: if the description cannot be read.
    """
    _check_description(_read(folder, site), folder, settings, site)


def check_site(folder: Path, settings: RunSettings, *, site: str) -> None:
    """Check as :func:`check_compatibility`, and that the method can use what the site's annotations leave open.

    Args:
        folder: the folder with ``data.yaml``.
        settings: the job's settings.
        site: the site's name, for messages.

    Raises:
        DataMismatchError: as there, or if the method cannot use ignored pixels or classes that are not annotated.
        DataError: if the description cannot be read.
    """
    description = _read(folder, site)
    _check_description(description, folder, settings, site)
    check_annotations(description, settings, place=f"Site {site}: {folder / DESCRIPTION_FILE}")


def _check_description(description: SiteDescription, folder: Path, settings: RunSettings, site: str) -> None:
    check_task(description, settings.task, place=f"Site {site}: {folder}", job=f"a job of {settings.method!r}")
    check_network(description, settings, place=f"Site {site}: {folder / DESCRIPTION_FILE}")
    check_component(description, settings, place=f"Site {site}: {folder / DESCRIPTION_FILE}")
    check_augmentation(description, settings, place=f"Site {site}: {folder / DESCRIPTION_FILE}")


def _read(folder: Path, site: str) -> SiteDescription:
    try:
        return read_site_description(folder)
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error


def check_task(
    description: SiteDescription,
    task: str,
    *,
    place: str,
    job: str,
    fitting: Callable[[str], str] | None = None,
) -> None:
    """Check that data are for a job's task.

    Args:
        description: what describes the data.
        task: the job's.
        place: where the data lie, for the message.
        job: what the job is called in it.
        fitting: gives the jobs that fit another task, for the end of the sentence; by default the methods are named.

    Raises:
        OtherTaskError: if they are not, in one sentence.
    """
    if not isinstance(description, _TASKS[task][0]):
        fits = None if fitting is None else fitting(task_of(description))
        raise OtherTaskError(place, description, job, task, fits)


def check_network(description: SiteDescription, settings: RunSettings, *, place: str) -> None:
    """Check that data of a job's task differ from its network neither in dimensions nor in channels nor in classes.

    Args:
        description: what describes the data.
        settings: the job's settings.
        place: the file that describes the data, for the message.

    Raises:
        DataMismatchError: if they do, in one sentence, with the settings that would fit.
    """
    network = settings.network
    wanted = network_settings(description)
    changes = {key: value for key, value in wanted.items() if getattr(network, key) != value}
    if not changes:
        return
    kind = "foreground classes" if settings.task == "segmentation" else "classes"
    raise DataMismatchError(
        f"{place} describes {wanted['in_channels']} channels and {wanted['num_classes']} {kind} in "
        f"{wanted['spatial_dims']} spatial dimensions, but the job's network expects {network.in_channels} and "
        f"{network.num_classes} in {network.spatial_dims}; if the description is right, run the job with "
        f"{_options(changes)}, or write the same into its settings.conf."
    )


def check_component(description: SiteDescription, settings: RunSettings, *, place: str) -> None:
    """Check that a network in MONAI's form takes a batch of the data and returns what the task needs.

    The network of the settings without ``_target_`` takes all data that differ in nothing else.

    Args:
        description: what describes the data.
        settings: the job's settings.
        place: the file that describes the data, for the message.

    Raises:
        DataMismatchError: if it does not.
    """
    if settings.network.component is None:
        return
    # PyTorch, which those that check settings alone do without.
    from .networks.dry_run import dry_run  # noqa: PLC0415

    # Of whole volumes the patch counts, which the settings have.
    extents = None if description.spatial_dims == 3 else getattr(description, "size", None)
    with _refused(place, "network", "a network"):
        dry_run(settings, extents)


def check_augmentation(description: SiteDescription, settings: RunSettings, *, place: str) -> None:
    """Check that transforms in MONAI's form take a sample of the data and keep its shape and classes.

    Args:
        description: what describes the data.
        settings: the job's settings.
        place: the file that describes the data, for the message.

    Raises:
        DataMismatchError: if they do not.
    """
    training = settings.training
    if not isinstance(training, TrainingSettings) or not training.transforms:
        return
    # PyTorch and MONAI, which those that check settings alone do without.
    from .training.augmentation_components import try_transforms  # noqa: PLC0415

    extents = training.patch or getattr(description, "size", None)
    assert extents is not None, "whole volumes are trained on in patches"
    with _refused(place, "training.augmentation", "transforms"):
        try_transforms(training.transforms, (description.in_channels, *extents), len(description.classes))


def check_annotations(description: SiteDescription, settings: RunSettings, *, place: str) -> None:
    """Check that a job's method and its loss can use annotations that say nothing of some pixels or classes.

    Args:
        description: what describes the data.
        settings: the job's settings.
        place: the file that describes the data, for the message.

    Raises:
        AnnotationGapError: if the method cannot; it names the methods that can.
        DataMismatchError: if the loss cannot.
    """
    method = method_of(settings)
    unsupported = sorted((gaps := gaps_of(description)) - method.supports)
    if unsupported:
        raise AnnotationGapError(place, unsupported[0], method.name)
    loss = settings.training.loss
    if gaps and isinstance(loss, Component):
        outputs = {settings.network.num_classes + 1}
        if isinstance(description, SegmentationDescription):
            # What a site does not annotate is background in its loss.
            outputs.add(len(description.annotated_labels) + 1)
        _check_loss(loss, gaps, outputs, settings, place)


def check_consensus(folder: Path, description: SiteDescription, settings: RunSettings) -> None:
    """Check that a job names a rule where a case of a site, or of a test set, has several annotations and no label.

    Args:
        folder: with the description.
        description: of the data.
        settings: the job's settings.

    Raises:
        DataMismatchError: if it names none.
        DataError: if the datalist cannot be read.
    """
    # A datalist that is not there is named where it is read.
    if settings.training.consensus is not None or not (folder / description.datalist).is_file():
        return
    for cases in read_datalist(folder / description.datalist).cases.values():
        for case in cases:
            if case.is_undecided:
                raise DataMismatchError(str(RuleNeededError(case)))


def _check_loss(
    loss: Component, gaps: Collection[AnnotationGap], outputs: Collection[int], settings: RunSettings, place: str
) -> None:
    """Raises DataMismatchError if a loss that is a class cannot leave out what the annotations say nothing of."""
    # PyTorch, which not every process needs.
    from .training.component_loss import ComponentLoss, Ignoring  # noqa: PLC0415

    forms = [(number, settings.network.spatial_dims) for number in sorted(outputs, reverse=True)]
    with _refused(place, "training.loss", "a loss"):
        built = ComponentLoss(loss)
        cannot = {
            AnnotationGap.IGNORED_PIXELS: any(built.ignoring(*form) is Ignoring.NOT for form in forms),
            AnnotationGap.UNANNOTATED_CLASSES: not all(built.follows_from_probabilities(*form) for form in forms),
        }
    for gap in sorted(gaps):
        if cannot[gap]:
            raise DataMismatchError(
                f"{place}: key {KEYS[gap]!r} tells of {gap}, but the job's loss {loss.target} (key 'training.loss') "
                "has no way to leave them out; choose another loss, such as 'ce_dice'."
            )


@contextmanager
def _refused(place: str, key: str, what: str) -> Iterator[None]:
    """Raises DataMismatchError with the file and the job's key where a component cannot be used."""
    try:
        yield
    except ComponentError as error:
        raise DataMismatchError(f"{place}: the job's key {key!r} names {what} that cannot be used: {error}") from error


def network_settings(description: SiteDescription) -> dict[str, int]:
    """Return the settings of the network that follow from a description of data."""
    return {
        "in_channels": description.in_channels,
        "num_classes": len(description.classes),
        "spatial_dims": description.spatial_dims,
    }


def task_of(description: SiteDescription) -> str:
    """Return the task that data are for."""
    return next(task for task, (kind, _) in _TASKS.items() if isinstance(description, kind))


def held(description: SiteDescription) -> str:
    """Say what described data are, in a few words."""
    return _HELD[description.pipeline]


def _options(changes: dict[str, int]) -> str:
    options = [f"--set network.{key}={value}" for key, value in changes.items()]
    if changes.get("spatial_dims") == 3:
        options.append(f"--set training.patch={EXAMPLE_PATCH} (or another patch)")
    if changes.get("spatial_dims") == 2:
        options.append("and without training.patch")
    return " ".join(options)
