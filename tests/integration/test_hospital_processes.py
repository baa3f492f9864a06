"""A provisioned federation over TLS: a server and three hospitals on this machine, no code in jobs, and their faults.

Deselected unless asked for, since it takes some minutes: `make test-processes`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from conftest import JOBS
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from hospitals import (
    BOUNDS,
    END_TIMEOUT,
    LOWER_LIMITS,
    NEWCOMER,
    ROUNDS,
    SETTINGS,
    SITES,
    Hospitals,
    assert_same,
    provision,
    simulated_model,
    started_hospitals,
)
from PIL import Image
from plain_records import in_words, simulate
from real_processes import wait_for

from fedannot.apps.deployment.deployable_job import read_configuration
from fedannot.apps.deployment.kit import approve_job
from fedannot.custom.outbound.private_updates import spent_epsilon
from fedannot.custom.run.state import STATE_FILE, RunState

pytestmark = pytest.mark.processes

# Others are in within ten seconds of their log's first line.
_TIME_TO_JOIN = 15


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    with started_hospitals(tmp_path_factory, limits=LOWER_LIMITS) as started:
        yield started


@pytest.fixture(scope="module")
def simulated(hospitals: Hospitals, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The model of the same job and data in one process."""
    return simulated_model(hospitals, tmp_path_factory.mktemp("simulated") / "out")


def test_the_check_finds_everybody_ready(hospitals: Hospitals) -> None:
    for participant in ("localhost", "site-1"):
        # Of this test's making: what `deploy prepare` writes is private.
        (hospitals.kits / participant / "local" / "limits.json").chmod(0o600)
        command = [str(Path(sys.executable).parent / "fedannot"), "deploy", "check", str(hospitals.kits / participant)]
        finished = subprocess.run(
            command, env=hospitals.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert finished.returncode == 0, finished.stdout
        assert "Ready to join." in finished.stdout
    assert "answers, TLS" in finished.stdout


def test_the_model_is_the_simulators(hospitals: Hospitals, simulated: dict[str, torch.Tensor]) -> None:
    """Without code in the job, and with the sites' own filters."""
    job_id = hospitals.submit(hospitals.job())
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, model = hospitals.result(job_id)
    assert summary["rounds_finished"] == ROUNDS
    assert summary["refusals"] == []
    assert summary["absent"] == []
    assert set(summary["estimate"]["sites"]) == set(SITES)
    assert_same(model, simulated)


def test_scaffold_with_two_of_three_sites_and_fedadam_has_the_bits_of_one_process(
    hospitals: Hospitals, tmp_path: Path
) -> None:
    """The control variate goes out with the model; what the server's optimizer remembers stays with the server."""
    changes = {"rounds": 3, "fraction": 0.67, "drift_correction": "scaffold", "server_optimizer.name": "fedadam"}
    changes |= {"training.optimizer": "sgd", "training.momentum": 0.0, "model_precision": "bf16"}
    job_id = hospitals.submit(hospitals.job("fedavg", **changes))
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, model = hospitals.result(job_id)
    assert (summary["rounds_finished"], summary["refusals"]) == (3, [])
    assert all(report["num_steps"] > 0 for report in summary["sites"].values())
    of_training = {key: value for key, value in SETTINGS.items() if "." in key}
    simulate(JOBS / "fedavg", tmp_path / "out", data=hospitals.data, overrides=of_training | changes)
    assert_same(model, torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"])
    assert any(bool(value.any()) for name, value in model.items() if name.startswith("control_variates."))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("another authority", "certificate verify failed"),
        # The server refuses it, and the site says nothing: it tries again.
        ("expired", ""),
        ("another server", "re-challenge"),
    ],
)
def test_who_cannot_prove_who_they_are_does_not_get_in(
    hospitals: Hospitals, tmp_path: Path, fault: str, said: str
) -> None:
    """A kit of another federation, an expired one, and one that expects a server of another name."""
    kit = hospitals.kits / NEWCOMER
    own = shutil.copytree(kit / "startup", tmp_path / "own")
    try:
        if fault == "another authority":
            foreign = provision(tmp_path / "foreign", hospitals.environment, hospitals.ports)
            shutil.copytree(foreign / NEWCOMER / "startup", kit / "startup", dirs_exist_ok=True)
        elif fault == "expired":
            expire(kit / "startup" / "client.crt", hospitals.kits.parent / "state" / "cert.json")
        else:
            start_file = kit / "startup" / "fed_client.json"
            start_file.write_text(start_file.read_text(encoding="utf-8").replace('"localhost"', '"elsewhere"'))
        (kit / "log.txt").unlink(missing_ok=True)
        hospitals.start(NEWCOMER)
        log = kit / "log.txt"
        wait_for(lambda: log.is_file() and said in log.read_text(encoding="utf-8").lower(), f"{said!r} in its log")
        time.sleep(_TIME_TO_JOIN)
        assert NEWCOMER not in hospitals.members()
    finally:
        hospitals.kill(NEWCOMER)
        shutil.copytree(own, kit / "startup", dirs_exist_ok=True)


def expire(file: Path, state: Path) -> None:
    """Replace a certificate by one that the same authority signed and that is no longer valid."""
    key = load_pem_private_key(json.loads(state.read_text(encoding="utf-8"))["root_pri_key"].encode(), None)
    old, now = x509.load_pem_x509_certificate(file.read_bytes()), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now - timedelta(days=1))
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


def test_a_newcomer_gets_in_and_takes_part_in_the_next_job(hospitals: Hospitals) -> None:
    """It joins while a job runs, which goes on without it."""
    running = hospitals.submit(hospitals.job("fedavg", rounds=6))
    wait_for(lambda: hospitals.rounds_done(running) >= 1, "the first round")
    hospitals.start(NEWCOMER)
    try:
        hospitals.wait_for_sites(NEWCOMER)
        assert hospitals.wait(running, END_TIMEOUT) == "FINISHED:COMPLETED"
        assert set(hospitals.result(running)[0]["sites"]) == set(SITES)
        job = hospitals.job("fedavg", rounds=2)
        meta = json.loads((job / "meta.json").read_text(encoding="utf-8"))
        meta["deploy_map"]["app"].append(NEWCOMER)
        (job / "meta.json").write_text(json.dumps(meta))
        following = hospitals.submit(job)
        assert hospitals.wait(following, END_TIMEOUT) == "FINISHED:COMPLETED"
        assert set(hospitals.result(following)[0]["sites"]) == {*SITES, NEWCOMER}
    finally:
        hospitals.kill(NEWCOMER)


def faulty_job(hospitals: Hospitals, faults: dict[str, str]) -> Path:
    """A job whose sites spoil their answers in these ways; they know NVFlare's engine, so no process of tasks.

    Everybody approves it, as they would have to.
    """
    job = hospitals.job("fedavg", rounds=2, min_sites=1, task_process=False)
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    executor = content["executors"][0]["executor"]
    executor["path"] = "faulty_executors.FaultyExecutor"
    executor["args"]["faults"] = faults
    config.write_text(json.dumps(content), encoding="utf-8")
    for participant in ("localhost", *SITES):
        approve_job(hospitals.kits / participant, *read_configuration(job))
    return job


@pytest.mark.parametrize(
    "faults",
    [
        {"site-1": ("nan", "has values that are not finite"), "site-2": ("missing keys", "missing entries")},
        {"site-1": ("wrong shape", "shape"), "site-2": ("stale round", "of round")},
        {"site-1": ("not fetchable", "could not be fetched"), "site-2": ("too many samples", "number of samples is")},
    ],
    ids=["values and keys", "shapes and rounds", "fetching and numbers"],
)
def test_results_that_cannot_be_used_are_refused_by_name(
    hospitals: Hospitals, faults: dict[str, tuple[str, str]]
) -> None:
    """Broken executors, which the sites' lists have to allow for this."""
    job_id = hospitals.submit(faulty_job(hospitals, {site: fault for site, (fault, _) in faults.items()}))
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, _ = hospitals.result(job_id)
    assert set(summary["sites"]) == {"site-3"}
    result = {(entry["round"], entry["site"]): in_words(entry["reason"]) for entry in summary["refusals"]}
    assert set(result) == {(number, site) for number in (1, 2) for site in faults}
    assert all(faults[site][1] in reason for (_, site), reason in result.items())


def test_a_result_that_is_sent_twice_counts_once(hospitals: Hospitals) -> None:
    models = []
    for faults in ({}, {"site-1": "duplicate"}):
        job_id = hospitals.submit(faulty_job(hospitals, faults))
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
        summary, model = hospitals.result(job_id)
        assert set(summary["sites"]) == set(SITES)
        models.append(model)
    log = (hospitals.jobs / "results" / job_id / "workspace" / "log.txt").read_text(encoding="utf-8")
    assert "submission dropped" in log
    assert_same(*models)


@pytest.mark.parametrize("fault", ["killed", "hangs"])
def test_a_task_process_that_fails_costs_its_rounds_alone(hospitals: Hospitals, fault: str) -> None:
    """One that hangs is left out after the grace period, and ended when its task's time is over."""
    job_id = hospitals.submit(hospitals.job(rounds=12, grace_period=4, task_timeout=12))
    wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
    victim = hospitals.task_process("site-2", job_id)
    victim.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, _ = hospitals.result(job_id)
    assert summary["rounds_finished"] == 12
    refused = {entry["round"]: in_words(entry["reason"]) for entry in summary["refusals"]}
    assert {entry["site"] for entry in summary["refusals"]} == {"site-2"}
    expected = "the process of its task died" if fault == "killed" else "after enough others had answered"
    assert any(expected in reason for reason in refused.values())
    assert len(refused) <= (2 if fault == "killed" else 8), refused
    log = hospitals.log("site-2", job_id)
    assert ("signal 9" if fault == "killed" else "did not answer within 12 s") in log
    assert not victim.is_running()


# The last round that must be finished, the log's line that is waited for, and whether there is an estimate then.
STAGES = {
    "in the warm-up": (1, "", False),
    "in the estimate": (2, "Sending task method_task", False),
    "after the estimate": (3, "", True),
}


@pytest.mark.parametrize("stage", STAGES)
def test_after_the_server_was_killed_the_run_goes_on_to_the_same_end(
    hospitals: Hospitals, simulated: dict[str, torch.Tensor], stage: str
) -> None:
    finished, line, has_estimate = STAGES[stage]
    job_id = hospitals.submit(hospitals.job())
    wait_for(
        lambda: hospitals.rounds_done(job_id) >= finished and line in hospitals.log("localhost", job_id),
        stage,
        every=0.02,
    )
    hospitals.kill("localhost")
    state = hospitals.kits / "localhost" / job_id / STATE_FILE
    kept = RunState.load(state)
    assert finished <= kept.round_number < ROUNDS
    assert (kept.method_state["method"]["estimate"] is not None) == has_estimate
    hospitals.start("localhost")
    hospitals.wait_for_sites(*SITES)
    again = hospitals.submit(hospitals.job(resume_from=job_id))
    assert hospitals.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    _, model = hospitals.result(again)
    assert_same(model, simulated)


def test_fedia_goes_on_with_its_estimates_and_corrections(hospitals: Hospitals, tmp_path: Path) -> None:
    """Killed when sites are asked for corrections; the sites keep theirs in the folder of the job that ended."""
    settings = {
        "rounds": ROUNDS,
        "warmup_rounds": 2,
        "max_extra_warmup_rounds": 0,
        # The published form, so that every site is asked.
        "weighting": "completeness",
        "estimator": "counts",
        "trigger": "loss",
        "additions": "voxels",
        "correction_margin": -1.0,
        "network.features": SETTINGS["network.features"],
        "training.local_epochs": 1,
    }
    simulate(JOBS / "fedia", tmp_path / "out", data=hospitals.data, overrides=settings | BOUNDS)
    expected = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    job_id = hospitals.submit(hospitals.job("fedia", **settings))
    wait_for(lambda: hospitals.rounds_done(job_id) >= 4, "round 4")
    hospitals.kill("localhost")
    state = hospitals.kits / "localhost" / job_id / STATE_FILE
    kept = RunState.load(state)
    assert kept.method_state["method"]["completeness"] is not None
    assert kept.round_number < ROUNDS
    hospitals.start("localhost")
    hospitals.wait_for_sites(*SITES)
    again = hospitals.submit(hospitals.job("fedia", **settings, resume_from=job_id))
    assert hospitals.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, model = hospitals.result(again)
    assert any(predicted["corrected_before_round"] for predicted in summary["completeness"].values())
    assert_same(model, expected)


def test_a_killed_site_ends_the_job_and_the_next_one_goes_on(
    hospitals: Hospitals, simulated: dict[str, torch.Tensor]
) -> None:
    """NVFlare ends a job when the process dies that keeps a site's connection; the finished rounds are kept."""
    job_id = hospitals.submit(hospitals.job())
    wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
    finished = RunState.load(hospitals.kits / "localhost" / job_id / STATE_FILE).round_number
    hospitals.kill("site-3", job_id)
    died = time.monotonic()
    assert hospitals.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert time.monotonic() - died < 60
    kept = hospitals.download(job_id, hospitals.jobs / "results") / STATE_FILE
    assert RunState.load(kept).round_number >= finished
    again = hospitals.submit(hospitals.job(resume_from=job_id))
    assert hospitals.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert_same(hospitals.result(again)[1], simulated)


def test_memory_stays_flat_over_fifty_rounds(hospitals: Hospitals) -> None:
    """Resident memory of the server's process of the job, of a site's, and of that of its tasks, after the tenth round.

    The slope is printed; the bound is what 1000 rounds may cost on a small machine. FEDANNOT_MEMORY_ROUNDS asks for
    more rounds.
    """
    total = int(os.environ.get("FEDANNOT_MEMORY_ROUNDS", "50"))
    job_id = hospitals.submit(hospitals.job("fedavg", rounds=total))
    measured: dict[str, list[tuple[int, float]]] = {}
    end = time.monotonic() + END_TIMEOUT * total / 50
    while (done := hospitals.rounds_done(job_id)) < total - 1 and time.monotonic() < end:
        if done >= 10:
            for name, process in job_processes(hospitals, job_id).items():
                measured.setdefault(name, []).append((done, process.memory_info().rss / 2**20))
        time.sleep(0.5)
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert set(measured) == {"server", "site", "tasks"}
    for name, points in measured.items():
        rounds, memory = np.array(points).T
        slope, late = (np.polyfit(rounds[half:], memory[half:], 1)[0] for half in (0, len(rounds) // 2))
        print(f"{name}: {memory[0]:.0f} MiB after round {rounds[0]:.0f}, {slope:+.3f} MiB a round, later {late:+.3f}")
        print(f"{name}: between {memory.min():.0f} and {memory.max():.0f} MiB")
        assert rounds[-1] - rounds[0] >= 20
        assert slope < 0.5


def job_processes(hospitals: Hospitals, job_id: str) -> dict[str, psutil.Process]:
    """The processes of a job at the server and at the first site."""
    (server,) = [process for process, words in hospitals.processes("localhost") if job_id in words]
    (site,) = [process for process, words in hospitals.processes("site-1") if job_id in words]
    return {"server": server, "site": site, "tasks": hospitals.task_process("site-1", job_id)}


def test_unreadable_images_are_left_out_and_a_site_without_any_is_refused(hospitals: Hospitals) -> None:
    images = sorted((hospitals.data / "site-2" / "images").iterdir())
    everything = [path.read_bytes() for path in images]
    for path in images[:1]:
        path.write_bytes(b"broken")
    for path in (hospitals.data / "site-3" / "images").iterdir():
        everything.append(path.read_bytes())
        path.write_bytes(b"")
    try:
        job_id = hospitals.submit(hospitals.job("fedavg", rounds=2))
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    finally:
        for path, content in zip([*images, *(hospitals.data / "site-3" / "images").iterdir()], everything, strict=True):
            path.write_bytes(content)
    summary, _ = hospitals.result(job_id)
    assert summary["sites"]["site-2"]["num_excluded"] == 1
    assert {entry["site"] for entry in summary["refusals"]} == {"site-3"}
    assert all(entry["reason"]["code"] == "no_usable_data" for entry in summary["refusals"])
    assert images[0].name in hospitals.log("site-2", job_id)
    assert images[0].name not in json.dumps(summary)
    Image.open(images[0]).verify()


def test_a_site_that_is_gone_is_left_out_and_comes_back(hospitals: Hospitals) -> None:
    """The whole site dies between jobs: the next job runs without it, the one after that with it."""
    hospitals.kill("site-3")
    job_id = hospitals.submit(hospitals.job("fedavg", rounds=2, grace_period=2))
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, _ = hospitals.result(job_id)
    assert set(summary["sites"]) == {"site-1", "site-2"}
    assert summary["absent"] == ["site-3"]
    hospitals.start("site-3")
    hospitals.wait_for_sites(*SITES)
    job_id = hospitals.submit(hospitals.job("fedavg", rounds=2))
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert set(hospitals.result(job_id)[0]["sites"]) == set(SITES)


def test_a_sites_own_policy_makes_what_it_sends_private(hospitals: Hospitals) -> None:
    """The filters that site.yaml has in comments, at one site; the job knows nothing of them."""
    kit = hospitals.kits / "site-2"
    policy = kit / "local" / "privacy.json"
    before = policy.read_text(encoding="utf-8")
    values = json.loads(before)
    filters = "fedannot.custom.flare.privacy_filter"
    values["scopes"][0]["task_result_filters"] += [
        {"path": f"{filters}.PrivacyFilter", "args": {"clip_norm": 0.5, "noise_multiplier": 0.05}},
        {"path": f"{filters}.StatisticsPrivacyFilter", "args": {"noise_multiplier": 2.0}},
    ]
    try:
        policy.write_text(json.dumps(values))
        job_id = hospitals.submit(hospitals.job())
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    finally:
        policy.write_text(before, encoding="utf-8")
    summary, _ = hospitals.result(job_id)
    assert summary["refusals"] == []
    assert set(summary["estimate"]["sites"]) == set(SITES)
    report = summary["sites"]["site-2"]
    assert report["privacy_epsilon"] == pytest.approx(spent_epsilon(ROUNDS / 0.05**2, 1e-5))
    assert report["statistics_epsilon"] == pytest.approx(spent_epsilon(1 / 2.0**2, 1e-5))
    assert report["train_loss"] is None
    assert "privacy_epsilon" not in summary["sites"]["site-1"]
    ledger = json.loads((kit / "fedannot_privacy.json").read_text(encoding="utf-8"))
    assert (ledger["updates"]["results"], ledger["statistics"]["results"]) == (ROUNDS, 1)


@contextmanager
def small_disk(kit: Path, mebibytes: int, kept: Path) -> Iterator[None]:
    """A kit on a file system of its own, as before its first job; what its folder had is there again afterwards."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    for name in ("startup", "local"):
        shutil.copytree(kit / name, kept / name)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", kit], check=True)
    try:
        shutil.copytree(kept, kit, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", kit], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk and return the file that does."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as stream:
        while shutil.disk_usage(folder).free:
            stream.write(bytes(shutil.disk_usage(folder).free))
    return file


@pytest.mark.parametrize("when", ["before the job", "in the job"])
def test_a_site_whose_disk_is_full_costs_its_own_share(hospitals: Hospitals, tmp_path: Path, when: str) -> None:
    """The others go on; with space again, and started again, it takes part in the next job."""
    kit = hospitals.kits / "site-2"
    hospitals.kill("site-2")
    with small_disk(kit, 8, tmp_path):
        hospitals.start("site-2")
        hospitals.wait_for_sites(*SITES)
        in_job = when == "in the job"
        filler = None if in_job else fill(kit)
        job_id = hospitals.submit(hospitals.job("fedavg", rounds=8, grace_period=3))
        if in_job:
            wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
            filler = fill(kit)
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
        summary, _ = hospitals.result(job_id)
        assert summary["rounds_finished"] == 8
        assert {"site-1", "site-3"} <= set(summary["sites"])
        assert {entry["site"] for entry in summary["refusals"]} <= {"site-2"}
        assert ("site-2" in summary["sites"]) == in_job
        assert summary["absent"] == ([] if in_job else ["site-2"])
        assert filler is not None
        filler.unlink()
        hospitals.kill("site-2")
        hospitals.start("site-2")
        hospitals.wait_for_sites(*SITES)
        job_id = hospitals.submit(hospitals.job("fedavg", rounds=2))
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
        assert set(hospitals.result(job_id)[0]["sites"]) == set(SITES)
        hospitals.kill("site-2")
    hospitals.start("site-2")
    hospitals.wait_for_sites(*SITES)
