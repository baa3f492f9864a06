"""A fingerprint by a run is that of the cases taken together."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedannot.apps import simulate
from fedannot.apps.planning import suggested
from fedannot.apps.planning.machine import MachineSpeed
from fedannot.apps.runs.data_compatibility import settings_for_data
from fedannot.apps.runs.job import Job
from fedannot.custom import LesionVolumes, write_phantom_federation
from fedannot.custom.compatibility import DataMismatchError
from fedannot.custom.data.datalist import read_datalist, write_datalist
from fedannot.custom.data.description import VolumeDescription, read_site_description
from fedannot.custom.methods.fingerprint.server import FingerprintServer
from fedannot.custom.methods.fingerprint.settings import FingerprintSettings
from fedannot.custom.planning.fingerprint import Fingerprint, site_fingerprint
from fedannot.custom.settings import TrainingSettings
from fedannot.transforms.errors import DataError

SMALL = {"rounds": 1, "network.features": [4, 4, 4, 4, 4, 4], "training.local_epochs": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run at three sites, of which the last has two patients."""
    folder = tmp_path_factory.mktemp("fingerprint")
    write_phantom_federation(folder / "data", LesionVolumes(), num_sites=3, images_per_site=4, test_images=1)
    file = folder / "data" / "site-3" / "datalist.json"
    write_datalist(file, {"training": read_datalist(file).section("training")[:2]})
    simulate("fedavg", folder / "run", data=folder / "data", changes=SMALL | {"method": "fingerprint"})
    return folder


def test_a_run_finds_the_fingerprint_of_the_pooled_cases(run: Path) -> None:
    found = json.loads((run / "run" / "summary.json").read_text())["fingerprint"]
    sites = (run / "data" / "site-1", run / "data" / "site-2")
    expected = Fingerprint.pooled(
        site_fingerprint(site, read_site_description(site), site=site.name) for site in sites
    ).as_fields()
    assert found.keys() == expected.keys()
    assert (found["num_samples"], found["num_patients"]) == (8, 8)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-15)


def test_a_plan_follows_from_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggested, "machine_speed", lambda dims, threads: MachineSpeed(1e11))
    monkeypatch.setattr(suggested, "step_seconds", lambda *args, **options: 0.5)
    plan = suggested.suggest_from_run(run / "run", hours=0.5)
    assert plan.grid.extents == pytest.approx((64, 64))
    assert plan.training.steps_of_site == 3050


def test_a_run_without_a_fingerprint_gives_no_plan(run: Path, tmp_path: Path) -> None:
    summary = json.loads((run / "run" / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps(summary | {"fingerprint": None}))
    with pytest.raises(DataError, match="holds no fingerprint"):
        suggested.suggest_from_run(tmp_path)


def test_a_continued_run_keeps_it() -> None:
    first, second = (FingerprintServer(FingerprintSettings()) for _ in range(2))
    second.restore(first.state(), [])
    assert second.pooled is None
    first.pooled = Fingerprint(4, 4, *(np.zeros(3) for _ in range(8)))
    second.restore(json.loads(json.dumps(first.state())), [])
    assert second.state() == first.state()


@pytest.mark.parametrize(
    "changed",
    [
        {"extent_means": [4.1]},
        {"extent_means": [400.0, 4.0, 4.0]},
        {"class_fractions": []},
        {"class_fractions": ["a"]},
        {"foreground": [1.0, 0.0, 0.0]},
        {"num_samples": -3},
        {"num_samples": 0},
        {"spacing_known": None},
        {"spacing_means": [float("nan")] * 3},
    ],
)
def test_a_changed_fingerprint_is_refused_by_its_file(run: Path, tmp_path: Path, changed: dict[str, object]) -> None:
    summary = json.loads((run / "run" / "summary.json").read_text())
    summary["fingerprint"] |= changed
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DataError, match=r"summary\.json"):
        suggested.suggest_from_run(tmp_path)


def test_whole_volumes_need_no_patch() -> None:
    described = {Path("site-1"): VolumeDescription(classes=("organ",), labels={0: 0, 1: 1})}
    found = Job.open("fingerprint").settings_with(settings_for_data(Job.open("fingerprint"), {}, described))
    assert isinstance(found.training, TrainingSettings)
    assert (found.network.spatial_dims, found.training.patch) == (3, (32, 32, 32))
    with pytest.raises(DataMismatchError, match="names no patch"):
        settings_for_data(Job.open("fedavg"), {}, described)


def test_a_patch_of_ones_own_counts() -> None:
    volumes = {"network": {"spatial_dims": 3}, "training": {"patch": [48, 48, 48]}}
    assert FingerprintSettings.model_validate(volumes).training.patch == (48, 48, 48)
    assert FingerprintSettings().training.patch is None
