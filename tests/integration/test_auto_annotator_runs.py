"""Whole runs of `auto` by annotator, with images and model: in one process, under NVFlare's simulator, and resumed."""

import json
from pathlib import Path

import pytest
from conftest import JOBS, SMALL
from plain_records import collect_output, read_summary, simulate
from support.annotator_federation import SITES, write_site
from support.whole_runs import assert_same_model
from test_auto_runs import EAGER, from_round_1
from test_simulator import run_simulator

from fedannot.apps.runs.job import Job
from fedannot.custom.data.federation import FederationDescription, write_federation

NAMES = ("site-1", "site-2", "site-3")
BY_ANNOTATOR = {"bias_unit": "annotator", "correct": ["offset"], "reference_level": "image_boundary"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds without a break, the state after the first kept; job and data lie beside the output."""
    folder = tmp_path_factory.mktemp("annotators")
    for seed, (name, annotators) in enumerate(zip(NAMES, SITES.values(), strict=True)):
        named = [(who and f"dr-{who}", bias) for who, bias in annotators]
        write_site(folder / "data" / name, named, seed)
    description = {"name": "annotators", "task": "segmentation", "sites": NAMES}
    write_federation(folder / "data", FederationDescription.model_validate(description))
    settings = SMALL | EAGER | BY_ANNOTATOR | {"rounds": 2, "keep_rounds": [1]}
    job = Job.open(JOBS / "auto").copy_with(settings, folder / "job")
    simulate(job.folder, folder / "whole", data=folder / "data")
    return folder


def test_the_annotator_who_errs_is_corrected_and_no_name_is_in_what_the_server_keeps(whole: Path) -> None:
    summary = read_summary(whole / "whole")
    images, both = summary["channels"]
    assert images["is_of_images"]
    assert "is_of_images" not in both
    assert not summary["refusals"]
    for estimate in summary["channels"]:
        (corrected,) = estimate["decision"]["corrected"]
        assert estimate["groups"][corrected]["site"] == "site-1"
        assert estimate["sites"][corrected]["corrections"][0]["bias"]["1"] == pytest.approx(3.0, abs=0.7)
    (record,) = (whole / "whole").rglob("round_1/corrections.json")
    assert [case["annotator_group"] for case in json.loads(record.read_text())["cases"]].count(None) == 0
    server = [file for file in (whole / "whole").rglob("*") if file.is_file() and "server" in file.parts]
    assert server
    assert not any(name in file.read_bytes() for file in server for name in (b"dr-large", b"dr-exact"))


def test_resumed_in_the_middle_it_ends_with_the_same_bits(whole: Path, tmp_path: Path) -> None:
    again = from_round_1(whole / "whole", tmp_path / "again")
    resumed = simulate(whole / "job", again, data=whole / "data", resume=True)
    assert resumed["channels"] == read_summary(whole / "whole")["channels"]
    assert_same_model(whole / "whole", again)


@pytest.mark.processes
def test_simulator_and_in_process_give_the_same_bits(whole: Path, tmp_path: Path) -> None:
    job = Job.open(whole / "job").copy_with({}, tmp_path / "job").folder
    (job / "meta.json").write_text(
        json.dumps({"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", *NAMES]}})
    )
    workspace = run_simulator(job, tmp_path / "workspace", data=whole / "data", threads=len(NAMES))
    simulated = collect_output(workspace, tmp_path / "simulated")
    assert simulated["channels"] == read_summary(whole / "whole")["channels"]
    assert not simulated["refusals"]
    assert_same_model(whole / "whole", tmp_path / "simulated")
