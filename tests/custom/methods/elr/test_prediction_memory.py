"""Averages of predictions: their formula, what numbers of 16 bits lose, which pixels are visited, what is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedannot.custom.methods.elr.prediction_memory import PredictionMemory, RememberedCase
from fedannot.transforms.errors import DataError

PROBABILITIES = np.array([0.665241, 0.244728, 0.090031], dtype=np.float32)
ONE = np.zeros((1, 1), dtype=np.int32)


def of_one(folder: Path, momentum: float = 0.99, exact: bool = True) -> PredictionMemory:
    return PredictionMemory([RememberedCase("a.png", 1, (1,))], 3, momentum=momentum, folder=folder, exact=exact)


def of_picture(folder: Path, *cases: RememberedCase, momentum: float = 0.5) -> PredictionMemory:
    return PredictionMemory(cases or [RememberedCase("a.png", 1, (3, 4))], 2, momentum=momentum, folder=folder)


def foreground(*values: float) -> Any:
    return np.array([[1 - value for value in values], values], dtype=np.float32)


@pytest.mark.parametrize(("exact", "error"), [(True, 1e-7), (False, 0.5 / 65535 + 1e-7)])
@pytest.mark.parametrize("momentum", [0.0, 0.7, 0.99])
def test_visits_with_a_constant_prediction(momentum: float, exact: bool, error: float, tmp_path: Path) -> None:
    memory = of_one(tmp_path, momentum, exact)
    for visits in range(1, 301):
        target = memory.visit(0, ONE, PROBABILITIES[:, None])[:, 0]
        assert target == pytest.approx((1 - momentum**visits) * PROBABILITIES, abs=2 * error)
    assert memory.visits(0).tolist() == [300]
    assert memory.targets(0)[:, 0] == pytest.approx(target, abs=2 * error)


@pytest.mark.parametrize(
    ("momentum", "exact", "error"), [(0.99, True, 1e-5), (0.99, False, 7.7e-4), (0.7, False, 3e-5)]
)
def test_what_is_lost_against_double_precision(momentum: float, exact: bool, error: float, tmp_path: Path) -> None:
    """No more than half a step / (1 − β), however predictions go; numbers of 16 bits with a point would lose 0.02."""
    generator = np.random.default_rng(0)
    jumps = np.repeat(generator.dirichlet([0.3, 0.3, 0.3], 3), 500, axis=0)
    noisy = generator.dirichlet([1, 1, 1], 200)
    memory, expected = of_one(tmp_path, momentum, exact), np.zeros(3)
    for predicted in np.concatenate([jumps, noisy]):
        target = memory.visit(0, ONE, predicted[:, None].astype(np.float32))[:, 0]
        expected = momentum * expected + (1 - momentum) * predicted
        assert np.abs(target - expected)[1:].max() < error
        assert np.abs(target - expected)[0] < 2 * error


@pytest.mark.parametrize("exact", [True, False])
def test_images_are_visited_as_samples_of_one_pixel(exact: bool, tmp_path: Path) -> None:
    one, other = (
        PredictionMemory([RememberedCase("a", 4, (1,))], 3, momentum=0.9, folder=tmp_path, exact=exact)
        for _ in range(2)
    )
    generator = np.random.default_rng(1)
    for samples in ([2, 0], [3, 2], [], [0, 1, 2]):
        predicted = generator.dirichlet([1, 1, 1], len(samples)).astype(np.float32).T.reshape(3, -1)
        together = one.visit_images(np.array(samples, dtype=np.int64), predicted)
        singly = [other.visit(sample, ONE, predicted[:, [place]]) for place, sample in enumerate(samples)]
        assert together == pytest.approx(np.hstack(singly) if singly else predicted, abs=0)
    assert torch.equal(one.content()["values"], other.content()["values"])


def test_what_is_shown_is_visited_and_nothing_else(tmp_path: Path) -> None:
    """Of 3 × 4 pixels three are shown, one of them twice: it has the mean, and one visit."""
    memory = of_picture(tmp_path)
    places = np.array([[0, 2, 2, 1], [1, 3, 3, 1]], dtype=np.int32)
    target = memory.visit(0, places, foreground(0.8, 0.4, 0.2, 1.0))
    assert target[1] == pytest.approx([0.4, 0.15, 0.15, 0.5], abs=1e-5)
    assert target[0] == pytest.approx([0.1, 0.35, 0.35, 0.0], abs=1e-5)
    visits = np.zeros((3, 4), dtype=int)
    visits[0, 1] = visits[2, 3] = visits[1, 1] = 1
    assert memory.visits(0).tolist() == visits.tolist()
    everywhere = memory.targets(0)
    assert not everywhere[:, visits == 0].any()
    assert everywhere[1][visits > 0] == pytest.approx([0.4, 0.5, 0.15], abs=1e-5)
    # A pixel with another number of visits in the same box.
    memory.visit(0, places[:, :1], foreground(0.0))
    assert memory.targets(0)[1, 0, 1] == pytest.approx(0.2, abs=1e-5)
    assert memory.targets(0)[:, 0, 1].sum() == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize("place", [(3, 0), (0, 4), (-1, 0)])
def test_a_place_outside_its_sample_is_refused_and_nothing_is_written(place: tuple[int, int], tmp_path: Path) -> None:
    memory = of_picture(tmp_path, RememberedCase("a.png", 2, (3, 4)))
    with pytest.raises(DataError, match=r"^Sample 0: found places from .* in a sample of the size \[3, 4\]"):
        memory.visit(0, np.array([[0, place[0]], [0, place[1]]], dtype=np.int32), foreground(0.5, 0.5))
    assert not any(memory.visits(sample).any() for sample in (0, 1))


def test_cases_that_are_still_there_are_taken_over(tmp_path: Path) -> None:
    a, b, c = (RememberedCase(name, 2, (1, extent)) for name, extent in (("a", 1), ("b", 2), ("c", 1)))
    before = of_picture(tmp_path, a, b, c, a)
    for sample, value in enumerate((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)):
        before.visit(sample, np.zeros((2, 1), dtype=np.int32), foreground(value))
    after = of_picture(tmp_path, c, a, RememberedCase("b", 2, (1, 3)), a)
    assert after.restore(before.content()) == 3
    taken = [float(after.targets(sample)[1, 0, 0]) * 2 for sample in range(8)]
    assert taken == pytest.approx([0.5, 0.6, 0.1, 0.2, 0.0, 0.0, 0.7, 0.8], abs=1e-4)


def test_what_is_kept_in_another_form_is_refused(tmp_path: Path) -> None:
    content = of_picture(tmp_path).content()
    other = PredictionMemory([RememberedCase("a.png", 1, (3, 4))], 3, momentum=0.5, folder=tmp_path)
    with pytest.raises(ValueError, match="2 classes in uint16"):
        other.restore(content)
    with pytest.raises(ValueError, match="23 numbers, expected 24"):
        of_picture(tmp_path).restore(content | {"values": torch.zeros(23, dtype=torch.uint16)})


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DataError, match=r"no room for averages of predictions \(No space left on device\); expected"):
        of_picture(tmp_path, RememberedCase("a", 40, (256, 256)))
    assert list(tmp_path.iterdir()) == []
