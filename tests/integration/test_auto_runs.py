"""Whole runs of `auto`: both ways of running, resumed, reverted to federated averaging, and with odd sites."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import JOBS, SMALL
from plain_records import collect_output, read_summary, simulate
from support.corrected_runs import bias_of
from support.shifted_discs import CASES, SHIFT, write_shifted_site
from support.whole_runs import assert_same_model
from test_simulator import run_simulator

from fedannot.apps.runs.job import Job
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.auto.records import SiteBiasRecord
from fedannot.custom.run.state import STATE_FILE

# A model that has hardly learnt anything finds nothing; reviewed cases need none.
EAGER = {"warmup_rounds": 1, "min_predicted_fraction": 0.0, "rounds": 4}
SITES = 3


def federation(folder: Path, noise: str | None = "M(25,-25,2,0.5)", *, reviewed: bool = True) -> Path:
    """Three sites of five images, all of them reviewed."""
    drawing = LesionImages(noise, exact=True, stratified=0.5) if noise else LesionImages()
    write_phantom_federation(folder, drawing, num_sites=SITES, seed=3, images_per_site=5, test_images=2)
    for file in folder.glob("site-*/datalist.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if reviewed:
            content["reference"] = [
                {"image": case["image"], "label": case["clean_label"]} for case in content["training"]
            ]
        file.write_text(json.dumps(content))
    return folder


def from_round_1(finished: Path, copy: Path) -> Path:
    """Copy a finished run, with the server's state after the first round."""
    shutil.copytree(finished, copy)
    state = copy / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name("fedannot_state_round_1.pt"), state)
    return copy


def last_estimate(summary: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = summary["channels"][-1]
    return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rounds without a break, the state after the first kept; job and data lie beside the output."""
    folder = tmp_path_factory.mktemp("auto")
    federation(folder / "data")
    job = Job.open(JOBS / "auto").copy_with(SMALL | EAGER | {"keep_rounds": [1]}, folder / "job")
    simulate(job.folder, folder / "whole", data=folder / "data")
    return folder


def test_sites_correct_what_reviewed_cases_establish(whole: Path) -> None:
    summary = read_summary(whole / "whole")
    images, *of_model = summary["channels"]
    assert images["is_of_images"]
    assert [channel["before_round"] for channel in (images, *of_model)] == [1, 2, 3, 4]
    assert last_estimate(summary)["decision"]["outcome"] == "corrected"
    assert {site["corrected_before_round"] for site in images["sites"].values()} == {1}
    assert {site["corrected_before_round"] for site in of_model[0]["sites"].values()} == {2}
    manifests = {
        file.parent.name: json.loads(file.read_text()) for file in (whole / "data").glob("site-*/manifest.json")
    }
    for name, site in last_estimate(summary)["sites"].items():
        assert site["corrected_before_round"] == 4
        # Drawn on images four times as large.
        assert bias_of(SiteBiasRecord.model_validate(site).corrections)[1] == pytest.approx(
            manifests[name]["noise"]["mean"] / 4, abs=0.6
        )
    assert summary["rounds"][-1]["stage"] == "corrected"


@pytest.fixture(scope="module")
def half_wrong(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Data of six sites of which three draw right, and a job whose model is checked in two rounds."""
    folder = tmp_path_factory.mktemp("checked")
    drawing = LesionImages("M(25,-25,2,0.5)", exact=True, stratified=0.5)
    write_phantom_federation(folder / "data", drawing, num_sites=6, seed=3, images_per_site=4, test_images=2)
    for index in range(1, 7):
        file = folder / "data" / f"site-{index}" / "datalist.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        clean = [{"image": case["image"], "label": case["clean_label"]} for case in content["training"]]
        content |= {"reference": clean} | ({"training": clean} if index > 3 else {})
        file.write_text(json.dumps(content))
    job = Job.open(JOBS / "auto").copy_with(
        SMALL | EAGER | {"estimates": 1, "rollback_rounds": 2, "boundary_evidence": "model"}, folder / "job"
    )
    return folder / "data", job.folder


def test_the_model_is_scored_beside_that_of_before_and_no_bit_of_it_changes(
    half_wrong: tuple[Path, Path], tmp_path: Path
) -> None:
    data, job = half_wrong
    # One round too few to decide anything.
    checked = simulate(job, tmp_path / "checked", data=data, overrides={"rounds": 3, "rollback_rounds": 3})
    alone = simulate(job, tmp_path / "alone", data=data, overrides={"rounds": 3, "rollback_rounds": 0})
    assert [item["round"] for item in checked["rollback"]["rounds"]] == [2, 3]
    assert {item["sites"] for item in checked["rollback"]["rounds"]} == {6}
    assert [item["round"] for item in checked["rollback"]["rounds"]] == [2, 3]
    assert alone["rollback"] is None
    assert_same_model(tmp_path / "checked", tmp_path / "alone")


def test_a_veto_takes_everything_back_at_the_sites(
    half_wrong: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, job = half_wrong
    worse = Estimate(24, -0.1, -0.15, -0.05)
    monkeypatch.setattr("fedannot.custom.methods.auto.rollback_check.pooled_gains", lambda *_: worse)
    summary = simulate(job, tmp_path / "vetoed", data=data)
    assert summary["rollback"]["has_vetoed"]
    assert [record["stage"] for record in summary["rounds"]] == [
        "warm-up", "corrected", "corrected", "federated averaging"
    ]  # fmt: skip
    records = [file for file in sorted((tmp_path / "vetoed").rglob("corrections.json")) if "site-1" in file.parts]
    by_round = {file.parent.name: json.loads(file.read_text())["corrections"] for file in records}
    assert list(by_round) == ["round_2", "round_4"]
    assert by_round["round_2"]
    assert not by_round["round_4"]


def test_a_run_resumed_before_the_estimate_makes_it_again_with_the_same_bits(whole: Path, tmp_path: Path) -> None:
    """From the state after the first round, while the sites' folders are those after the last."""
    again = from_round_1(whole / "whole", tmp_path / "again")
    resumed = simulate(whole / "job", again, data=whole / "data", resume=True)
    assert resumed["channels"] == read_summary(whole / "whole")["channels"]
    assert_same_model(whole / "whole", again)


def test_a_run_that_ends_in_the_middle_goes_on_from_what_was_corrected(whole: Path, tmp_path: Path) -> None:
    """What was corrected before round 2 lies in the earlier workspaces, from where later rounds take it."""
    job = Job.open(whole / "job").copy_with({"estimates": 1, "rounds": 3}, tmp_path / "job").folder
    simulate(job, tmp_path / "once", data=whole / "data")
    simulate(job, tmp_path / "parts", data=whole / "data", overrides={"rounds": 2})
    simulate(job, tmp_path / "parts", data=whole / "data", resume=True)
    assert_same_model(tmp_path / "once", tmp_path / "parts")


def test_masks_that_a_site_has_moved_back_are_those_of_a_run_resumed_after_the_first_round(tmp_path: Path) -> None:
    """All masks of one site are drawn 2.5 px off: it measures and moves them before the first round, and only then."""
    data, sites = tmp_path / "data", ("site-1", "site-2")
    for site, shift in zip(sites, (SHIFT, (0.0, 0.0)), strict=True):
        write_shifted_site(data / site, shift)
    write_federation(data, FederationDescription.model_validate({"name": "f", "task": "segmentation", "sites": sites}))
    settings = SMALL | EAGER | {"rounds": 2, "correct_shift": True, "keep_rounds": [1]}
    job = Job.open(JOBS / "auto").copy_with(settings, tmp_path / "job").folder
    once = simulate(job, tmp_path / "once", data=data)
    again = from_round_1(tmp_path / "once", tmp_path / "again")
    resumed = simulate(job, again, data=data, resume=True)
    assert last_estimate(once)["moved_masks"] == {"site-1": CASES}
    assert resumed["channels"] == once["channels"]
    assert len(once["channels"]) == 2
    for out in (tmp_path / "once", again):
        assert {file.parents[4].name for file in out.rglob("corrections.json")} == {"site-1"}
        assert {file.parent.name for file in out.rglob("corrections.json")} == {"round_1"}
    assert_same_model(tmp_path / "once", again)


def test_clean_labels_are_federated_averaging_bit_for_bit(small_job: Callable[..., Path], tmp_path: Path) -> None:
    data = federation(tmp_path / "data", None)
    summary = simulate(small_job("auto", **EAGER | {"rounds": 3}), tmp_path / "auto", data=data)
    simulate(small_job("fedavg", rounds=3), tmp_path / "fedavg", data=data)
    assert last_estimate(summary)["decision"]["outcome"] == "nothing"
    assert_same_model(tmp_path / "auto", tmp_path / "fedavg")


def test_reviewed_cases_at_the_server_are_zero(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """No site has any; all draw larger. The server's are its test images, and count for the rollback check, too."""
    data = federation(tmp_path / "data", "M(25,-25,2,1)", reviewed=False)
    file = data / "test" / "datalist.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["reference"] = [case | {"group": f"patient-{n}"} for n, case in enumerate(content["testing"] * 2)]
    file.write_text(json.dumps(content))
    summary = simulate(small_job("auto", **EAGER | {"rounds": 2}), tmp_path / "out", data=data)
    (reason, *_) = last_estimate(summary)["reference_levels"]["1"]["reasons"]
    assert (reason["code"], reason["numbers"]["at_server"]) == ("reviewed", 1)


@pytest.mark.processes
def test_simulator_and_in_process_give_the_same_bits(whole: Path, tmp_path: Path) -> None:
    job = Job.open(whole / "job").copy_with({}, tmp_path / "job").folder
    app = ["server", *(f"site-{index + 1}" for index in range(SITES))]
    (job / "meta.json").write_text(json.dumps({"name": "small", "min_clients": 1, "deploy_map": {"app": app}}))
    workspace = run_simulator(job, tmp_path / "workspace", data=whole / "data", threads=SITES)
    simulated = collect_output(workspace, tmp_path / "simulated")
    assert simulated["channels"] == read_summary(whole / "whole")["channels"]
    assert not simulated["refusals"]
    assert_same_model(whole / "whole", tmp_path / "simulated")


def test_odd_sites_do_not_stop_a_run(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """A site with one image, a site whose reviewed masks cannot be read, and one as typical."""
    data = federation(tmp_path / "data")
    first, second = data / "site-1" / "datalist.json", data / "site-2" / "datalist.json"
    content = json.loads(first.read_text(encoding="utf-8"))
    content["training"] = content["training"][:1]
    first.write_text(json.dumps(content))
    content = json.loads(second.read_text(encoding="utf-8"))
    content["reference"] = [{"image": case["image"], "label": "absent.png"} for case in content["reference"]]
    second.write_text(json.dumps(content))
    summary = simulate(small_job("auto", **EAGER | {"rounds": 3}), tmp_path / "out", data=data)
    assert summary["rounds_finished"] == 3
    assert set(last_estimate(summary)["sites"]) == {"site-1", "site-2", "site-3"}
    assert last_estimate(summary)["sites"]["site-3"]["corrections"]
    assert not last_estimate(summary)["sites"]["site-1"]["corrections"]
