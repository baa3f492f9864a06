"""Settings that suit a federation's images, memory and time: planned from its fingerprint, written with reasons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.approval.limits import Minimum
from ...custom.data.description import AnyDescription, ClassificationDescription, SliceDescription, VolumeDescription
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.methods.fingerprint.outbound import OUTBOUND_FIELDS
from ...custom.methods.lookup import read_job_settings
from ...custom.outbound.registry import OutboundRegistry
from ...custom.planning.fingerprint import Fingerprint, site_fingerprint
from ...custom.planning.lengths import AXES
from ...custom.planning.training_plan import (
    Budget,
    Grid,
    grid_of,
    is_ct,
    plan_training,
    target_spacing,
)
from ...custom.run.state import SUMMARY_FILE
from ...custom.task_names import FINGERPRINT
from ...transforms.errors import DataError
from ..reports.output import read_summary
from ..runs.data_compatibility import read_descriptions
from ..runs.settings_files import PlannedTime
from .machine import machine_speed, step_seconds
from .suggestion import SuggestedSettings, choices_of

# What is left of the time for validation, scoring and the first reading of images.
_SHARE_OF_TRAINING = 0.85
_DIGITS = 3
_LEAST_BATCH = 2
_MULTIPLE = 32
# What must be the same at all sites, as it decides what a network gets.
_COMMON = ("pipeline", "size", "spacing", "orientation", "slice_axis", "channels", "classes")


def suggest_settings(
    data: str | Path,
    *,
    hours: float = 1.0,
    memory_gb: float = 4.0,
    side_by_side: bool = False,
    threads: int = 1,
    patch: Sequence[int] | None = None,
    least_batch: int | None = None,
) -> SuggestedSettings:
    """Plan network, patch, batch, steps and rounds for a federation's images; nothing is written.

    Args:
        data: the federation's folder.
        hours: that a run may take on this machine.
        memory_gb: that a step of training may take.
        side_by_side: whether every site has a machine like this one; else they take turns on it.
        threads: of PyTorch; 0 for all cores.
        patch: that was chosen for volumes; None for one that suits them.
        least_batch: samples of a step at least; None for two.

    Raises:
        DataError: if the data cannot be read, are for classification, or sites differ in what a network gets.
        PlanError: if no network fits the images or the memory.
        ValueError: if hours or memory are not positive.
    """
    folder = Path(data)
    described = {place: one for place, one in read_descriptions(folder).items() if place.name != TEST_FOLDER}
    description = _common(described)
    fingerprint = Fingerprint.pooled(
        site_fingerprint(folder / site, described[folder / site], site=site)
        for site in read_federation(folder).sites
        if folder / site in described
    )
    grid = grid_of(fingerprint, description)
    if patch is not None and len(grid.extents) == len(patch):
        grid = replace(grid, extents=tuple(map(float, patch)), is_fixed=True)
    images = _Images(
        fingerprint,
        grid,
        description.in_channels,
        tuple(description.classes),
        len(described),
        _advice(fingerprint, description),
        least_batch=least_batch or _LEAST_BATCH,
        mirror_axes=mirror_axes(description),
    )
    return _suggest(images, hours, memory_gb, side_by_side=side_by_side, threads=threads)


def suggest_from_run(
    run: str | Path, *, hours: float = 1.0, memory_gb: float = 4.0, side_by_side: bool = True, threads: int = 1
) -> SuggestedSettings:
    """Plan as :func:`suggest_settings` from a finished run of the method ``fingerprint``, without the images.

    The images are planned as they lie in their files, without the sites' resampling.

    Args:
        run: the run's folder.
        hours: as above; of each site, where sites work side by side.
        memory_gb: as above.
        side_by_side: as above.
        threads: as above.

    Raises:
        DataError: if the folder has no fingerprint.
        PlanError: as above.
        ValueError: as above.
    """
    summary = read_summary(Path(run))
    found = summary.named("fingerprint") if "fingerprint" in summary.plain() else None
    if found is None:
        raise DataError(
            f"{run}: holds no fingerprint; expected a run of the method 'fingerprint' that a site answered."
        )
    network = read_job_settings(summary.settings, str(run), of_finished_run=True).network
    fingerprint = _checked(found, network.num_classes, Path(run))
    dims = network.spatial_dims
    extents, spacing = fingerprint.extents()[:dims], fingerprint.spacing() or (1.0,) * AXES
    advice: tuple[str, ...] = ()
    if dims == 2:
        # Whole pictures or slices are halved, so sites bring them to a size of many halvings.
        extents = tuple(float(_MULTIPLE * max(round(extent / _MULTIPLE), 1)) for extent in extents)
        advice = (f"At every site `size: [{extents[0]:g}, {extents[1]:g}]` in data.yaml.",)
    images = _Images(
        fingerprint,
        Grid(extents, spacing[:dims], fingerprint.extents()[-1] if dims == 2 else 1.0),
        network.in_channels,
        tuple(f"class {label}" for label in range(1, network.num_classes + 1)),
        len(summary.sites),
        advice,
        least_batch=Minimum().samples_per_step,
    )
    return _suggest(images, hours, memory_gb, side_by_side=side_by_side, threads=threads)


def _checked(found: Any, num_classes: int, run: Path) -> Fingerprint:
    """The fingerprint of a summary, whose fields are those that a site may send."""
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    refusal = None if not isinstance(found, dict) else registry.refusal(FINGERPRINT, found, num_classes)
    if not isinstance(found, dict) or refusal is not None or any(map(_is_not_finite, found.values())):
        raise DataError(
            f"{run / SUMMARY_FILE}: key 'fingerprint' is no fingerprint ({refusal or 'a value that is not finite'}); "
            "expected the summary as the run has written it."
        )
    if not found["num_samples"] or "num_patients" not in found:
        raise DataError(f"{run / SUMMARY_FILE}: key 'fingerprint' is of no case; expected one at least.")
    return Fingerprint.of_fields(found)


def _is_not_finite(value: Any) -> bool:
    return not all(map(math.isfinite, value if isinstance(value, list) else [value]))


@dataclass(frozen=True)
class _Images:
    """What is planned for."""

    fingerprint: Fingerprint
    grid: Grid
    channels: int
    classes: tuple[str, ...]
    sites: int
    advice: tuple[str, ...] = ()
    least_batch: int = _LEAST_BATCH
    mirror_axes: tuple[int, ...] | None = None


def _suggest(images: _Images, hours: float, memory_gb: float, *, side_by_side: bool, threads: int) -> SuggestedSettings:
    if not (hours > 0 and memory_gb > 0):
        raise ValueError(f"Expected positive hours and memory, but got {hours=}, {memory_gb=}")
    speed = machine_speed(len(images.grid.extents), threads)
    training = plan_training(
        images.fingerprint,
        images.grid,
        Budget(
            memory_gb * 2**30,
            hours * 3600 * _SHARE_OF_TRAINING,
            images.sites,
            in_turn=not side_by_side,
            least_batch=images.least_batch,
        ),
        seconds_of=lambda topology, batch_size: step_seconds(
            topology,
            batch_size,
            channels=images.channels,
            outputs=len(images.classes) + 1,
            threads=threads,
            precision=speed.precision,
        ),
        operations_per_second=speed.operations,
    )
    return SuggestedSettings(
        images.fingerprint,
        images.grid,
        training,
        choices_of(
            training,
            channels=images.channels,
            classes=len(images.classes),
            speed=speed,
            mirror_axes=images.mirror_axes,
        ),
        images.advice,
        images.classes,
        PlannedTime(hours=hours, sites=images.sites, step_seconds=training.step_seconds),
    )


def _common(described: Mapping[Path, AnyDescription]) -> AnyDescription:
    """What describes the images of all sites."""
    first, *others = described.items()
    if isinstance(first[1], ClassificationDescription):
        raise DataError(f"{first[0]}: holds data for classification; expected images with masks.")
    for folder, description in others:
        for key in _COMMON:
            here, there = getattr(description, key, None), getattr(first[1], key, None)
            if here != there and not (key == "channels" and _can_be_the_same(here, there)):
                raise DataError(f"{folder}: key {key!r} is {here!r}; expected {there!r}, as in {first[0]}.")
    return first[1]


def mirror_axes(description: AnyDescription) -> tuple[int, ...] | None:
    """Return the axis of samples along which a body is like its mirror image; None of pictures, which have no sides."""
    if isinstance(description, VolumeDescription):
        axes = [0, 1, 2]
    elif isinstance(description, SliceDescription):
        axes = [axis for axis in range(AXES) if axis != description.slice_axis]
    else:
        return None
    return tuple(index for index, axis in enumerate(axes) if description.orientation[axis] in "LR")


def _can_be_the_same(here: Any, there: Any) -> bool:
    """Whether one site names as many channels as the other only counts."""
    numbers = [value if isinstance(value, int) else len(value) for value in (here, there)]
    return numbers[0] == numbers[1] and (isinstance(here, int) or isinstance(there, int))


def _advice(fingerprint: Fingerprint, description: AnyDescription) -> tuple[str, ...]:
    """What data.yaml should say otherwise."""
    if not isinstance(description, VolumeDescription):
        return ()
    result = []
    best, spread = target_spacing(fingerprint), fingerprint.spacing(0.1)
    if description.spacing is None and best is not None and spread is not None:
        differ = any(abs(low / middle - 1) > 0.01 for low, middle in zip(spread, best, strict=True))
        if differ:
            result.append(f"Volumes differ in spacing; set `spacing: [{', '.join(_round(best))}]` in data.yaml.")
    if is_ct(fingerprint) and description.intensity != "window":
        ends = (fingerprint.intensity(0.005), fingerprint.intensity(0.995))
        low, high = (round(end or 0.0, -1) for end in ends)
        result.append(f"Intensities are those of CT; set `intensity: window` and `window: [{low:g}, {high:g}]`.")
    return tuple(result)


def _round(values: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{value:.{_DIGITS}g}" for value in values)
