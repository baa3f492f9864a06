"""Whole runs of FedIA: both ways of running, killed and resumed, and sites that are odd or drop out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from conftest import JOBS, SMALL_FEDIA
from plain_records import collect_output, compare, read_summary, simulate
from support.whole_runs import assert_same_model
from test_simulator import run_simulator

from fedannot.apps.reports.annotation_findings import correction_scores
from fedannot.apps.reports.corrections import find_corrections
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.job import Job
from fedannot.custom.corrections.case_states import revert
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import SiteData
from fedannot.custom.methods.fedavg import site as fedavg_site
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.training.batches import training_batches

# A model that has hardly learnt anything corrects all the same: every IoU is below its line, and half a probability is
# enough.
EAGER = {"correction_margin": -1.0, "correction_threshold": 0.5}


@pytest.fixture
def eager_job(small_job: Callable[..., Path]) -> Callable[..., Path]:
    """Return a function that makes a small job in which sites correct before the round after the first estimate."""
    return lambda **changes: small_job("fedia", **(EAGER | changes))


def added_voxels(out: Path) -> dict[str, list[int]]:
    return {
        found.corrections.site: [0 if case.mask is None else case.mask.added_voxels for case in found.corrections.cases]
        for found in find_corrections(out)
    }


@pytest.mark.simulator
def test_simulator_and_in_process_give_the_same_bits(eager_job: Callable[..., Path], tmp_path: Path) -> None:
    """Two sites, three rounds, each site making its own volumes under NVFlare and correcting before the last round."""
    job = eager_job(rounds=3)
    meta = '{"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}'
    (job / "meta.json").write_text(meta)
    in_process = simulate(job, tmp_path / "in-process")
    simulated = collect_output(run_simulator(job, tmp_path / "workspace", data=None, threads=2), tmp_path / "simulated")
    assert simulated["completeness"] == in_process["completeness"]
    assert set(simulated["corrected_before_round"].values()) == {3}
    assert not simulated["refusals"]
    assert added_voxels(tmp_path / "workspace") == added_voxels(tmp_path / "in-process")
    assert_same_model(tmp_path / "in-process", tmp_path / "simulated")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rounds without a break, the state after the first kept; the job lies beside the output."""
    folder = tmp_path_factory.mktemp("fedia")
    job = Job.open(JOBS / "fedia").copy_with(SMALL_FEDIA | EAGER | {"rounds": 4, "keep_rounds": [1]}, folder / "job")
    summary = simulate(job.folder, folder / "whole")
    assert summary["corrected_before_round"] == {"site-1": 3, "site-2": 3}
    assert any(sum(voxels) for voxels in added_voxels(folder / "whole").values())
    return folder


def test_a_resumed_run_keeps_its_corrections_and_its_bits(whole: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    simulate(whole / "job", parts, overrides={"rounds": 3})
    made = {found.corrections.site: found.corrections.provenance.made for found in find_corrections(parts)}
    resumed = simulate(whole / "job", parts, data=parts / "data", resume=True)
    expected = read_summary(whole / "whole")
    for key in ("completeness", "corrected_before_round"):
        assert resumed[key] == expected[key]
    assert [record["stage"] for record in resumed["rounds"]] == [record["stage"] for record in expected["rounds"]]
    assert_same_model(whole / "whole", parts)
    # They were taken over, not made again; the earlier run's workspaces are gone, with all that had to be kept of them.
    assert {found.corrections.site: found.corrections.provenance.made for found in find_corrections(parts)} == made
    assert not (parts / "resumed").exists()


def test_a_run_resumed_before_the_corrections_makes_them_again(whole: Path, tmp_path: Path) -> None:
    """From the state after the first round, while the sites' folders are those after the last."""
    again = shutil.copytree(whole / "whole", tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name("fedannot_state_round_1.pt"), state)
    simulate(whole / "job", again, data=again / "data", resume=True)
    assert_same_model(whole / "whole", again)


def test_a_run_that_branches_from_federated_averaging_gives_the_bits_of_a_whole_run(
    eager_job: Callable[..., Path], small_job: Callable[..., Path], tmp_path: Path
) -> None:
    fedia = eager_job(rounds=3)
    settings = {
        "rounds": 3,
        "training.loss": "batch_dice",
        "training.learning_rate": 0.005,
        "training.batch_size": 18,
        "network.upsample": "nontrainable",
    }
    data = tmp_path / "data"
    write_phantom_federation(data, LesionVolumes((0.3, 0.8)), num_sites=2, images_per_site=3, test_images=2)
    arms = [Arm("fedavg", small_job("fedavg")), Arm("branch", fedia, shared_rounds=1)]
    compared = compare(arms, tmp_path / "out", data=str(data), seeds=[3], overrides=settings)
    simulate(fedia, tmp_path / "whole", data=data, overrides=settings | {"seed": 3})
    runs = [tmp_path / "out" / "runs" / "branch-seed3", tmp_path / "whole"]
    branch, whole = (RunState.load(run / "run" / "server" / "simulate_job" / STATE_FILE) for run in runs)
    # As texts: what a site does not say of its images is NaN.
    assert repr(branch.method_state) == repr(whole.method_state)
    assert all(torch.equal(branch.params[name], whole.params[name]) for name in whole.params)
    result = {run["arm"]: run for run in compared["runs"]}
    assert (result["fedavg"]["completeness"], result["fedavg"]["corrections"]) == (None, None)
    corrections = result["branch"]["corrections"]
    expected = correction_scores(runs[1], data, list(corrections))
    assert corrections == {site: scores.plain() for site, scores in expected.items()}
    for site in corrections.values():
        assert site["removed"] == 0
        assert site["right"] <= min(site["added"], site["missing"])


def test_a_site_whose_data_manager_reverts_trains_on_the_given_annotations_from_then_on(
    eager_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All correct before round 3; site-1's corrections are reverted after its third training, in the living process."""
    job, out = eager_job(rounds=4), tmp_path / "out"
    annotated: dict[str, list[int]] = {}

    def batches_of(data: SiteData, *args: Any, **targets: Any) -> Any:
        trained = annotated.setdefault(data.site, [])
        trained.append(int(data.labels.sum()))
        if data.site == "site-1" and len(trained) == 3:
            (found,) = (found for found in find_corrections(out) if found.corrections.site == "site-1")
            revert(found.folder)
        return training_batches(data, *args, **targets)

    monkeypatch.setattr(fedavg_site, "training_batches", batches_of)
    summary = simulate(job, out)
    before, after, corrected, last = annotated["site-1"]
    assert before == after == last < corrected
    assert all(site[2] == site[3] for name, site in annotated.items() if name != "site-1")
    # It has corrected, so it is not asked again.
    assert summary["corrected_before_round"]["site-1"] == 3


def odd_federation(folder: Path) -> Path:
    """A site without any lesion, one with one volume, one with everything annotated, and one as typical."""
    write_phantom_federation(folder, LesionVolumes((0.5, 0.5, 1.0, 0.5)), images_per_site=4, test_images=2)
    for file in (folder / "site-1" / "labels").iterdir():
        given = nibabel.load(file)
        nibabel.save(nibabel.Nifti1Image(np.zeros(given.shape, dtype=np.uint8), given.affine), file)
    datalist = folder / "site-2" / "datalist.json"
    content = json.loads(datalist.read_text(encoding="utf-8"))
    content["training"] = content["training"][:1]
    datalist.write_text(json.dumps(content))
    return folder


def test_odd_sites_do_not_stop_a_run(
    eager_job: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        summary = simulate(eager_job(rounds=4), tmp_path / "out", data=odd_federation(tmp_path / "data"))
    assert summary["rounds_finished"] == 4
    assert not summary["refusals"]
    # The site with one volume sends no mean of its own, so it has no estimate and is not asked.
    assert set(summary["completeness"]) == {"site-1", "site-3", "site-4"}
    assert summary["completeness"]["site-1"]["num_annotated_lesions"] == 0
    assert set(summary["corrected_before_round"]) == {"site-3", "site-4"}
    text = (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    assert "site-2 has no estimate of its completeness and is weighed by its number of samples" in text
    for site in ("site-1", "site-2"):
        assert f"{site} reported no Dice loss in the warm-up and is not asked for corrections" in text


def test_a_model_that_finds_nothing_is_said_to(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """Trained with a learning rate of nearly nothing from weights that predict nothing."""
    job = small_job("fedia", rounds=3, training__learning_rate=1e-12, seed=2)
    summary = simulate(job, tmp_path / "out")
    estimates = summary["completeness"].values()
    assert summary["rounds_finished"] == 3
    for estimate in estimates:
        assert estimate["is_estimable"] == (estimate["num_predicted_lesions"] > 0)
    if not any(estimate["is_estimable"] for estimate in estimates):
        assert "not estimable" in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")


def test_a_site_that_drops_out_between_the_stages_is_refused_and_then_not_waited_for(
    faulty_job: Callable[..., Path], tmp_path: Path
) -> None:
    job = faulty_job({"site-2": "raises after round 1"}, name="fedia", rounds=8, **EAGER)
    summary = simulate(job, tmp_path / "out")
    assert summary["rounds_finished"] == 8
    assert {refusal["site"] for refusal in summary["refusals"]} == {"site-2"}
    assert "site-2" not in summary["corrected_before_round"]
    stages = [record["stage"] for record in summary["rounds"]]
    # Last there in round 1, so from round 7 on it was absent for five rounds.
    assert stages == ["warm-up"] + ["completeness-aware"] * 5 + ["corrected"] * 2


OWN = {"weighting": "established", "estimator": "sure", "trigger": "estimate", "additions": "lesions"}


def test_the_own_form_is_federated_averaging_where_nothing_is_confirmed(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """A network that has learnt nothing proves nothing, whatever sites left out."""
    data = tmp_path / "data"
    write_phantom_federation(data, LesionVolumes((0.3, 0.8)), num_sites=2, seed=1, images_per_site=3, test_images=2)
    own = simulate(small_job("fedia", rounds=2, **OWN | {"least_recall": 1.0}), tmp_path / "own", data=data)
    same = {"training__loss": "batch_dice", "training__learning_rate": 0.005, "training__batch_size": 18}
    simulate(small_job("fedavg", rounds=2, network__upsample="nontrainable", **same), tmp_path / "average", data=data)
    if any(site.get("is_confirmed") for site in own["completeness"].values()):
        pytest.fail("the data of this test are such that something is confirmed; choose others")
    assert [record["stage"] for record in own["rounds"]] == ["warm-up", "federated averaging"]
    assert own["corrected_before_round"] == {}
    assert_same_model(tmp_path / "own", tmp_path / "average")
