"""Whole runs of methods with personal parts: both ways of running, what leaves a site, resumed runs, scores."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from nvflare.apis.dxo import DataKind, from_shareable
from plain_records import simulate
from support.whole_runs import model_of
from test_simulator import start_simulator
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.centre_scores import centre_scores
from fedannot.apps.reports.comparison import describe_run
from fedannot.apps.reports.local_models import local_model
from fedannot.apps.reports.output import read_summary
from fedannot.apps.reports.pictures import draw_run
from fedannot.apps.runs.in_process import run_in_process
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.participants import SiteParticipant
from fedannot.custom.data.json_record import read_record
from fedannot.custom.data.personal_files import LOCAL_MODEL_FILE, LOCAL_SCORES_FILE
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.local_scores import LocalScores
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.flare.messages import METHOD_TASK, TASK
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.lookup import find_method, read_job_settings
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.state import STATE_FILE

SMALL_PERSONAL = {
    "rounds": 3,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.batch_size": 18,
    "training.local_epochs": 1,
    "embedded.sites": 2,
    "embedded.protocols": "0-C(20,8)",
    "embedded.images_per_site": 1,
    "embedded.test_images": 1,
}
SMALL_DECOUPLED = {"warmup_rounds": 1, "network.latent": 3, "network.encoder_features": [4, 8]}


@pytest.fixture(scope="module")
def small_personal_job(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that copies a job with small settings."""

    def make(name: str = "decoupled_server", **changes: Any) -> Path:
        overrides = SMALL_PERSONAL | (SMALL_DECOUPLED if name.startswith("decoupled") else {})
        overrides |= {key.replace("__", "."): value for key, value in changes.items()}
        return Job.open(JOBS / name).copy_with(overrides, tmp_path_factory.mktemp("jobs") / name).folder

    return make


def local_models(workspaces: Path) -> dict[str, dict[str, Any]]:
    files = sorted(workspaces.glob(f"site-*/private/simulate_job/personal/{LOCAL_MODEL_FILE}"))
    return {file.parents[3].name: torch.load(file, weights_only=True) for file in files}


def assert_same_tensors(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert set(one) == set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


def assert_same_local_models(one: Path, other: Path) -> None:
    models, others = local_models(one), local_models(other)
    assert set(models) == set(others) != set()
    for site, content in models.items():
        for part in ("shared", "personal"):
            assert_same_tensors(content[part], others[site][part])


@pytest.mark.simulator
def test_a_swarm_ends_with_the_weights_of_aggregation_at_a_server(
    small_personal_job: Callable[..., Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under NVFlare, in a process for each site. Every site ends with the same global model, and with its own layers;
    the server has seen no model. A run that was killed goes on to the same end.
    """
    job = small_personal_job("decoupled")
    meta = '{"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}'
    (job / "meta.json").write_text(meta)
    start_simulator(job, tmp_path / "workspace", threads=2)
    assert_same_local_models(whole / "whole" / "run", tmp_path / "workspace")
    assert not list((tmp_path / "workspace" / "server").rglob("*.pt"))
    log = (tmp_path / "simulator.log").read_text(encoding="utf-8")
    assert log.count("averaged ['site-1', 'site-2'], 2.0 effective sites") == 3
    shown = show(tmp_path / "workspace", "--out", tmp_path / "shown")
    assert "no server has a summary, hence from the files of: site-1, site-2" in shown
    assert "effective sites of 2: 2.0 (swarm, rounds 1 to 3)" in shown
    assert_same_tensors(model_of(tmp_path / "shown"), model_of(whole / "whole"))
    # The sites made their data themselves, so that there are cases to show.
    pictures = {file.name for file in (tmp_path / "shown" / "pictures").iterdir()}
    assert pictures == {
        *("own_cases.png", "cases.png", "weights_by_round.png"),
        *("site-1-own-model.png", "site-2-own-model.png"),
    }
    # As if all had been killed in the last round.
    for site in ("site-1", "site-2"):
        for file in ("round_3.pt", LOCAL_MODEL_FILE):
            (tmp_path / "workspace" / site / "private" / "simulate_job" / "personal" / file).unlink()
    monkeypatch.setenv(
        "FEDANNOT_RESUME", str(tmp_path / "workspace" / "site-1" / "private" / "simulate_job" / STATE_FILE)
    )
    start_simulator(job, tmp_path / "again", threads=2)
    assert_same_local_models(whole / "whole" / "run", tmp_path / "again")
    log = (tmp_path / "simulator.log").read_text(encoding="utf-8")
    assert log.count("averaged ['site-1', 'site-2'], 2.0 effective sites") == 1


def test_a_swarm_in_one_process_is_refused_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"each needs a process of its own: nvflare simulator .*decoupled -n 4 -t 4"):
        simulate(JOBS / "decoupled", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def whole(small_personal_job: Callable[..., Path]) -> Path:
    """Three rounds of decoupled predictions without a break, the state after the second kept."""
    job = small_personal_job(keep_rounds=[2])
    summary = simulate(job, job.parent / "whole")
    assert [record["stage"] for record in summary["rounds"]] == ["warm-up", *["decoupled predictions"] * 2]
    return job.parent


def test_every_site_keeps_the_final_shared_model_with_its_own_layers(whole: Path) -> None:
    stored = local_models(whole / "whole" / "run")
    assert list(stored) == ["site-1", "site-2"]
    for content in stored.values():
        assert_same_tensors(content["shared"], model_of(whole / "whole"))
    one, other = (content["personal"]["layers.0.weight"] for content in stored.values())
    assert not torch.equal(one, other)


def test_every_site_gets_a_picture_of_its_own_model(whole: Path) -> None:
    files = {file.name for file in draw_run(whole / "whole", whole / "whole" / "data")}
    assert files == {
        "dice.png",
        "weights_by_round.png",
        "cases.png",
        "site-1-own-model.png",
        "site-2-own-model.png",
    }


@pytest.fixture
def sites_alone(whole: Path, tmp_path: Path) -> Path:
    """What the sites have of the run, and nothing of the server."""
    for site in ("site-1", "site-2"):
        shutil.copytree(whole / "whole" / "run" / site, tmp_path / "sites" / site)
    return tmp_path / "sites"


def show(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["show", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_what_sites_stored_is_shown_where_no_server_has_a_summary(
    whole: Path, sites_alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "shown"
    text = show(sites_alone, "--data", whole / "whole" / "data", "--out", out)
    assert "decoupled, seed 0, 3 of 3 rounds; no server has a summary, hence from the files of: site-1, site-2" in text
    assert_same_tensors(model_of(out), model_of(whole / "whole"))
    summary = read_summary(out)
    assert summary.own_cases is not None
    for site in ("site-1", "site-2"):
        stored = read_record(
            sites_alone / site / "private" / "simulate_job" / "personal" / LOCAL_SCORES_FILE, LocalScores
        )
        assert stored is not None
        assert summary.own_cases[site].model_dump(mode="json") == {"round": 3} | stored.model_dump(mode="json")
        dice = stored.models["local"].dice
        assert f"{site} 6 3" in text
        assert f"{100 * dice:.1f}" in text
    # Sites know of no weights: rounds are the server's.
    pictures = {file.name for file in (out / "pictures").iterdir()}
    assert pictures == {"own_cases.png", "cases.png", "site-1-own-model.png", "site-2-own-model.png"}


def test_a_sites_own_workspace_is_shown_with_a_site_that_lags_named(sites_alone: Path, tmp_path: Path) -> None:
    alone = show(sites_alone / "site-2", "--out", tmp_path / "one")
    assert "from the files of: site-2" in alone
    assert {file.name for file in (tmp_path / "one" / "pictures").iterdir()} == {"own_cases.png"}
    file = sites_alone / "site-1" / "private" / "simulate_job" / "personal" / LOCAL_MODEL_FILE
    content = torch.load(file, weights_only=True)
    torch.save(content | {"round": 2, "shared": {k: v * 0 for k, v in content["shared"].items()}}, file)
    text = show(sites_alone, "--out", tmp_path / "both")
    assert "site-1: has the model after round 2, not the last one." in text
    assert_same_tensors(model_of(tmp_path / "both"), model_of(tmp_path / "one"))


def test_two_runs_or_none_in_a_workspace_are_an_error_that_says_so(sites_alone: Path, tmp_path: Path) -> None:
    assert "found neither a server's summary.json nor a model" in show(tmp_path / "absent", code=1)
    for parent in (sites_alone / "site-1", sites_alone / "site-1" / "private"):
        shutil.copytree(parent / "simulate_job", parent / "another_job")
    text = show(sites_alone / "site-1", "--out", tmp_path / "out", code=1)
    assert "found 2 runs; give the folder of one of them" in text
    assert not (tmp_path / "out").exists()
    for folder in ("another_job", "private/another_job"):
        assert "from the files of: site-1" in show(sites_alone / "site-1" / folder, "--out", tmp_path / "out")


def test_a_round_that_is_done_once_more_begins_with_the_layers_before_it(whole: Path, tmp_path: Path) -> None:
    """The server was killed after the sites had trained the third round and before it was finished."""
    again = shutil.copytree(whole / "whole", tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name("fedannot_state_round_2.pt"), state)
    simulate(whole / "decoupled_server", again, data=again / "data", resume=True)
    assert_same_tensors(model_of(whole / "whole"), model_of(again))
    assert_same_local_models(whole / "whole" / "run", again / "run")


def test_nothing_personal_leaves_a_site(
    small_personal_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every reply of every site is looked at as it goes out: registered fields alone, and no tensor of the personal
    part as it lies in the site's files after that round.
    """
    sent: list[tuple[str, str, Any]] = []
    personal: list[torch.Tensor] = []
    do_task = SiteParticipant.do_task

    def listen(site: SiteParticipant, task: Any, *given: Any) -> Any:
        reply = do_task(site, task, *given)
        own_name = from_shareable(task.data).meta[TASK] if task.name == METHOD_TASK else task.name
        sent.append((site.name, own_name, from_shareable(reply)))
        for file in Path(site.workspace.get_root_dir()).glob("private/simulate_job/personal/round_*.pt"):
            personal.extend(torch.load(file, weights_only=True).values())
        return reply

    monkeypatch.setattr(SiteParticipant, "do_task", listen)
    simulate(small_personal_job(rounds=2), tmp_path / "out")
    tasks = {task for _, task, _ in sent}
    assert {"train", "keep_model"} <= tasks
    own = [tensor for tensor in personal if tensor.numel() > 1]
    assert own
    registry = OutboundRegistry(find_method("segmentation", "decoupled").outbound_fields)
    for _, task, dxo in sent:
        registered = set(registry.of_task(task))
        assert set(dxo.meta) - {"params_type"} <= registered
        if dxo.data_kind == DataKind.METRICS:
            assert set(dxo.data) <= registered
            continue
        for tensor in dxo.data.values():
            assert not any(tensor.shape == kept.shape and torch.equal(tensor, kept) and tensor.any() for kept in own)


def test_steps_name_a_methods_own_tasks(small_personal_job: Callable[..., Path], tmp_path: Path) -> None:
    """Not as NVFlare does, for which all of them have one name."""
    steps: list[str] = []
    job = Job.open(small_personal_job("single_site", rounds=1))
    run_in_process(job, ["site-1", "site-2"], tmp_path / "run", lambda step: steps.append(step.task))
    assert [task for task, _ in itertools.groupby(steps)] == ["train", "validate", "keep_model"]


def test_scores_on_generic_and_on_own_cases_are_those_of_the_models_that_count(whole: Path) -> None:
    """As a comparison keeps them: the global model's on the test set, the sites' own models' on their cases."""
    run = whole / "whole"
    summary = read_summary(run)
    described = describe_run("decoupled", 0, run, summary, run / "data", scores_centres=True)
    assert described.centres is not None
    assert described.centres == centre_scores(run, summary, run / "data")
    assert described.centres.generic == summary.last_round.main_score
    assert describe_run("decoupled", 0, run, summary, run / "data").centres is None
    settings = read_job_settings(summary.settings)
    assert isinstance(settings, FedAvgSettings)
    for site, dice in described.centres.own.items():
        scores = read_record(
            run / "run" / site / "private" / "simulate_job" / "personal" / LOCAL_SCORES_FILE, LocalScores
        )
        assert scores is not None
        assert (scores.num_cases, scores.models["local"].dice) == (6, dice)
        cases = load_site_data(run / "data" / site, whole / "cache", section="validation", site=site).cases
        own = local_model(run, site, settings)
        assert own is not None
        assert evaluate(own, cases, 1, Inference.of(settings)).mean_dice == dice


def test_without_a_test_set_nothing_is_generic_and_a_site_without_its_model_is_left_out(
    whole: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(whole / "whole", tmp_path / "whole")
    summary = read_summary(run)
    before = centre_scores(run, summary, run / "data")
    shutil.rmtree(run / "data" / "test")
    shutil.rmtree(run / "run" / "site-1" / "private" / "simulate_job" / "personal")
    result = centre_scores(run, summary, run / "data")
    assert before is not None
    assert result.plain() == {"generic": None, "own": {"site-2": before.own["site-2"]}}


def test_a_method_without_a_global_model_is_scored_at_the_sites(
    small_personal_job: Callable[..., Path], tmp_path: Path
) -> None:
    summary = simulate(small_personal_job("single_site", rounds=2, validate_every=1), tmp_path / "out")
    scored = [record["dice"] for record in summary["rounds"]]
    assert all(value is not None for value in scored)
    own = centre_scores(tmp_path / "out", read_summary(tmp_path / "out"), tmp_path / "out" / "data")
    assert own is not None
    assert own.generic is not None, "the mean over the sites' models"
    # Six cases at every site, so that the pooled Dice is the plain mean.
    assert summary["last_round"]["dice"] == pytest.approx(sum(own.own.values()) / 2)


def test_federated_averaging_has_its_global_model_scored_everywhere(
    small_personal_job: Callable[..., Path], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    write_phantom_federation(data, Chambers(), num_sites=2, images_per_site=1, test_images=1)
    job = Job.open(JOBS / "fedavg").copy_with(
        {"rounds": 1, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1}, tmp_path / "job"
    )
    summary = simulate(job.folder, tmp_path / "out", data=data)
    result = centre_scores(tmp_path / "out", read_summary(tmp_path / "out"), data)
    settings = read_job_settings(summary["settings"])
    assert isinstance(settings, FedAvgSettings)
    network = described_network(settings.network)
    network.load_state_dict(model_of(tmp_path / "out"))
    cases = load_site_data(data / "site-2", tmp_path / "cache", section="validation", site="site-2").cases
    expected = evaluate(network, cases, 1, Inference.of(settings)).mean_dice
    assert result is not None
    assert result.own["site-2"] == expected
    assert result.generic == summary["last_round"]["dice"]
