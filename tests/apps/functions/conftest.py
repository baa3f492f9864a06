from pathlib import Path

import pytest

from fedannot.apps import ProgressStep, Run, simulate

TINY = {
    "rounds": 3,
    "warmup_rounds": 1,
    "min_predicted_fraction": 0.0,
    "group_test_level": 1.0,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.local_epochs": 1,
    "embedded.sites": 4,
    "embedded.images_per_site": 4,
    "embedded.test_images": 3,
}


@pytest.fixture(scope="session")
def steps() -> list[ProgressStep]:
    """What a run reported of its progress; filled by :func:`run`."""
    return []


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, steps: list[ProgressStep]) -> Run:
    """A finished run of FedA³I, so small that it takes seconds."""
    out: Path = tmp_path_factory.mktemp("runs") / "small"
    return simulate("fedaaai", out, changes=TINY, seed=3, on_progress=steps.append)
