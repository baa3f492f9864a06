"""Whole audits: in both ways of running, resumed, of one site alone, and with odd sites."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import JOBS, SMALL
from plain_records import collect_output, read_summary, simulate
from support.audit_runs import assert_no_case_at_the_server, findings
from test_simulator import run_simulator
from typer.testing import CliRunner

from fedannot.apps.audit import running
from fedannot.apps.audit.found import find_audits
from fedannot.apps.audit.running import run_audit
from fedannot.apps.commands.audit import audit_app
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import progress_of
from fedannot.apps.wording.headline import headline
from fedannot.apps.wording.steps import next_steps
from fedannot.custom.audit.decisions import Decision, Decisions, read_decisions, write_decisions
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.state import STATE_FILE
from fedannot.custom.run.summary_record import Summary
from fedannot.transforms.move_contour import MoveContour

# A model that has hardly learnt anything finds nothing; here it is about what goes where.
QUICK = {"rounds": 4, "folds": 2, "min_predicted_fraction": 0.0}
SITES = 3
WITHOUT_ROUNDS = {name: value for name, value in SMALL.items() if name != "rounds"}


def federation(folder: Path) -> Path:
    drawing = LesionImages("M(25,-25,2,0.5)", exact=True, stratified=0.5)
    write_phantom_federation(folder, drawing, num_sites=SITES, seed=103, images_per_site=6, test_images=2)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with two parts of the patients; job and data lie beside the output."""
    folder = tmp_path_factory.mktemp("audit")
    federation(folder / "data")
    job = Job.open(JOBS / "audit").copy_with(SMALL | QUICK | {"keep_rounds": [3]}, folder / "job")
    simulate(job.folder, folder / "whole", data=folder / "data")
    return folder


def test_every_site_has_findings_and_what_is_concluded_of_it(whole: Path) -> None:
    summary, result = read_summary(whole / "whole"), findings(whole / "whole")
    assert sorted(result) == summary["audit"]["informed"] == ["site-1", "site-2", "site-3"]
    for site, audit in result.items():
        assert audit["num_cases"] == len(audit["cases"]) == 6
        assert {item["parameter"] for item in audit["conclusions"]} == {"offset 1", "missing 1"}
        texts = summary["channels"][0]["sites"][site]["parameters"]["offset 1"]
        (own,) = (item for item in audit["conclusions"] if item["parameter"] == "offset 1")
        assert {name: own[name] for name in texts} == texts
        assert (audit["predicted_by"]["folds"], audit["predicted_by"]["num_absent"]) == (2, 0)


def test_nothing_of_a_case_is_in_what_the_server_has(whole: Path) -> None:
    assert_no_case_at_the_server(whole / "whole", 6)


def test_a_run_resumed_in_the_second_part_finds_the_same(whole: Path, tmp_path: Path) -> None:
    again = shutil.copytree(whole / "whole", tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name("fedannot_state_round_3.pt"), state)
    # What somebody has decided meanwhile stays.
    (audit,) = (again / "run" / "site-2").rglob("audit")
    decisions = Decisions(site="site-2").with_decision(
        Decision(finding="a", choice="keep", reviewer="Dr Ada", time="2026-01-01T00:00:00+00:00")
    )
    write_decisions(audit, decisions)
    resumed = simulate(whole / "job", again, data=whole / "data", resume=True)
    assert resumed["channels"] == read_summary(whole / "whole")["channels"]
    assert findings(again / "run") == findings(whole / "whole")
    assert read_decisions(audit, "site-2") == decisions


@pytest.mark.processes
def test_simulator_and_in_process_find_the_same(whole: Path, tmp_path: Path) -> None:
    job = Job.open(whole / "job").copy_with({}, tmp_path / "job").folder
    app = ["server", *(f"site-{index + 1}" for index in range(SITES))]
    (job / "meta.json").write_text(json.dumps({"name": "small", "min_clients": 1, "deploy_map": {"app": app}}))
    workspace = run_simulator(job, tmp_path / "workspace", data=whole / "data", threads=SITES)
    simulated = collect_output(workspace, tmp_path / "simulated")
    assert simulated["audit"] == read_summary(whole / "whole")["audit"]
    assert findings(tmp_path / "workspace") == findings(whole / "whole")


def test_one_site_alone_is_audited_and_its_reference_level_cannot_be_determined(whole: Path, tmp_path: Path) -> None:
    settings = {key: value for key, value in SMALL.items() if not key.startswith("embedded")}
    run_audit(
        tmp_path / "out", jobs=JOBS, data=whole / "data" / "site-2", overrides=settings | {"rounds": 2, "folds": 1}
    )
    (audit,) = findings(tmp_path / "out").values()
    assert audit["site"] == "site-2"
    assert {item["status"] for item in audit["conclusions"]} <= {"unknown", "not_significant"}
    (offset,) = (item for item in audit["conclusions"] if item["parameter"] == "offset 1")
    assert offset["status"] == "unknown"
    assert audit["predicted_by"]["folds"] == 1


def test_odd_sites_do_not_stop_an_audit(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """A site with one image, a site with an unreadable mask, and one without any annotated lesion."""
    data = federation(tmp_path / "data")
    datalists = [data / f"site-{index + 1}" / "datalist.json" for index in range(SITES)]
    first = json.loads(datalists[0].read_text(encoding="utf-8"))
    first["training"] = first["training"][:1]
    datalists[0].write_text(json.dumps(first))
    second = json.loads(datalists[1].read_text(encoding="utf-8"))
    (data / "site-2" / second["training"][0]["label"]).write_bytes(b"no image")
    third = json.loads(datalists[2].read_text(encoding="utf-8"))
    for case in third["training"]:
        file = data / "site-3" / case["label"]
        shutil.copyfile(data / "site-3" / case["label"], file.with_suffix(".was"))
        _blank(file)
    simulate(small_job("audit", **QUICK), tmp_path / "out", data=data)
    result = findings(tmp_path / "out")
    assert {site: audit["num_cases"] for site, audit in result.items()} == {"site-1": 1, "site-2": 5, "site-3": 6}
    assert len(result["site-2"]["left_out"]) == 1


def _blank(file: Path) -> None:
    import numpy as np
    from PIL import Image

    with Image.open(file) as image:
        size = image.size
    Image.fromarray(np.zeros(size[::-1], dtype=np.uint8)).save(file)


def test_a_quick_audit_goes_on_until_its_model_can_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out, texts = federation(tmp_path / "data"), tmp_path / "out", list[str]()

    def audit(*, resume: bool) -> Summary:
        changes = WITHOUT_ROUNDS | {"min_predicted_fraction": 1.0}
        progress = progress_of(lambda step: texts.append(step.text))
        return run_audit(out, jobs=JOBS, data=data, overrides=changes, resume=resume, progress=progress)

    monkeypatch.setattr(running, "_MOST_ROUNDS", 6)
    assert audit(resume=False).rounds_finished == 6
    assert read_summary(out)["channels"][0]["decision"]["outcome"] == "unfit"
    for found in find_audits(out):
        assert headline(found.audit).startswith("The model of this audit found too few of the annotated objects")
        steps = next_steps(found.audit, None)
        assert any("trains longer" in step for step in steps)
        assert not any("reviewed cases" in step for step in steps)
    monkeypatch.undo()
    assert audit(resume=True).rounds_finished == 12
    assert [line for line in texts if "on to" in line] == [
        "The model finds too few of the annotated objects to be a reference: on to 12 rounds."
    ]
    assert not any("found too little" in headline(found.audit) for found in find_audits(out))


def test_rounds_that_are_asked_for_stay(tmp_path: Path) -> None:
    data = federation(tmp_path / "data")
    asked = SMALL | {"min_predicted_fraction": 1.0, "rounds": 1}
    assert run_audit(tmp_path / "out", jobs=JOBS, data=data, overrides=asked).rounds_finished == 1


def test_a_review_of_a_part_of_the_cases_does_not_acquit_the_site(tmp_path: Path) -> None:
    """All commands: masks that are 5 px too large, five of twelve redrawn, the updated datalist, a second audit."""
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, seed=0, images_per_site=12, test_images=1)
    data, redrawn = tmp_path / "data" / "site-1", tmp_path / "redrawn"
    redrawn.mkdir()
    for index, case in enumerate(read_datalist(data / "datalist.json").section("training")):
        assert isinstance(case.label, Path)
        assert isinstance(case.clean_label, Path)
        if index < 5:
            shutil.copyfile(case.clean_label, redrawn / case.label.name)
        _draw_larger(case.clean_label, case.label, 5.0)
    settings = {key: value for key, value in SMALL.items() if not key.startswith("embedded")} | {
        "rounds": 2,
        "folds": 1,
    }
    changes = [text for key, value in settings.items() for text in ("--set", f"{key}={json.dumps(value)}")]

    def command(*arguments: object) -> str:
        result = CliRunner().invoke(audit_app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    audit = ("--data", data, "--jobs", JOBS, *changes, "--out")
    command(*audit, tmp_path / "first")
    options = ("--edited", redrawn, "--update-datalist", "--out", data / "reviewed")
    assert "5 new annotations" in command("apply", tmp_path / "first", *options)
    command(*audit, tmp_path / "second")
    (before,) = findings(tmp_path / "first").values()
    (after,) = findings(tmp_path / "second").values()
    offsets = [item for found in (before, after) for item in found["conclusions"] if item["parameter"] == "offset 1"]
    assert [item["status"] for item in offsets] == ["unknown", "confirmed"]
    assert offsets[1]["effect"] == pytest.approx(5.0, abs=0.3)
    assert after["num_cases"] == before["num_cases"] == 12


def _draw_larger(source: Path, target: Path, distance: float) -> None:
    import numpy as np
    from PIL import Image

    with Image.open(source) as image:
        mask = (np.asarray(image) > 0).astype(np.uint8)
    Image.fromarray((np.asarray(MoveContour(distance)(mask)) * 255).astype(np.uint8)).save(target)
