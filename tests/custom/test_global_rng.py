"""Global random numbers that several threads seed: each has its own, and what was taken is known."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fedannot.custom import global_rng
from fedannot.custom.global_rng import briefly_seeded_rng, global_rng_was_used


def test_no_thread_seeds_the_numbers_while_another_takes_them() -> None:
    torch.manual_seed(1)
    expected, inside, asked = torch.rand(2), threading.Event(), threading.Event()

    def other() -> torch.Tensor:
        inside.wait(5)
        asked.set()
        with briefly_seeded_rng(2):
            return torch.rand(2)

    with ThreadPoolExecutor(1) as pool:
        drawn = pool.submit(other)
        with briefly_seeded_rng(1):
            inside.set()
            asked.wait(5)
            threading.Event().wait(0.05)
            assert torch.equal(torch.rand(2), expected)
        assert not torch.equal(drawn.result(5), expected)


def test_taken_numbers_are_known_and_a_block_leaves_them_as_they_were() -> None:
    with briefly_seeded_rng(3):
        assert not global_rng_was_used()
        with briefly_seeded_rng(4):
            torch.rand(1)
            assert global_rng_was_used()
        assert not global_rng_was_used()


@pytest.mark.parametrize(("is_used", "expected"), [(True, [3]), (False, [])])
def test_a_block_leaves_the_numbers_of_a_gpu_as_they_were(
    monkeypatch: pytest.MonkeyPatch, is_used: bool, expected: list[int]
) -> None:
    """A network that is built within a task must not decide what dropout draws after it; PyTorch seeds both."""
    kept: list[list[int]] = []
    fork = torch.random.fork_rng
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: (kept.append(devices), fork(devices=[]))[1])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_used)
    monkeypatch.setattr(global_rng, "current_gpus", lambda: [3])
    with briefly_seeded_rng(1):
        pass
    assert kept == [expected]
