import gc
import os

# Tiny arrays: threads cost more than they bring, and several runs share the machine. Must come before NumPy and torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Other programs may have the machine: no test fails on time.
settings.register_profile("shared machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("shared machine")

# What is imported and collected stays to the end: to look through it for garbage takes seconds.
gc.disable()

# Written out: pytest reads this file before the tests of what an import of fedannot does.
CACHE_VARIABLE = "FEDANNOT_CACHE"
REAL_DATA_VARIABLE = "FEDANNOT_REAL_DATA"
DATA_VARIABLE = "FEDANNOT_DATA"

# Modules that begin, in this order: their tests take longest. What a worker begins last, others may have to wait for,
# and what several tests share is made twice where another worker takes some of them.
FIRST = (
    "test_personal_runs",
    "test_bundles",
    "test_fedia_runs",
    "test_compare",
    "test_hostile_jobs",
    "test_auto_runs",
    "test_label_audit_runs",
    "test_modes_after_a_tour",
    "test_audit_runs",
    "test_private_runs",
    "test_faults",
    "test_resume",
    "test_site_start",
    "test_run_process",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that take long begin before all others, each module's together."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Look for garbage from now on, among what tests make; also where workers run the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def without_named_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that the environment names are not looked for."""
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


@pytest.fixture(scope="session", autouse=True)
def prepared_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of prepared images of this session's own, a worker's by itself, for all processes that tests start."""
    folder = tmp_path_factory.mktemp("prepared") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def disk_is_not_waited_for() -> Iterator[None]:
    """What a test writes need not outlive a power cut; what is written to the disk when is tested by its calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real medical images, named by an environment variable; tests that need it are skipped without."""
    folder = os.environ.get(REAL_DATA_VARIABLE)
    if not folder:
        pytest.skip(f"needs real images: set {REAL_DATA_VARIABLE} to the folder that holds busi-breast-us")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"{REAL_DATA_VARIABLE} names {path}, which is no folder")
    return path
