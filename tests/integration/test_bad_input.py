"""What a person supplies wrongly is an error that says what to do, or is left out, counted and named at the site."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import JOBS
from plain_records import simulate

from fedannot.apps.runs.in_process import RunError, run_in_process
from fedannot.apps.runs.job import Job, JobError
from fedannot.custom.compatibility import DataMismatchError
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.drawing import Drawing
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.store_location import CACHE_VARIABLE
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    folder = tmp_path / "federation"
    write_phantom_federation(folder, LesionImages(), num_sites=3, images_per_site=4, test_images=4)
    return folder


def test_an_unreadable_image_is_counted_and_left_out(
    federation: Path, small_job: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = sorted((federation / "site-2" / "images").iterdir())[1]
    broken.write_bytes(broken.read_bytes()[:40])
    summary = simulate(small_job("fedavg", rounds=1), tmp_path / "out", data=federation)
    assert summary["sites"]["site-2"]["num_samples"] == 3
    assert summary["sites"]["site-2"]["num_excluded"] == 1
    assert not summary["refusals"]
    assert any("site-2" in message and broken.name in message for message in caplog.messages)
    assert broken.name not in json.dumps(summary), "which case it is stays at the site"


def test_an_empty_site_is_refused_by_name_and_the_others_go_on(
    federation: Path, small_job: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    datalist = federation / "site-2" / "datalist.json"
    datalist.write_text('{"training": []}')
    summary = simulate(small_job("fedavg", rounds=1), tmp_path / "out", data=federation)
    assert set(summary["sites"]) == {"site-1", "site-3"}
    assert [refusal["site"] for refusal in summary["refusals"]] == ["site-2"]
    assert summary["refusals"][0]["reason"] == {"code": "no_usable_data"}, "and nothing of the error"
    assert any(str(datalist) in message and "expected at least one" in message for message in caplog.messages)


def test_a_wrong_key_in_data_yaml_names_file_key_and_what_is_allowed(
    federation: Path, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    file = federation / "site-1" / "data.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("channels:", "chanels:"))
    with pytest.raises(DataError, match=r"site-1/data\.yaml: unknown key 'chanels' = 1; did you mean 'channels'\?"):
        simulate(small_job("fedavg", rounds=1), tmp_path / "out", data=federation)


def test_a_wrong_key_in_settings_conf_names_file_key_and_what_is_allowed(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    job = small_job("fedaaai")
    settings = job / "app" / "config" / "settings.conf"
    settings.write_text(settings.read_text(encoding="utf-8") + "\nsettings.warmup_round = 3\n")
    with pytest.raises(
        SettingsError, match=r"settings\.conf: unknown key 'warmup_round' = 3; did you mean 'warmup_rounds'"
    ):
        simulate(job, tmp_path / "out")


def test_a_wrong_value_in_settings_conf(small_job: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"key 'training\.loss' is 'mse': Expected 'ce', .*, or the name of"):
        simulate(small_job("fedavg"), tmp_path / "out", overrides={"training.loss": "mse"})


def test_a_wrong_key_of_a_component_names_it(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedavg")
    config = job / "app" / "config" / "config_fed_server.conf"
    config.write_text(config.read_text(encoding="utf-8").replace("args { settings", "args { setings"))
    with pytest.raises(
        JobError, match=r"server\.conf: .*FederatedController has no argument 'setings'; did you mean 'settings'"
    ):
        simulate(job, tmp_path / "out")


def test_data_of_another_kind_than_the_network(
    federation: Path, small_job: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One site's description has two classes where the others have one."""
    file = federation / "site-3" / "data.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("- lesion\n", "- lesion\n- cyst\n").replace("255: 1", "255: 1\n  2: 2")
    )
    summary = simulate(small_job("fedavg", rounds=1), tmp_path / "out", data=federation)
    assert set(summary["sites"]) == {"site-1", "site-2"}
    assert any("2 foreground classes" in message and "expects 1 and 1" in message for message in caplog.messages)


def test_a_store_of_prepared_images_that_cannot_be_used_is_named_before_anything_is_written(
    small_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"file: found a file; expected a folder"):
        simulate(small_job(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_federation_is_named(small_job: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"nowhere/federation\.yaml: found no such folder; .* `fedannot data import` makes one"
    ):
        simulate(small_job("fedavg"), tmp_path / "out", data=tmp_path / "nowhere")


def test_sites_validate_where_the_server_has_no_test_set(
    federation: Path, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """Site 1 has four validation cases, site 2 two (too few to report a mean), site 3 none."""
    shutil.rmtree(federation / "test")
    for site, count in (("site-1", 4), ("site-2", 2)):
        file = federation / site / "datalist.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        content["validation"] = content["training"][:count]
        file.write_text(json.dumps(content))
    summary = simulate(small_job("fedavg", rounds=2), tmp_path / "out", data=federation)
    metrics = [
        json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert metrics[0]["dice"] is None, "sites validate every few rounds and after the last"
    assert metrics[1]["evaluated_on"] == "sites"
    assert metrics[1]["num_cases"] == 4
    assert 0 <= metrics[1]["dice"] <= 1
    assert not summary["refusals"]


def test_a_job_folder_without_meta(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected a folder with a meta\.json"):
        Job.open(tmp_path)


def test_a_panicking_component_ends_the_run_with_its_reason_alone(
    small_job: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = small_job("fedavg")
    with pytest.raises(RunError, match=r"^server: .*there is no such file"):
        simulate(job, tmp_path / "out", overrides={"resume_from": str(tmp_path / "absent.pt")})
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("name", "drawing"), [("fedavg", Cells()), ("fedgsca", LesionImages())])
def test_data_for_another_task_are_refused_before_anything_is_written(
    name: str, drawing: Drawing, tmp_path: Path
) -> None:
    write_phantom_federation(tmp_path / "data", drawing, num_sites=2, images_per_site=1, test_images=1)
    with pytest.raises(
        DataMismatchError, match=rf"^{tmp_path}/data/site-1 holds .*, but .*{name} is for .*; jobs that fit"
    ):
        simulate(JOBS / name, tmp_path / "out", data=tmp_path / "data")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def under_nvflare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Path], str]:
    """Return a function that runs a job as NVFlare does, which asks nothing before, and returns how it ended."""

    def end(job: Path, data: Path) -> str:
        monkeypatch.setenv("FEDANNOT_DATA", str(data))
        with pytest.raises(RunError) as raised:
            run_in_process(Job.open(job), ["site-1", "site-2"], tmp_path / "run")
        return str(raised.value)

    return end


@pytest.mark.parametrize(
    ("name", "drawing", "said"),
    [
        ("fedavg", Cells(), "images with one class each, but a job of 'fedavg' is for segmentation"),
        ("fedavg_classification", LesionImages(), "2D images with masks, but a job of 'fedavg' is for class"),
    ],
)
def test_under_nvflare_data_for_another_task_are_one_sentence_that_ends_the_run(
    name: str,
    drawing: Drawing,
    said: str,
    under_nvflare: Callable[[Path, Path], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_phantom_federation(tmp_path / "data", drawing, num_sites=2, images_per_site=1, test_images=1)
    shutil.rmtree(tmp_path / "data" / "test")
    ended = under_nvflare(JOBS / name, tmp_path / "data")
    first, *lines = ended.splitlines()
    assert first == "server: Fewer than 1 usable results in 3 rounds in a row. Refused in the last:"
    assert [line for line in lines if not line.startswith(" ")] == [
        "site-1: data do not fit",
        "site-2: data do not fit",
    ]
    for site in ("site-1", "site-2"):
        expected = f"    OtherTaskError: Site {site}: {tmp_path / 'data' / site} holds {said}"
        assert any(line.startswith(expected) for line in lines)
    assert f"Site site-1: {tmp_path / 'data' / 'site-1'} holds {said}" in caplog.text
    assert "Traceback" not in caplog.text


def test_under_nvflare_more_classes_than_the_networks_name_the_setting(
    federation: Path, under_nvflare: Callable[[Path, Path], str], small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """The test set's do not fit either, so that the job ends before anybody has trained."""
    for site in ("site-1", "site-2", "test"):
        file = federation / site / "data.yaml"
        text = file.read_text(encoding="utf-8").replace("- lesion\n", "- lesion\n- cyst\n")
        file.write_text(text.replace("255: 1", "255: 1\n  2: 2"))
    ended = under_nvflare(small_job("fedavg"), federation)
    assert ended.startswith(f"server: Site test: {federation / 'test' / 'data.yaml'} describes 1 channels and 2 foreg")
    assert ended.endswith("with --set network.num_classes=2, or write the same into its settings.conf.")
    assert not list((tmp_path / "run").glob("**/metrics.jsonl"))
