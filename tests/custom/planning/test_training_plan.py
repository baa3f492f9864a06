"""Plans keep to images, memory and time."""

import numpy as np
import pytest

from fedannot.custom.data.description import ImageDescription, SliceDescription, VolumeDescription
from fedannot.custom.planning.fingerprint import CaseFingerprint, Fingerprint
from fedannot.custom.planning.lengths import INTENSITY_BINS
from fedannot.custom.planning.topology import Topology
from fedannot.custom.planning.training_plan import (
    Budget,
    Grid,
    Limit,
    PlanError,
    TrainingPlan,
    grid_of,
    is_ct,
    plan_training,
    target_spacing,
)

GB = 2**30
SPEED = 1e11


def fingerprint(
    spacing: tuple[float, ...], extents: tuple[int, ...], cases: int = 40, *, darkest: float = 10.0
) -> Fingerprint:
    """Cases of one size, thick ones thinner at every fifth."""
    shares = np.zeros(INTENSITY_BINS)
    shares[np.digitize(np.arcsinh([darkest, 100.0]), np.linspace(-12, 12, INTENSITY_BINS + 1)) - 1] += [0.01, 0.99]
    return Fingerprint.of_cases(
        [CaseFingerprint(str(index), spacing, extents, np.array([0.05]), shares) for index in range(cases)]
    )


def planned(grid: Grid, memory: float = 8 * GB, hours: float = 10, sites: int = 4) -> TrainingPlan:
    """A plan on a machine of constant speed."""
    return plan_training(
        fingerprint((1, 1, 1), (100, 100, 100)),
        grid,
        Budget(memory, hours * 3600, sites),
        seconds_of=lambda topology, batch_size: topology.step_operations(batch_size) / SPEED,
        operations_per_second=SPEED,
    )


def test_much_time_and_memory_give_the_widest_network_on_whole_images() -> None:
    plan = planned(Grid((36, 50, 35), (1, 1, 1)), hours=100)
    assert plan.topology == Topology.of((36, 50, 35), (1, 1, 1), 32)
    assert (plan.patch_limit, plan.width_limit) == (Limit.IMAGES, Limit.IMAGES)


def test_steps_and_rounds_fill_the_time() -> None:
    plan = planned(Grid((36, 50, 35), (1, 1, 1)), hours=2, sites=4)
    seconds = 4 * plan.steps_of_site * plan.step_seconds
    assert 0.9 * 7200 < seconds <= 7200
    assert plan.steps_of_site >= 900


def test_large_volumes_are_cut_into_patches_that_fit_the_memory() -> None:
    grid = Grid((512, 512, 300), (0.8, 0.8, 1.5))
    plan = planned(grid, memory=2 * GB, hours=10_000)
    assert plan.patch_limit is Limit.MEMORY
    assert plan.topology.training_bytes(2) <= 2 * GB
    assert all(size <= extent for size, extent in zip(plan.topology.patch, grid.extents, strict=True))


def test_little_time_gives_a_narrow_network_and_fewer_steps() -> None:
    plan = planned(Grid((256.0, 256.0), (1, 1)), hours=0.01)
    assert (plan.topology.features[0], plan.width_limit) == (8, Limit.TIME)
    assert plan.topology.patch == (256, 256)
    assert plan.is_whole
    assert plan.steps_of_site < 1000


def test_a_step_that_takes_longer_than_its_operations_narrows_the_network() -> None:
    def measured(factor: float) -> int:
        return plan_training(
            fingerprint((1, 1, 1), (64, 64, 64)),
            Grid((64, 64, 64), (1, 1, 1)),
            Budget(8 * GB, 2 * 3600, 1),
            seconds_of=lambda topology, batch_size: factor * topology.step_operations(batch_size) / SPEED,
            operations_per_second=SPEED,
        ).topology.features[0]

    assert (measured(1), measured(10)) == (32, 8)


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(PlanError, match="Expected room for the smallest network in 1 MB"):
        planned(Grid((256.0, 256.0), (1, 1)), memory=2**20)


def test_batches_cover_no_more_than_a_twentieth_of_a_sites_voxels() -> None:
    def batch(cases: int, samples: float = 1.0) -> int:
        return plan_training(
            fingerprint((1, 1, 1), (64, 64, 64), cases),
            Grid((64, 64, 64), (1, 1, 1), samples),
            Budget(64 * GB, 1e9, 4),
            seconds_of=lambda topology, batch_size: 1.0,
            operations_per_second=1e15,
        ).batch_size

    assert (batch(40), batch(480), batch(40, samples=12)) == (2, 6, 6)


def test_images_are_planned_as_the_pipeline_gives_them() -> None:
    found = fingerprint((1.0, 1.0, 3.0), (100, 80, 30))
    classes = {"classes": ("part",), "labels": {0: 0, 1: 1}}
    volumes = VolumeDescription(spacing=(2.0, 1.0, 3.0), **classes)
    assert grid_of(found, volumes) == Grid(pytest.approx((50, 80, 30)), (2.0, 1.0, 3.0))
    assert grid_of(found, VolumeDescription(size=(32, 32, 16), **classes)).extents == (32, 32, 16)
    slices = SliceDescription(size=(64, 48), spacing=(1.0, 2.0, 3.0), slice_axis=0, **classes)
    assert grid_of(found, slices) == Grid((64, 48), (2.0, 3.0), pytest.approx(30))
    assert grid_of(found, ImageDescription(size=(64, 48), channels=1, **classes)) == Grid((64, 48), (1, 1))


def test_a_thick_axis_is_resampled_to_its_tenth_percentile() -> None:
    cases = [
        CaseFingerprint(str(index), (1.0, 1.0, thick), (64, 64, 20), np.zeros(1), np.zeros(INTENSITY_BINS))
        for index, thick in enumerate(np.exp(np.linspace(1.0, 2.0, 101)))
    ]
    target = target_spacing(Fingerprint.of_cases(cases))
    assert target is not None
    assert target[:2] == pytest.approx((1.0, 1.0))
    assert target[2] == pytest.approx(np.exp(1.5 - 1.2816 * np.linspace(1, 2, 101).std()), rel=1e-3)
    assert target_spacing(fingerprint((1.0, 1.0, 2.0), (64, 64, 20))) == pytest.approx((1.0, 1.0, 2.0))


def test_air_tells_ct() -> None:
    assert is_ct(fingerprint((1, 1, 1), (8, 8, 8), darkest=-900))
    assert not is_ct(fingerprint((1, 1, 1), (8, 8, 8)))
