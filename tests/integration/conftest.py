import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmark_tables import fedia

from fedannot.apps.runs import simulate
from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.settings import EmbeddedSettings

JOBS = Path(__file__).parents[2] / "jobs"

# A network and a federation so small that a round takes a fraction of a second.
SMALL = {
    "rounds": 3,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.local_epochs": 1,
    "embedded.sites": 4,
    "embedded.images_per_site": 4,
    "embedded.test_images": 4,
}

# As published: small networks establish nothing.
SMALL_FEDIA = SMALL | {
    **fedia.PUBLISHED,
    "embedded.sites": 2,
    "embedded.completeness": [0.3, 0.8],
    "warmup_rounds": 1,
    "max_extra_warmup_rounds": 0,
    "training.batch_size": 18,
    "embedded.images_per_site": 3,
    "embedded.test_images": 2,
}


# A set of settings, and the data that it is for.
TINY_NOISE = "M(25,-25,10,0.34)"
TINY = f"""
settings {{
  rounds = 2
  seed = 5
  training {{ batch_size = 2, learning_rate = 0.004 }}
}}
requires {{ sites = 3, noise = "{TINY_NOISE}" }}
"""


@pytest.fixture(scope="session", autouse=True)
def embedded_federations_are_drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The images of the same settings are the same: later runs in this process get a copy of the first one's."""
    drawn: dict[str, Path] = {}
    draw = simulate.write_embedded_federation

    def draw_or_copy(folder: Path, settings: EmbeddedSettings) -> None:
        key = f"{type(settings).__name__} {settings.model_dump_json()}"
        if key in drawn:
            shutil.copytree(drawn[key], folder)
            return
        draw(folder, settings)
        drawn[key] = shutil.copytree(folder, tmp_path_factory.mktemp("embedded") / "data")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "write_embedded_federation", draw_or_copy)
        yield


@pytest.fixture(scope="session")
def small_job_in() -> Callable[..., Path]:
    """Return a function that copies a job of the project with small settings into a folder and returns its folder."""

    def make(folder: Path, name: str = "fedaaai", **changes: Any) -> Path:
        overrides = dict(SMALL)
        if name == "fedaaai":
            overrides |= {"warmup_rounds": 1, "min_predicted_fraction": 0.0}
        if name == "fedia":
            overrides |= SMALL_FEDIA
        overrides |= {key.replace("__", "."): value for key, value in changes.items()}
        number = len(list(folder.glob(f"job-{name}-*")))
        return Job.open(JOBS / name).copy_with(overrides, folder / f"job-{name}-{number}").folder

    return make


@pytest.fixture
def small_job(small_job_in: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a job of the project with small settings and returns its folder."""
    return partial(small_job_in, tmp_path)


@pytest.fixture
def faulty_job(small_job: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that makes a small job in which the named sites fail in the named way."""

    def make(faults: dict[str, str], name: str = "fedavg", **changes: Any) -> Path:
        folder = small_job(name, **changes)
        config = folder / "app" / "config" / "config_fed_client.conf"
        text = config.read_text(encoding="utf-8")
        path, arguments = "fedannot.custom.flare.executor.FederatedExecutor", "args { settings = ${?settings} }"
        assert path in text
        assert arguments in text
        listed = ", ".join(f'"{site}" = "{fault}"' for site, fault in faults.items())
        text = text.replace(path, "faulty_executors.FaultyExecutor")
        config.write_text(text.replace(arguments, f"args {{ settings = ${{?settings}}, faults {{ {listed} }} }}"))
        return folder

    return make
