"""Whole runs of FedGSCA: both ways of running, resumed, and sites that are odd."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_tables.fedgsca import PUBLISHED
from conftest import JOBS
from plain_records import collect_output, read_summary, simulate
from support.whole_runs import assert_same_model
from test_simulator import run_simulator
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.corrections import find_doubts
from fedannot.apps.reports.label_findings import selection_scores
from fedannot.apps.reports.pictures import draw_run
from fedannot.apps.runs.job import Job
from fedannot.custom.corrections.kinds import CasesRelabelled
from fedannot.custom.data.datalist import TRAINING, VALIDATION, Case, read_datalist, write_datalist
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedgsca.records import SELECTION_FILE
from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector
from fedannot.custom.run.state import STATE_FILE, RunState, kept_state_file

SMALL = {
    "rounds": 4,
    "warmup_rounds": 1,
    "network.widths": [4, 4, 8, 8],
    "training.local_epochs": 1,
    "training.batch_size": 8,
    "embedded.sites": 2,
    "embedded.images_per_site": 24,
    "embedded.test_images": 16,
    "embedded.label_noise": "0-S50",
}


@pytest.fixture
def gsca_job(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a small job."""

    def make(**changes: Any) -> Path:
        overrides = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
        number = len(list(tmp_path.glob("job-*")))
        return Job.open(JOBS / "fedgsca").copy_with(overrides, tmp_path / f"job-{number}").folder

    return make


def selections(out: Path, site: str) -> list[dict[str, Any]]:
    """What the site noted of each round; of a round that was done twice, the last."""
    (file,) = (out / "run" / site).rglob(SELECTION_FILE)
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return list({record["round"]: record for record in records}.values())


@pytest.mark.simulator
def test_simulator_and_in_process_give_the_same_bits(gsca_job: Callable[..., Path], tmp_path: Path) -> None:
    """The published form: the sites' processes make their own cells, and the selector goes there and back."""
    job = gsca_job(rounds=3, warmup_rounds=0, **PUBLISHED)
    (job / "meta.json").write_text(
        '{"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}'
    )
    in_process = simulate(job, tmp_path / "in-process")
    simulated = collect_output(run_simulator(job, tmp_path / "workspace", data=None, threads=2), tmp_path / "simulated")
    assert simulated["selector"] == in_process["selector"] is not None
    assert [record["f1"] for record in simulated["rounds"]] == [record["f1"] for record in in_process["rounds"]]
    assert [record["stability"] for record in simulated["rounds"]] == [
        record["stability"] for record in in_process["rounds"]
    ]
    assert not simulated["refusals"]
    assert_same_model(tmp_path / "in-process", tmp_path / "simulated")


@pytest.mark.parametrize("selector", ["global", "own"])
def test_a_run_resumed_after_a_round_gives_the_same_bits(
    gsca_job: Callable[..., Path], tmp_path: Path, selector: str
) -> None:
    """From the state after the second round, while the sites' folders are those after the last."""
    whole = tmp_path / "whole"
    simulate(gsca_job(selector=selector, keep_rounds=[2], embedded__images_per_site=40), whole)
    again = shutil.copytree(whole, tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name(kept_state_file(2)), state)
    resumed = simulate(whole / "job", again, data=again / "data", resume=True)
    assert_same_model(whole, again)
    assert resumed["selector"] == read_summary(whole)["selector"]
    # A site's own selector stays with it; its noise level does not.
    assert (resumed["selector"] is None) == (selector == "own")
    assert all(0 <= report["noise_level"] <= 1 for report in resumed["sites"].values())
    assert selection_scores(again, ["site-1", "site-2"]).keys() == {"site-1", "site-2"}
    assert all(record["num_wrong"] == 0 for record in selections(whole, "site-1"))


@pytest.mark.parametrize("losses", ["trained", "received"])
def test_the_selector_is_fitted_to_losses_of_the_trained_or_of_the_received_model(
    gsca_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: str
) -> None:
    """One round from nothing: the mean of the sites' fits to what the asked model said, from the two halves."""
    said: list[np.ndarray[Any, Any]] = []
    original = Inference.class_probabilities

    def record(self: Inference, network: Any, cases: Any) -> torch.Tensor:
        probabilities = original(self, network, cases)
        if len(cases) == 24:
            said.append(1 - probabilities.numpy()[np.arange(24), [int(case.label) for case in cases]])
        return probabilities

    monkeypatch.setattr(Inference, "class_probabilities", record)
    job = gsca_job(rounds=1, warmup_rounds=0, sample_loss="mae", selector_losses=losses)
    summary = simulate(job, tmp_path / "out")
    assert len(said) == (4 if losses == "trained" else 2)
    predicted = said[1::2] if losses == "trained" else said
    fits = [SampleSelector.start(values).fitted(values) for values in predicted]
    assert all(fit is not None for fit in fits)
    means = np.mean([fit.means for fit in fits if fit is not None], axis=0)
    np.testing.assert_allclose(summary["selector"]["means"], means)


def odd_federation(folder: Path) -> Path:
    """A site with one class, one with three samples, one whose labels are all wrong, and one as typical."""
    write_phantom_federation(folder, Cells("0-0-P100-S30"), num_sites=4, images_per_site=24, test_images=16)
    for site, keep in (
        ("site-1", lambda cases: [Case(case.image, 0, 0) for case in cases]),
        ("site-2", lambda cases: cases[:3]),
    ):
        file = folder / site / "datalist.json"
        write_datalist(file, {TRAINING: keep(read_datalist(file).section(TRAINING))})
    return folder


def test_odd_sites_do_not_stop_a_run(gsca_job: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    data = odd_federation(tmp_path / "data")
    summary = simulate(gsca_job(warmup_rounds=0, smallest_noise_level=0.0), out, data=data)
    assert summary["rounds_finished"] == 4
    assert not summary["refusals"]
    assert {site: report["num_samples"] for site, report in summary["sites"].items()} == {
        "site-1": 24,
        "site-2": 3,
        "site-3": 24,
        "site-4": 24,
    }
    assert selections(out, "site-3")[-1]["num_wrong"] == 24
    assert all(np.isfinite(record["f1"]) for record in summary["rounds"])
    # The first round has no selector: all labels count as right.
    assert selections(out, "site-4")[0]["num_suspects"] == 0


def test_sites_score_on_their_own_cases_where_the_server_has_none(
    gsca_job: Callable[..., Path], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    write_phantom_federation(data, Cells(), num_sites=2, images_per_site=40, test_images=8)
    shutil.rmtree(data / "test")
    for site in ("site-1", "site-2"):
        file = data / site / "datalist.json"
        cases = read_datalist(file).section(TRAINING)
        write_datalist(file, {TRAINING: cases[:24], VALIDATION: cases[24:]})
    summary = simulate(gsca_job(rounds=2, validate_every=1), tmp_path / "out", data=data)
    record = summary["rounds"][-1]
    assert 0 <= record["f1"] <= 1
    # Classes of which a site has fewer than three validation cases are not scored.
    expected = 0
    for site in ("site-1", "site-2"):
        labels = [case.label for case in read_datalist(data / site / "datalist.json").section(VALIDATION)]
        expected += sum(labels.count(label) for label in set(labels) if labels.count(label) >= 3)
    state = RunState.load(tmp_path / "out" / "run" / "server" / "simulate_job" / STATE_FILE)
    assert state.history[-1].num_cases == expected > 0


def test_the_data_manager_sees_which_labels_do_not_look_right(gsca_job: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    simulate(gsca_job(warmup_rounds=0), out)
    files = {file.name for file in draw_run(out, out / "data")}
    assert files == {"f1.png", "weights_by_round.png", "confusion.png", "cases.png"}
    (record,) = find_doubts(out, "site-2")
    last, relabelled = selections(out, "site-2")[-1], record.of(CasesRelabelled)
    assert relabelled is not None
    assert relabelled.threshold is not None
    assert (len(record.cases), relabelled.noise_level) == (last["num_suspects"], last["noise_level"])
    doubted = {case.image: case.new_class for case in record.cases if case.new_class is not None}
    probabilities = [item.clean_probability or 0.0 for item in doubted.values()]
    assert probabilities == sorted(probabilities)
    assert all(probability < relabelled.threshold for probability in probabilities)
    given = {
        f"images/{case.image.name}": case.label
        for case in read_datalist(out / "data" / "site-2" / "datalist.json").section(TRAINING)
    }
    names = [f"{shape}_{grade}" for shape in ("round", "oval", "lobed", "ring") for grade in ("smooth", "granular")]
    assert all(names[given[image]] == one.given for image, one in doubted.items())
    run = CliRunner().invoke(app, ["suspects", str(out), "--site", "site-2", "--pictures", str(tmp_path / "pictures")])
    assert run.exit_code == 0, run.output
    assert f"{len(record.cases)} labels" in run.output
    listed = [image for image, one in doubted.items() if one.predicted != one.given]
    assert 0 < len(listed) <= len(doubted)
    assert f"{len(listed)} look like another class" in " ".join(run.output.split())
    assert len(listed) > 24 or all(image in run.output for image in listed)
    assert (tmp_path / "pictures" / "site-2.png").exists()
    for arguments, message in (
        ([str(out), "--site", "x"], "found none of site 'x'"),
        ([str(tmp_path / "job-0")], "this run looked for no suspect label"),
    ):
        failed = CliRunner().invoke(app, ["suspects", *arguments])
        assert failed.exit_code == 1
        assert message in failed.output
