"""What a kit starts with, on kits of NVFlare's provisioning: whole ones, and ones that lack a policy.

NVFlare's own configurators build the components, as its programs do. What real processes then do:
tests/integration/test_kit_processes.py.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.private.fed.app.fl_conf import FLClientStarterConfiger, FLServerStarterConfiger
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.server import job_cmds, job_runner
from nvflare.tool.deploy.deploy_commands import prepare_deployment
from nvflare.tool.deploy.k8s_stage import stage_k8_deployment

from fedannot.apps.deployment.check_points import State
from fedannot.apps.deployment.kit import Kit, prepare_kit
from fedannot.apps.deployment.policy_checks import check_policies
from fedannot.apps.wording.kit_faults import kit_fault_in_words
from fedannot.custom.flare.kit_policies import KitFault, Policy, kit_faults
from fedannot.custom.flare.site_gate import SiteGate
from fedannot.custom.flare.start_check import StartCheck, process_faults

ROOT = Path(__file__).parents[3]
CONFIGS, JOBS = ROOT / "site_configs", ROOT / "jobs"
NVFLARE = Path(sys.executable).parent / "nvflare"
TIMEOUT = 120
# By name of the kit.
SIDES = {"localhost": "server", "hospital-1": "site"}
SETTINGS = {
    "localhost": ["secure_train=true", "org=coordinator", "config_folder=config"],
    "hospital-1": ["secure_train=true", "uid=hospital-1", "org=hospital_1", "config_folder=config"],
}

Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits as NVFlare's provisioning leaves them."""
    folder = tmp_path_factory.mktemp("provisioned")
    project = yaml.safe_load((CONFIGS / "project.yml").read_text(encoding="utf-8"))
    # A key takes its time.
    project["participants"] = [item for item in project["participants"] if item["name"] in SIDES]
    (folder / "project.yml").write_text(yaml.safe_dump(project), encoding="utf-8")
    command = [str(NVFLARE), "provision", "-p", str(folder / "project.yml"), "-w", str(folder)]
    environment = os.environ | {"HOME": str(folder)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=TIMEOUT)
    return folder / "fedannot" / "prod_00"


@pytest.fixture(scope="module")
def prepared(provisioned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same kits, prepared."""
    kits = tmp_path_factory.mktemp("prepared")
    for name in SIDES:
        shutil.copytree(provisioned / name, kits / name)
        prepare_kit(kits / name, CONFIGS, jobs=JOBS)
    return kits


@pytest.fixture
def kit_of(prepared: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A prepared kit of one's own; at another place than where it was prepared, as in a container."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(prepared / name, tmp_path / "kits" / name))

    return copied


@pytest.fixture(autouse=True)
def process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Building a kit's components changes this process."""
    monkeypatch.setattr(job_cmds, "JobMetaValidator", job_cmds.JobMetaValidator)
    monkeypatch.setattr(job_runner, "AppDeployer", job_runner.AppDeployer)
    processors = list(ClientRequestProcessors.request_processors)
    yield
    ClientRequestProcessors.request_processors[:] = processors
    ConfigService.reset()


def start(kit: Path, monkeypatch: pytest.MonkeyPatch, *, for_job: bool = False) -> Any:
    """Build a kit's components, as NVFlare's program of the server or of a site, or of a job, does."""
    settings = SETTINGS[kit.name]
    monkeypatch.setattr(sys, "argv", ["program", "-m", str(kit), "-s", "file", "--set", *settings])
    job = {"job_id": "job", "sp_scheme": "http", "sp_target": "localhost:1", "parent_url": "tcp://localhost:2"}
    more = job | {"parent_conn_sec": "clear"} if for_job else {"job_id": None}
    configurator = FLServerStarterConfiger if SIDES[kit.name] == "server" else FLClientStarterConfiger
    made = configurator(Workspace(str(kit), kit.name), argparse.Namespace(workspace=str(kit), **more), settings)
    made.configure()
    return made


def changed(name: str, change: Callable[[Any], Any]) -> Change:
    """A change of a JSON file of the kit."""

    def apply(kit: Path) -> None:
        values = json.loads((kit / name).read_text(encoding="utf-8"))
        change(values)
        (kit / name).write_text(json.dumps(values), encoding="utf-8")

    return apply


def removed(*names: str) -> Change:
    return lambda kit: [(kit / "local" / name).unlink() for name in names] and None


def written(name: str, content: Any) -> Change:
    return lambda kit: (kit / "local" / name).write_text(json.dumps(content), encoding="utf-8") and None


def resources(change: Callable[[Any], Any]) -> Change:
    return changed("local/resources.json", change)


def without(component: str) -> Change:
    """A component taken out of the resources."""
    return resources(lambda r: r.update(components=[entry for entry in r["components"] if entry["id"] != component]))


def order_of(fault: KitFault) -> int:
    return list(Policy).index(fault.policy)


def first_of(values: dict[str, Any], component: str) -> dict[str, Any]:
    return next(entry for entry in values["components"] if entry["id"] == component)


STREAMER = {"id": "s", "path": "nvflare.app_common.logging.site_log_streamer.SiteLogStreamer", "args": {}}
RECEIVER = {"id": "r", "path": "nvflare.app_common.logging.job_log_receiver.JobLogReceiver", "args": {}}

BOTH: dict[str, tuple[Change, Policy]] = {
    "all classes": (resources(lambda r: r["class_allow_list"].append("*")), Policy.ALLOW_LIST),
    "one more class": (resources(lambda r: r["class_allow_list"].append("subprocess.Popen")), Policy.ALLOW_LIST),
    "no list": (resources(lambda r: r.pop("class_allow_list")), Policy.ALLOW_LIST),
    "list of another type": (resources(lambda r: r.update(class_allow_list=5)), Policy.ALLOW_LIST),
    "logs of another type": (changed("local/log_config.json", lambda c: c.update(loggers=[1])), Policy.PRIVATE_LOG),
    "list that warns": (resources(lambda r: r.update(class_list_enforcement_mode="warn")), Policy.ALLOW_LIST),
    "streaming": (resources(lambda r: r.update(allow_log_streaming=True)), Policy.LOGS),
    "streaming by default": (resources(lambda r: r.pop("allow_log_streaming")), Policy.LOGS),
    "logs of NVFlare": (removed("log_config.json"), Policy.PRIVATE_LOG),
    "own lines on the console, too": (
        changed("local/log_config.json", lambda c: c["loggers"]["root"]["handlers"].append("console")),
        Policy.PRIVATE_LOG,
    ),
    "own lines on the console": (
        changed("local/log_config.json", lambda c: c["loggers"].update(fedannot={"handlers": ["console"]})),
        Policy.PRIVATE_LOG,
    ),
    "rights of NVFlare": (removed("authorization.json"), Policy.NO_CODE),
    "no rights": (removed("authorization.json", "authorization.json.default"), Policy.NO_FILES),
    "no approved jobs": (removed("approved_jobs.json"), Policy.APPROVED_JOBS),
    "jobs of another version": (
        changed("local/approved_jobs.json", lambda a: a.update(fedannot="0.0.1")),
        Policy.APPROVED_JOBS,
    ),
    "no check": (removed("fedannot__resources.json"), Policy.START_CHECK),
    "check that is not built": (
        changed("local/fedannot__resources.json", lambda r: r["components"][0].update(disabled=True)),
        Policy.START_CHECK,
    ),
    "files of an unprepared kit": (
        lambda kit: shutil.copy(kit.parents[1] / "unprepared.json", kit / "local" / "resources.json") and None,
        Policy.APPROVED_JOBS,
    ),
}
OF_SITE: dict[str, tuple[Change, Policy]] = {
    "no site gate": (without("site_gate"), Policy.APPROVED_JOBS),
    "no deployer": (without("app_deployer"), Policy.APPROVED_JOBS),
    "gate that is not built": (
        resources(lambda r: first_of(r, "site_gate").update(disabled=True)),
        Policy.APPROVED_JOBS,
    ),
    "another gate": (resources(lambda r: first_of(r, "site_gate").update(path="queue.Queue")), Policy.APPROVED_JOBS),
    "streamer": (resources(lambda r: r["components"].append(STREAMER)), Policy.LOGS),
    "streamer in another file": (written("more__resources.json", {"components": [STREAMER]}), Policy.LOGS),
    "streaming by the start file": (
        changed("startup/fed_client.json", lambda r: r.update(allow_log_streaming=True)),
        Policy.LOGS,
    ),
    "no privacy": (removed("privacy.json"), Policy.OUTBOUND_FILTER),
    "scope without filter": (
        changed("local/privacy.json", lambda p: p["scopes"][0].pop("task_result_filters")),
        Policy.OUTBOUND_FILTER,
    ),
    "filter of what comes in": (
        changed("local/privacy.json", lambda p: p["scopes"][0]["task_result_filters"][0].update(direction="in")),
        Policy.OUTBOUND_FILTER,
    ),
    "filter that is not built": (
        changed("local/privacy.json", lambda p: p["scopes"][0]["task_result_filters"][0].update(disabled=True)),
        Policy.OUTBOUND_FILTER,
    ),
}
OF_SERVER: dict[str, tuple[Change, Policy]] = {
    "no job gate": (without("job_gate"), Policy.APPROVED_JOBS),
    "gate of another kit": (
        resources(lambda r: first_of(r, "job_gate")["args"].update(config_folder="/elsewhere/local")),
        Policy.APPROVED_JOBS,
    ),
    "receiver": (resources(lambda r: r["components"].append(RECEIVER)), Policy.LOGS),
    "receiver by another key": (
        resources(lambda r: r["components"].append({"id": "r", "class_path": RECEIVER["path"]})),
        Policy.LOGS,
    ),
}
WEAKENED = [
    *(("hospital-1", name, *entry) for name, entry in (BOTH | OF_SITE).items()),
    *(("localhost", name, *entry) for name, entry in (BOTH | OF_SERVER).items()),
]


@pytest.mark.parametrize("for_job", [False, True], ids=["parent", "job"])
@pytest.mark.parametrize("name", SIDES)
def test_a_prepared_kit_starts(
    kit_of: Callable[[str], Path], name: str, for_job: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = kit_of(name)
    assert kit_faults(kit) == []
    made = start(kit, monkeypatch, for_job=for_job)
    kinds = {type(component).__name__ for component in made.components.values()}
    gates = {"JobGate"} if SIDES[name] == "server" else {"SiteGate", "ApprovedDeployer"}
    assert gates | {"StartCheck"} <= kinds


@pytest.mark.parametrize("name", SIDES)
def test_a_kit_that_was_never_prepared_does_not_start(
    provisioned: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = Path(shutil.copytree(provisioned / name, tmp_path / name))
    with pytest.raises(SystemExit, match="does not start, since its policies are not in force"):
        start(kit, monkeypatch)


@pytest.mark.parametrize(
    ("name", "weakening", "change", "policy"),
    WEAKENED,
    ids=[f"{name}: {weakening}" for name, weakening, *_ in WEAKENED],
)
def test_a_kit_that_lacks_a_policy_does_not_start(
    kit_of: Callable[[str], Path],
    provisioned: Path,
    name: str,
    weakening: str,
    change: Change,
    policy: Policy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit = kit_of(name)
    shutil.copy(provisioned / name / "local" / "resources.json.default", kit.parents[1] / "unprepared.json")
    change(kit)
    for for_job in (False, True):
        with pytest.raises(SystemExit) as refused:
            start(kit, monkeypatch, for_job=for_job)
        assert f"\n  {policy}: " in str(refused.value)
        assert f"fedannot deploy prepare {kit}, and fedannot deploy check {kit}" in str(refused.value)
    assert all(f"\n  {fault}\n" in str(refused.value) for fault in kit_faults(kit))
    problems = [(point.what, point.found) for point in check_policies(Kit.open(kit)) if point.state == State.PROBLEM]
    expected = [(fault.policy, kit_fault_in_words(fault)) for fault in sorted(kit_faults(kit), key=order_of)]
    assert problems == expected
    assert "?" not in "".join(sentence for _, sentence in problems), "a sentence lacks a value"


@pytest.mark.parametrize("file", ["more__j_resources.json", "job_resources.json"])
def test_a_file_for_the_processes_of_jobs_alone_counts_as_well(
    kit_of: Callable[[str], Path], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = kit_of("hospital-1")
    written(file, {"components": [STREAMER]})(kit)
    with pytest.raises(SystemExit, match=r"component nvflare\.app_common\.logging\.site_log_streamer"):
        start(kit, monkeypatch)


@pytest.mark.parametrize("name", SIDES)
def test_without_its_resources_a_kit_is_as_closed_as_before(
    kit_of: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVFlare takes the default then, which holds the same."""
    kit = kit_of(name)
    removed("resources.json")(kit)
    assert kit_faults(kit) == []
    assert any(type(component).__name__.endswith("Gate") for component in start(kit, monkeypatch).components.values())


def test_no_single_file_switches_the_check_off(
    kit_of: Callable[[str], Path], provisioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file of the site's decisions put back to what NVFlare provisions, or removed where it has none."""
    tried = 0
    for file in sorted((kit_of("hospital-1") / "local").iterdir()):
        kit = file.parents[1]
        before = file.read_bytes()
        default = provisioned / "hospital-1" / "local" / file.name
        if file.name in ("cache.json", "compute.json", "limits.json") or file.suffix in (".sample", ".default"):
            continue
        file.unlink()
        if default.is_file() and default.read_bytes() != before:
            shutil.copy(default, file)
        closed = bool(kit_faults(kit))
        if closed:
            with pytest.raises(SystemExit):
                start(kit, monkeypatch)
        else:
            # The default holds the same.
            assert file.name == "resources.json"
        file.write_bytes(before)
        tried += 1
    assert tried >= 6


@pytest.mark.parametrize(
    ("arguments", "environment", "policies"),
    [
        (["--set", "secure_train=true", "org=o"], {}, []),
        (["--set", " secure_train=True org=o"], {"FL_LOG_LEVEL": "debug"}, []),
        (["--set", "secure_train=true"], {"FL_LOG_LEVEL": "10"}, []),
        (["--set", "org=o"], {}, [Policy.NO_FILES]),
        (["--set", "secure_train=false"], {}, [Policy.NO_FILES]),
        (["--set", "secure_train=true", "allow_log_streaming=true"], {}, [Policy.LOGS]),
        # A mode of NVFlare's, and a file: both take the place of log_config.json.
        (["--set", "secure_train=true"], {"FL_LOG_LEVEL": "full"}, [Policy.LOGS]),
        (["--set", "secure_train=true"], {"FL_LOG_LEVEL": "/tmp/logs.json"}, [Policy.LOGS]),
    ],
)
def test_what_counts_before_the_kits_files(
    arguments: list[str], environment: dict[str, str], policies: list[Policy]
) -> None:
    assert [fault.policy for fault in process_faults(arguments, environment)] == policies


def test_a_gate_is_built_in_no_folder_that_is_no_kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["program", "--set", "secure_train=true"])
    for component in (SiteGate, StartCheck):
        with pytest.raises(SystemExit, match="expected a startup kit with local and startup/fed_server"):
            component()


CONFIG = {
    "docker": {"runtime": "docker", "parent": {"docker_image": "fedannot:latest"}},
    "k8s": {"runtime": "k8s", "parent": {"docker_image": "fedannot:latest"}},
    "slurm": {"runtime": "slurm", "job_launcher": {"sandbox": "none", "python_path": sys.executable}},
}


def made_for(runtime: str, kit: Path, out: Path) -> Path:
    """NVFlare's own `deploy prepare`, in a copy of the kit."""
    out.parent.mkdir(parents=True, exist_ok=True)
    config = out.parent / f"{runtime}.yaml"
    config.write_text(yaml.safe_dump(CONFIG[runtime]), encoding="utf-8")
    prepare_deployment(argparse.Namespace(kit=str(kit), output=str(out), config=str(config)))
    return out


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("runtime", CONFIG)
def test_a_kit_that_nvflare_prepares_afterwards_keeps_its_policies(
    kit_of: Callable[[str], Path], provisioned: Path, tmp_path: Path, runtime: str, name: str
) -> None:
    kit = kit_of(name)
    copy = made_for(runtime, kit, tmp_path / "made" / name)
    assert not (copy / "local" / "resources.json").exists(), "NVFlare drops it"
    assert kit_faults(copy) == []
    stores = stores_of(copy)
    prepare_kit(copy, CONFIGS, jobs=JOBS)
    assert kit_faults(copy) == [], "prepared once more, after an update for instance"
    assert stores_of(copy) == stores, "jobs stay where NVFlare's processes find them"
    # As an earlier version left it: nothing of ours in the default.
    shutil.copy(provisioned / name / "local" / "resources.json.default", kit / "local" / "resources.json.default")
    opened = made_for(runtime, kit, tmp_path / "opened" / name)
    assert {Policy.APPROVED_JOBS, Policy.ALLOW_LIST, Policy.LOGS} <= {fault.policy for fault in kit_faults(opened)}
    prepare_kit(opened, CONFIGS, jobs=JOBS)
    assert kit_faults(opened) == [], "the other order"


def stores_of(kit: Path) -> list[str]:
    """Where the server keeps jobs and snapshots."""
    file = next(
        kit / "local" / n for n in ("resources.json", "resources.json.default") if (kit / "local" / n).is_file()
    )
    values = json.loads(file.read_text(encoding="utf-8"))
    snapshots = values.get("snapshot_persistor", {}).get("args", {}).get("storage", {}).get("args", {}).get("root_dir")
    return [str(snapshots), *(str(c["args"]["uri_root"]) for c in values["components"] if c["id"] == "job_manager")]


@pytest.mark.parametrize("name", SIDES)
def test_a_cluster_gets_every_file_of_the_policies(
    kit_of: Callable[[str], Path], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What NVFlare gives to Kubernetes, by a command that keeps it instead of sending it."""
    copy = made_for("k8s", kit_of(name), tmp_path / "made" / name)
    tools, sent = tmp_path / "tools", tmp_path / "sent"
    tools.mkdir()
    sent.mkdir()
    (tools / "kubectl").write_text(f'#!/bin/sh\ncat > "$(mktemp {sent}/XXXXXX)"\n')
    (tools / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    stage_k8_deployment(argparse.Namespace(kit=str(copy), kubectl="kubectl"))
    manifests = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sent.iterdir()]
    (local,) = [manifest for manifest in manifests if manifest["kind"] == "ConfigMap"]
    values = yaml.safe_load((copy / "helm_chart" / "values.yaml").read_text(encoding="utf-8"))
    mounted = {
        item["path"]: base64.b64decode(local["binaryData"][item["key"]])
        for item in values["workspaceConfig"]["local"]["items"]
    }
    assert mounted == {file.name: file.read_bytes() for file in (copy / "local").iterdir()}
    assert "fedannot__resources.json" in mounted
    assert values["args"][values["args"].index("--set") + 1] == "secure_train=true"
