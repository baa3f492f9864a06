"""Settings that suit a federation's images, memory and time: planned from its fingerprint, written with reasons."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...custom.approval.limits import Minimum
from ...custom.data.description import AnyDescription, ClassificationDescription, VolumeDescription
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.whole_files import write_text
from ...custom.methods.fingerprint.outbound import OUTBOUND_FIELDS
from ...custom.methods.lookup import read_job_settings
from ...custom.outbound.registry import OutboundRegistry
from ...custom.planning.fingerprint import Fingerprint, site_fingerprint
from ...custom.planning.lengths import AXES
from ...custom.planning.topology import Topology
from ...custom.planning.training_plan import (
    Budget,
    Grid,
    Limit,
    TrainingPlan,
    grid_of,
    is_ct,
    plan_training,
    target_spacing,
)
from ...custom.recipe import RESEARCH
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.time_left import duration
from ...custom.task_names import FINGERPRINT
from ...transforms.errors import DataError
from ..reports.output import read_summary
from ..runs.data_compatibility import read_descriptions
from .machine import dynunet, operations_per_second, step_seconds

# What is left of the time for validation, scoring and the first reading of images.
_SHARE_OF_TRAINING = 0.85
# nnU-Net's: 1000 epochs of 250 steps.
FULL_STEPS = 250_000
_DIGITS = 3
_MULTIPLE = 32
_LIMITED = {
    Limit.IMAGES: "as large as the images allow",
    Limit.MEMORY: "as large as the memory allows",
    Limit.TIME: "as large as the time allows",
}
_WIDTH_LIMITED = {
    Limit.IMAGES: "as many as nnU-Net has",
    Limit.MEMORY: "fewer than nnU-Net's 32, as the memory allows",
    Limit.TIME: "fewer than nnU-Net's 32, so that there is time for enough steps",
}


@dataclass(frozen=True)
class SuggestedSettings:
    """Settings for a federation, and why they are so.

    Attributes:
        fingerprint: of all sites' cases together.
        grid: the images as the network gets them.
        training: the plan.
        values: settings by their dotted keys.
        advice: sentences on `data.yaml`, which these settings cannot change.
        hours: that were allowed.
    """

    fingerprint: Fingerprint
    grid: Grid
    training: TrainingPlan
    values: Mapping[str, Any]
    advice: tuple[str, ...]
    hours: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """The plan in words, a sentence each."""
        plan, found = self.training, self.fingerprint
        steps = plan.steps_of_site
        full = duration(plan.step_seconds * FULL_STEPS)
        spacing = found.spacing()
        sizes = "" if spacing is None else f", voxels of {_sizes(spacing)} mm"
        return (
            f"{found.num_cases} cases of {found.num_patients} patients: {_sizes(found.extents(), 0)} voxels{sizes}.",
            f"A step takes {plan.step_seconds:.2g} s here. In {self.hours:g} h there is time for {plan.rounds} "
            f"{'round' if plan.rounds == 1 else 'rounds'} of {plan.local_steps} steps at each site.",
            f"That is {steps} steps a site, {100 * steps / FULL_STEPS:.2g} % of nnU-Net's {FULL_STEPS}, which would "
            f"take {full} a site.",
            *self.advice,
        )

    @property
    def text(self) -> str:
        """As a `.conf` file, with a comment for each choice."""
        plan, topology = self.training, self.training.topology
        levels = dynunet(topology)
        lines = [
            "# Planned from the images. How to run:",
            "#   fedannot simulate fedavg --data DIR --settings THIS_FILE",
            *(f"# {sentence}" for sentence in self.sentences),
            "settings {",
            *_entry("recipe", RESEARCH, "nnU-Net's choices of loss, optimizer and augmentation"),
            *_entry("rounds", plan.rounds, f"{plan.steps_of_site} steps a site in all"),
            "  network {",
            *_entry("  _target_", "DynUNet", "nnU-Net's network in MONAI"),
            *_entry("  spatial_dims", len(topology.patch), ""),
            *_entry("  num_classes", self.values["network.num_classes"], "foreground classes"),
            *_entry("  in_channels", self.values["network.in_channels"], ""),
            *_entry("  kernel_size", levels["kernel_size"], _kernel_reason(topology)),
            *_entry("  strides", levels["strides"], "a level halves what has eight voxels"),
            *_entry("  upsample_kernel_size", levels["upsample_kernel_size"], ""),
            *_entry("  filters", levels["filters"], _WIDTH_LIMITED[plan.width_limit]),
            *_entry("  norm_name", levels["norm_name"], "small batches"),
            *_entry("  deep_supervision", levels["deep_supervision"], ""),
            *(_entry("  deep_supr_num", levels["deep_supr_num"], "") if "deep_supr_num" in levels else ()),
            "  }",
            "  training {",
            *(() if plan.is_whole else _entry("  patch", list(topology.patch), _LIMITED[plan.patch_limit])),
            *_entry("  batch_size", plan.batch_size, "at most a twentieth of a site's voxels, but for the least batch"),
            *_entry("  local_steps", plan.local_steps, "a round"),
            "  }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def write(self, file: Path) -> None:
        """Write the settings as a `.conf` file.

        Raises:
            DataError: if the file is there already.
        """
        if file.exists():
            raise DataError(f"{file}: is there already; expected a new file.")
        write_text(file, self.text)


def suggest_settings(
    data: str | Path, *, hours: float = 1.0, memory_gb: float = 4.0, side_by_side: bool = False, threads: int = 1
) -> SuggestedSettings:
    """Plan network, patch, batch, steps and rounds for a federation's images; nothing is written.

    Args:
        data: the federation's folder.
        hours: that a run may take on this machine.
        memory_gb: that a step of training may take.
        side_by_side: whether every site has a machine like this one; else they take turns on it.
        threads: of PyTorch; 0 for all cores.

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
    images = _Images(
        fingerprint,
        grid_of(fingerprint, description),
        description.in_channels,
        len(description.classes),
        len(described),
        _advice(fingerprint, description),
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
        network.num_classes,
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
    classes: int
    sites: int
    advice: tuple[str, ...] = ()
    least_batch: int = 2


def _suggest(images: _Images, hours: float, memory_gb: float, *, side_by_side: bool, threads: int) -> SuggestedSettings:
    if not (hours > 0 and memory_gb > 0):
        raise ValueError(f"Expected positive hours and memory, but got {hours=}, {memory_gb=}")
    dims = len(images.grid.extents)
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
            topology, batch_size, channels=images.channels, outputs=images.classes + 1, threads=threads
        ),
        operations_per_second=operations_per_second(dims, threads),
    )
    values = {
        "recipe": RESEARCH,
        "rounds": training.rounds,
        "network._target_": "DynUNet",
        "network.spatial_dims": dims,
        "network.in_channels": images.channels,
        "network.num_classes": images.classes,
        **{f"network.{key}": value for key, value in dynunet(training.topology).items()},
        **({} if training.is_whole else {"training.patch": list(training.topology.patch)}),
        "training.batch_size": training.batch_size,
        "training.local_steps": training.local_steps,
    }
    return SuggestedSettings(images.fingerprint, images.grid, training, values, images.advice, hours)


def _common(described: Mapping[Path, AnyDescription]) -> AnyDescription:
    """What describes the images of all sites."""
    first, *others = described.items()
    if isinstance(first[1], ClassificationDescription):
        raise DataError(f"{first[0]}: holds data for classification; expected images with masks.")
    for folder, description in others:
        for key in ("pipeline", "size", "spacing", "classes"):
            here, there = getattr(description, key, None), getattr(first[1], key, None)
            if here != there:
                raise DataError(f"{folder}: key {key!r} is {here!r}; expected {there!r}, as in {first[0]}.")
    return first[1]


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


def _kernel_reason(topology: Topology) -> str:
    is_thick = any(1 in kernel for kernel in topology.kernels)
    return "one voxel along the thick axis until others are as thick" if is_thick else ""


def _round(values: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{value:.{_DIGITS}g}" for value in values)


def _sizes(values: tuple[float, ...], decimals: int = 2) -> str:
    present = values if not math.isclose(values[-1], 1.0) or decimals else values[:-1]
    return " × ".join(f"{value:.{decimals}f}" for value in present)


def _entry(key: str, value: object, comment: str) -> list[str]:
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    line = f"  {key} = {shown}"
    return [f"{line}  # {comment}" if comment else line]
