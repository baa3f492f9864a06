"""What is written into a kit: policies added to NVFlare's own, and the description of the data."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment import deployable_job as deployable_job_module
from fedannot.apps.deployment.deployable_job import deployable_job, read_configuration
from fedannot.apps.deployment.kit import Kit, KitError, approve_job, merged, prepare_kit
from fedannot.apps.deployment.policy_checks import check_policies
from fedannot.apps.runs.job import Job, components_in, parse_hocon
from fedannot.custom.approval.approved import check_job, read_approved
from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.data.description import read_description_file
from fedannot.transforms.errors import DataError

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "site_configs"

MakeKit = Callable[..., Path]


@pytest.mark.parametrize(
    ("given", "added", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        (["x", "y"], ["y", "z"], ["x", "y", "z"]),
        (
            [{"id": "a", "args": {"n": 1, "m": 2}}, {"id": "b"}],
            [{"id": "a", "args": {"n": 5}}, {"id": "c"}],
            [{"id": "a", "args": {"n": 5, "m": 2}}, {"id": "b"}, {"id": "c"}],
        ),
        (
            [{"id": "a", "path": "x"}, {"id": "b"}],
            [{"id": "a", "path": None}, {"id": "c", "path": None}],
            [{"id": "b"}],
        ),
        (1, 2, 2),
    ],
)
def test_configurations_are_added_to_each_other(given: object, added: object, expected: object) -> None:
    assert merged(given, added) == expected


def test_a_site_keeps_nvflares_resources_and_gets_ours(make_kit: MakeKit) -> None:
    folder = make_kit()
    before = json.loads((folder / "local" / "resources.json.default").read_text(encoding="utf-8"))
    written = prepare_kit(folder, CONFIGS)
    assert [file.name for file in written] == [
        "resources.json",
        "resources.json.default",
        "limits.json",
        "compute.json",
        "cache.json",
        "authorization.json",
        "privacy.json",
        "log_config.json",
        "fedannot__resources.json",
        "approved_jobs.json",
    ]
    after = json.loads((folder / "local" / "resources.json").read_text(encoding="utf-8"))
    assert after["components"][:-2] == before["components"]
    assert [entry["id"] for entry in after["components"][-2:]] == ["site_gate", "app_deployer"]
    assert after["allow_log_streaming"] is False
    approved = read_approved(folder / "local")
    assert approved is not None
    assert after["class_allow_list"] == list(approved.classes), "NVFlare's own list is replaced"
    again = [file.read_text(encoding="utf-8") for file in written]
    prepare_kit(folder, CONFIGS)
    assert [file.read_text(encoding="utf-8") for file in written] == again, "a second time changes nothing"


def test_the_filters_in_comments_can_be_used(make_kit: MakeKit, tmp_path: Path) -> None:
    """With the comment marks taken away, as an operator would: name and arguments are those of filters."""
    text = (CONFIGS / "site.yaml").read_text(encoding="utf-8")
    marked = re.compile(r"^( *)# (- path: .*|  args: .*)$", re.MULTILINE)
    (tmp_path / "site.yaml").write_text(marked.sub(r"\1\2", text), encoding="utf-8")
    folder = make_kit()
    prepare_kit(folder, tmp_path)
    privacy = json.loads((folder / "local" / "privacy.json").read_text(encoding="utf-8"))
    entries = privacy["scopes"][0]["task_result_filters"]
    made = []
    for entry in entries:
        module, _, name = entry["path"].rpartition(".")
        made.append(getattr(importlib.import_module(module), name)(**entry["args"]))
    assert [type(each).__name__ for each in made] == ["PrivacyFilter", "StatisticsPrivacyFilter", "OutboundFilter"]


def test_the_server_keeps_jobs_beside_its_kit(make_kit: MakeKit) -> None:
    folder = make_kit("localhost", role="server")
    prepare_kit(folder, CONFIGS)
    resources = json.loads((folder / "local" / "resources.json").read_text(encoding="utf-8"))
    manager = next(entry for entry in resources["components"] if entry["id"] == "job_manager")
    assert manager == {
        "id": "job_manager",
        "path": "a.JobManager",
        "args": {"uri_root": f"{folder}/storage/jobs", "store": "job_store"},
    }


@pytest.mark.parametrize("role", ["server", "site"])
def test_the_classes_that_jobs_name_are_listed_and_no_others(make_kit: MakeKit, role: str) -> None:
    folder = make_kit(role, role=role)
    prepare_kit(folder, CONFIGS)
    listed = set(Kit.open(folder).effective("resources.json")["class_allow_list"])
    jobs = [Job.open(path) for path in sorted((ROOT / "jobs").iterdir())]
    files = [file for job in jobs for file in (job.server_config, job.client_config)]
    assert listed == {path for file in files for path, _ in components_in(parse_hocon(file))}
    assert not any(entry.endswith(".") or entry == "*" for entry in listed)
    assert {point.what: point.state for point in check_policies(Kit.open(folder))}["allow-list"] == "ready"


def test_another_job_is_approved_and_stays_so(make_kit: MakeKit, tmp_path: Path) -> None:
    folder = make_kit()
    job = deployable_job(ROOT / "jobs" / "fedavg", tmp_path / "mine", sites=("a", "b", "c")).folder
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["executors"][0]["executor"]["path"] = "mine.Executor"
    config.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(KitError, match="first: fedannot deploy prepare"):
        approve_job(folder, *read_configuration(job))
    prepare_kit(folder, CONFIGS)
    _, configuration = read_configuration(job)
    with pytest.raises(JobRefusedError, match="is not approved here"):
        check_job(configuration, folder / "local")
    for _ in range(2):
        approve_job(folder, *read_configuration(job))
        prepare_kit(folder, CONFIGS)
        approved = read_approved(folder / "local")
        assert approved is not None
        assert [other.digest for other in approved.others] == [configuration.digest]
        assert "mine.Executor" in Kit.open(folder).effective("resources.json")["class_allow_list"]
    check_job(configuration, folder / "local")


@pytest.mark.parametrize("file", sorted((CONFIGS / "data").iterdir()), ids=lambda file: file.stem)
def test_the_examples_of_data_can_be_used(make_kit: MakeKit, file: Path) -> None:
    assert read_description_file(file).pipeline == file.stem
    folder = make_kit()
    assert prepare_kit(folder, CONFIGS, file)[-1] == folder / "local" / "data.yaml"
    assert (folder / "local" / "data.yaml").read_bytes() == file.read_bytes()


def test_what_cannot_be_prepared(make_kit: MakeKit, tmp_path: Path) -> None:
    folder, server = make_kit(), make_kit("localhost", role="server")
    with pytest.raises(KitError, match=r"site\.yaml: found no such file"):
        prepare_kit(folder, tmp_path)
    with pytest.raises(KitError, match="data are described at the sites"):
        prepare_kit(server, CONFIGS, CONFIGS / "data" / "image2d.yaml")
    (tmp_path / "wrong.yaml").write_text("pipeline: picture\n")
    with pytest.raises(DataError, match="key 'pipeline' is 'picture'"):
        prepare_kit(folder, CONFIGS, tmp_path / "wrong.yaml")
    assert not (folder / "local" / "resources.json").exists(), "nothing is half prepared"
    (tmp_path / "site.yaml").write_text("- resources.json\n")
    with pytest.raises(KitError, match="expected names of JSON files"):
        prepare_kit(folder, tmp_path)
    (folder / "local" / "resources.json").write_text("{")
    with pytest.raises(KitError, match=r"resources\.json: is not JSON"):
        prepare_kit(folder, CONFIGS)


def test_the_command_shows_what_a_job_names_before_it_is_approved(make_kit: MakeKit) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    arguments = ["deploy", "approve", str(ROOT / "jobs" / "fedavg"), "--kit", str(folder)]
    refused = CliRunner().invoke(app, arguments, input="n\n")
    assert refused.exit_code == 1
    assert "fedannot.custom.flare.executor.FederatedExecutor" in refused.output
    approved = read_approved(folder / "local")
    assert approved is not None
    assert approved.others == ()
    taken = CliRunner().invoke(app, arguments, input="y\n")
    assert taken.exit_code == 0, taken.output
    assert "Every other participant has to approve it, too." in taken.output
    approved = read_approved(folder / "local")
    assert approved is not None
    assert [job.name for job in approved.others] == ["fedavg"]


def test_the_command_says_in_which_numbers_a_jobs_updates_leave(make_kit: MakeKit, tmp_path: Path) -> None:
    kit, jobs = make_kit(), ROOT / "jobs" / "fedavg"
    prepare_kit(kit, CONFIGS)
    job = deployable_job(jobs, tmp_path / "job", sites=("a", "b", "c"), overrides={"update_precision": "int8"}).folder
    for folder, is_said in ((job, True), (jobs, False)):
        arguments = ["deploy", "approve", str(folder), "--kit", str(kit)]
        shown = " ".join(CliRunner().invoke(app, arguments, input="n\n").output.split())
        assert ("What leaves a site as its model: the change of the locally trained model" in shown) is is_said


@pytest.mark.parametrize("how", ["while it is asked", "without a question"])
@pytest.mark.parametrize("by_link", [False, True])
def test_what_is_shown_is_what_is_approved(
    make_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, by_link: bool
) -> None:
    """Somebody exchanges the job's folder, or where a link leads, when it has been read."""
    kit = make_kit()
    prepare_kit(kit, CONFIGS)
    shown, other, named = tmp_path / "shown", tmp_path / "other", tmp_path / "named"
    for folder in (shown, other):
        deployable_job(ROOT / "jobs" / "fedavg", folder, sites=("a", "b", "c"))
    config = other / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["components"] = [{"id": "more", "path": "subprocess.Popen", "args": {"args": ["id"]}}]
    config.write_text(json.dumps(content), encoding="utf-8")
    expected = read_configuration(shown)[1]
    if by_link:
        named.symlink_to(shown)
    else:
        shown.rename(named)

    def exchange(*_: object, **__: object) -> bool:
        named.unlink() if by_link else named.rename(tmp_path / "away")
        other.rename(named)
        return True

    reader = deployable_job_module.read_configuration

    def read_and_exchange(folder: Path) -> Any:
        found = reader(folder)
        exchange()
        return found

    if how == "while it is asked":
        monkeypatch.setattr(typer, "confirm", exchange)
    else:
        monkeypatch.setattr(deployable_job_module, "read_configuration", read_and_exchange)
    more = [] if how == "while it is asked" else ["--yes"]
    taken = CliRunner().invoke(app, ["deploy", "approve", str(named), "--kit", str(kit), *more])
    assert taken.exit_code == 0, taken.output
    assert "Popen" in (named / "app" / "config" / "config_fed_client.json").read_text(encoding="utf-8")
    assert expected.digest in taken.output
    approved = read_approved(kit / "local")
    assert approved is not None
    assert [job.digest for job in approved.others] == [expected.digest]
    assert "subprocess.Popen" not in Kit.open(kit).effective("resources.json")["class_allow_list"]


def test_names_of_a_job_cannot_rewrite_what_is_shown(make_kit: MakeKit, tmp_path: Path) -> None:
    kit = make_kit()
    prepare_kit(kit, CONFIGS)
    job = deployable_job(ROOT / "jobs" / "fedavg", tmp_path / "job", sites=("a", "b", "c")).folder
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["components"] = [{"path": "subprocess.Popen\x1b[2K\rnothing.of.note"}]
    config.write_text(json.dumps(content), encoding="utf-8")
    result = CliRunner().invoke(app, ["deploy", "approve", str(job), "--kit", str(kit)], input="n\n")
    assert "subprocess.Popen\\x1b[2K\\rnothing.of.note" in result.output
    assert "\x1b[2K" not in result.output
