"""A training that suits a federation's images, and fits memory and time: patch, levels, batch, steps, rounds.

After nnU-Net's rules where it has one (Isensee et al., Nature Methods 2021); steps and rounds follow from the time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from ...transforms.errors import DataError
from ..data.description import AnyDescription, ImageDescription, SliceDescription, VolumeDescription
from .fingerprint import Fingerprint
from .topology import Topology


class Limit(StrEnum):
    """What a choice was limited by."""

    IMAGES = "images"
    MEMORY = "memory"
    TIME = "time"


# Channels of the first level, the most first.
_WIDTHS = (32, 24, 16, 12, 8)
_MOST_IN_BATCH = {2: 32, 3: 8}
# A batch covers no more than this fraction of all voxels; nnU-Net's.
_SHARE_OF_VOXELS = 0.05
# nnU-Net begins to shrink from here.
_MOST_VOXELS = {2: 2048**2, 3: 256**3}
# Rounds that a run has at best, and steps of a round at least.
_ROUNDS = 50
_FEWEST_LOCAL_STEPS = 5
# How often another network is chosen where a step of it takes longer than was estimated.
_TRIES = 3
# No axis of a patch becomes shorter than this, by what it is shrunk for.
_SMALLEST_PATCH = {Limit.MEMORY: 16, Limit.TIME: 32}
# An axis is thick where its voxels are longer by this factor; nnU-Net's.
_THICK = 3.0
_THICK_QUANTILE = 0.1
# Below, intensities are taken for those of CT, whose air has -1000.
_AIR = -500.0


class PlanError(DataError):
    """No training fits; `limit` says why."""

    def __init__(self, limit: Limit, text: str) -> None:
        super().__init__(text)
        self.limit = limit


@dataclass(frozen=True)
class Budget:
    """What a run may take.

    Attributes:
        memory: bytes of a step of training.
        seconds: of training at all sites.
        num_sites: how many sites there are.
        in_turn: whether they share these seconds, as in one process; else each has a machine of its own.
        least_steps: steps of each site below which a smaller network is preferred.
        least_batch: samples of a step at least.
    """

    memory: float
    seconds: float
    num_sites: int
    in_turn: bool = True
    least_steps: int = 1000
    least_batch: int = 2

    @property
    def seconds_of_site(self) -> float:
        """Of training at one site."""
        return self.seconds / self.num_sites if self.in_turn else self.seconds


@dataclass(frozen=True)
class Grid:
    """The images as a network gets them.

    Attributes:
        extents: median number of voxels along the axes of a sample.
        spacing: size of a voxel along them.
        samples: of a case: its slices, else 1.
        is_fixed: whether just these extents are trained on, as a patch that was chosen.
    """

    extents: tuple[float, ...]
    spacing: tuple[float, ...]
    samples: float = 1.0
    is_fixed: bool = False


@dataclass(frozen=True)
class TrainingPlan:
    """What suits a federation.

    Attributes:
        topology: patch and levels.
        patch_limit: what the patch was limited by.
        width_limit: what the number of features was limited by.
        batch_size: samples of a step.
        step_seconds: of one step, as it was measured.
        local_steps: of each site in a round.
        rounds: of the run.
        is_whole: whether samples are trained on whole, so that there is no patch.
    """

    topology: Topology
    patch_limit: Limit
    width_limit: Limit
    batch_size: int
    step_seconds: float
    local_steps: int
    rounds: int
    is_whole: bool

    @property
    def steps_of_site(self) -> int:
        """Steps of training at each site in all rounds."""
        return self.rounds * self.local_steps


def grid_of(fingerprint: Fingerprint, description: AnyDescription) -> Grid:
    """Return the images as the pipeline of a description gives them: resampled, and of its size."""
    spacing = fingerprint.spacing()
    if isinstance(description, VolumeDescription):
        own = (1.0,) * 3 if spacing is None else spacing
        target = description.spacing or own
        scaled = (
            extent * before / after for extent, before, after in zip(fingerprint.extents(), own, target, strict=True)
        )
        return Grid(tuple(map(float, description.size)) if description.size else tuple(scaled), tuple(target))
    if isinstance(description, SliceDescription) and spacing is not None:
        in_plane = spacing[:2]
        if description.spacing is not None:
            first, second = (axis for axis in range(3) if axis != description.slice_axis)
            in_plane = (description.spacing[first], description.spacing[second])
        return Grid(tuple(map(float, description.size)), in_plane, fingerprint.extents()[-1])
    assert isinstance(description, ImageDescription | SliceDescription)
    return Grid(tuple(map(float, description.size)), (1.0, 1.0))


def target_spacing(fingerprint: Fingerprint) -> tuple[float, ...] | None:
    """Return the size of a voxel to which volumes are best resampled, in millimetres; None where it is not known.

    It is the median; along a thick axis, with voxels three times as long as another's, the tenth percentile.
    """
    median = fingerprint.spacing()
    if median is None:
        return None
    fine = fingerprint.spacing(_THICK_QUANTILE)
    assert fine is not None
    return tuple(
        small if length >= _THICK * min(median) else length for length, small in zip(median, fine, strict=True)
    )


def is_ct(fingerprint: Fingerprint) -> bool:
    """Return whether annotated pixels have intensities as in CT: some are darker than any tissue's."""
    darkest = fingerprint.intensity(0.001)
    return darkest is not None and darkest < _AIR


def plan_training(
    fingerprint: Fingerprint,
    grid: Grid,
    budget: Budget,
    *,
    seconds_of: Callable[[Topology, int], float],
    operations_per_second: float,
) -> TrainingPlan:
    """Return a training for images on a grid that a budget has room for.

    The patch is as large as the median image, and shrinks until two of them fit the memory. The network is the widest
    with which each site does the budget's least steps; with the narrowest the patch shrinks further. Where nothing
    does, there are fewer steps.

    Args:
        fingerprint: of the federation.
        grid: as the network gets its images.
        budget: memory and time.
        seconds_of: measures a step with a topology and a batch size.
        operations_per_second: from which it is estimated which of them are worth measuring.

    Raises:
        PlanError: if images are too small for a network, or the smallest one does not fit the memory.
    """
    per_step = budget.seconds_of_site / budget.least_steps
    for _ in range(_TRIES):
        chosen = _chosen(grid, budget, per_step * operations_per_second)
        batch_size = _batch_size(chosen.topology, fingerprint, grid, budget, per_step * operations_per_second)
        step_seconds = seconds_of(chosen.topology, batch_size)
        if step_seconds <= per_step:
            break
        # Small or narrow maps take longer than their operations.
        operations_per_second = chosen.topology.step_operations(batch_size) / step_seconds
    steps = max(int(budget.seconds_of_site / step_seconds), 1)
    local_steps = max(_FEWEST_LOCAL_STEPS, round(steps / _ROUNDS))
    return TrainingPlan(
        topology=chosen.topology,
        patch_limit=chosen.patch_limit,
        width_limit=chosen.width_limit,
        batch_size=batch_size,
        step_seconds=step_seconds,
        local_steps=local_steps,
        rounds=max(steps // local_steps, 1),
        is_whole=_is_whole(grid),
    )


@dataclass(frozen=True)
class _Chosen:
    topology: Topology
    width_limit: Limit = Limit.IMAGES
    patch_limit: Limit = Limit.IMAGES


def _is_whole(grid: Grid) -> bool:
    return len(grid.extents) == 2 or grid.is_fixed


def _chosen(grid: Grid, budget: Budget, operations: float) -> _Chosen:
    """The widest network with the largest patch, a step of which fits the memory and takes no more operations."""

    def fits_time(topology: Topology) -> bool:
        return topology.step_operations(budget.least_batch) <= operations

    def fits_memory(topology: Topology) -> bool:
        return topology.training_bytes(budget.least_batch) <= budget.memory

    width_limit = patch_limit = Limit.IMAGES
    for width in _WIDTHS:
        topology = _topology(grid, grid.extents, width)
        if not _is_whole(grid):
            topology, patch_limit = _shrunk(grid, topology, width, fits_memory, Limit.MEMORY)
        if fits_memory(topology) and fits_time(topology):
            return _Chosen(topology, width_limit, patch_limit)
        width_limit = Limit.TIME if fits_memory(topology) else Limit.MEMORY
    if not fits_memory(topology):
        raise PlanError(
            Limit.MEMORY,
            f"Expected room for the smallest network in {budget.memory / 2**20:.0f} MB, but a step of it takes "
            f"{topology.training_bytes(budget.least_batch) / 2**20:.0f} MB.",
        )
    # Where even the narrowest takes more time, there are fewer steps.
    if not _is_whole(grid):
        topology, shrunk_by = _shrunk(grid, topology, _WIDTHS[-1], fits_time, Limit.TIME)
        patch_limit = patch_limit if shrunk_by is Limit.IMAGES else shrunk_by
    return _Chosen(topology, width_limit, patch_limit)


def _topology(grid: Grid, extents: tuple[float, ...], width: int) -> Topology:
    dims = len(extents)
    factor = min(1.0, (_MOST_VOXELS[dims] / prod(extents)) ** (1 / dims))
    try:
        return Topology.of([extent * factor for extent in extents], grid.spacing, width, is_whole=_is_whole(grid))
    except ValueError as error:
        raise PlanError(Limit.IMAGES, str(error)) from error


def _shrunk(
    grid: Grid, topology: Topology, width: int, fits: Callable[[Topology], bool], limit: Limit
) -> tuple[Topology, Limit]:
    """The largest patch that fits, shrunk along the axis that covers most of an image; and what limited it."""
    reason = Limit.IMAGES
    while not fits(topology):
        covered = [size / extent for size, extent in zip(topology.patch, grid.extents, strict=True)]
        steps = topology.total_strides
        axes = [axis for axis, size in enumerate(topology.patch) if size - steps[axis] >= _SMALLEST_PATCH[limit]]
        if not axes:
            break
        axis = max(axes, key=lambda one: covered[one])
        extents = [float(size) for size in topology.patch]
        extents[axis] -= steps[axis]
        topology, reason = _topology(grid, tuple(extents), width), limit
    return topology, reason


def _batch_size(topology: Topology, fingerprint: Fingerprint, grid: Grid, budget: Budget, operations: float) -> int:
    """As many samples as memory, time and the number of images allow, the budget's least at least."""
    of_one = prod(topology.patch)
    all_voxels = fingerprint.num_cases * grid.samples / budget.num_sites * prod(grid.extents)
    by_images = math.floor(_SHARE_OF_VOXELS * all_voxels / of_one)
    allowed = (
        size
        for size in range(budget.least_batch, min(by_images, _MOST_IN_BATCH[len(grid.extents)]) + 1)
        if topology.training_bytes(size) <= budget.memory and topology.step_operations(size) <= operations
    )
    return max(allowed, default=budget.least_batch)
