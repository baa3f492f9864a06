"""What a kit's logs hold, in a process as NVFlare configures it: lines of NVFlare and of the course, and no name."""

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvflare.fuel.utils.log_utils import default_log_dict

from fedannot.custom.flare.private_log import PrivateLogHandler, keeps_names_private
from fedannot.transforms.errors import DataError

CONFIGS = Path(__file__).parents[3] / "site_configs"
JOB = "01234567-89ab-cdef-0123-456789abcdef"
NAME = "patient-7-scan"
# As NVFlare starts a process of a participant: at its workspace, and with its logs in the job's folder or there.
PROCESS = f"""
import logging, os, sys, warnings
from pathlib import Path
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.log_utils import configure_logging
from fedannot.custom.flare.private_log import keep_console_private

job = sys.argv[1]
workspace = Workspace(os.getcwd(), "server")
configure_logging(workspace, job or None)
if job:
    keep_console_private(Path("private", job))
os.umask(0)
for name in ("fedannot.custom.data.site_data", "PIL.Image", "monai", "another.package"):
    logging.getLogger(name).error("{NAME} of %s", name)
try:
    raise OSError("{NAME} of a traceback")
except OSError:
    logging.getLogger("fedannot.custom").exception("failed")
warnings.warn("{NAME} of a warning")
print("{NAME} of print")
print("{NAME} of print to stderr", file=sys.stderr)
os.write(1, b"{NAME} of a library\\n")
os.write(2, b"{NAME} of a library to stderr\\n")
logging.getLogger("fedannot.course").info("Round 1/2")
logging.getLogger("nvflare.private.fed").error("NVFlare says")
"""


def kit(folder: Path, role: str) -> Path:
    """A kit with the log rules that `deploy prepare` writes."""
    for name in ("startup", "local", JOB):
        (folder / name).mkdir(parents=True)
    policies = yaml.safe_load((CONFIGS / f"{role}.yaml").read_text(encoding="utf-8"))
    (folder / "local" / "log_config.json").write_text(json.dumps(policies["log_config.json"]), encoding="utf-8")
    return folder


def run(folder: Path, job: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PROCESS, job]
    given = {key: value for key, value in os.environ.items() if not key.startswith("NVFL")} | environment
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=60, check=False)


def texts(folder: Path, pattern: str = "*") -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.glob(pattern) if file.is_file()}


def test_of_a_job_at_the_server_the_course_alone_is_in_logs_that_are_returned(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit", "server")
    done = run(folder, JOB)
    assert done.returncode == 0, done.stderr
    logs = texts(folder / JOB)
    assert set(logs) == {"log.txt", "log.json", "error_log.txt"}
    assert not any(NAME in text for text in (*logs.values(), done.stdout, done.stderr))
    for text in (logs["log.txt"], logs["log.json"], done.stdout):
        assert "Round 1/2" in text
        assert "NVFlare says" in text
    assert ("NVFlare says" in logs["error_log.txt"], "Round" in logs["error_log.txt"]) == (True, False)
    own = texts(folder / "private" / JOB)
    assert own["fedannot_server.log"].count(NAME) == 6
    assert "Round 1/2" in own["fedannot_server.log"]
    assert own["console.txt"].count(NAME) == 4
    files = [*(folder / "private" / JOB).iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((folder / "private" / JOB).stat().st_mode) == 0o700


def test_at_a_site_nothing_of_fedannot_is_in_logs_of_nvflare(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit", "site")
    assert run(folder, JOB).returncode == 0
    assert list(texts(folder / JOB)) == ["log.txt"]
    assert NAME not in texts(folder / JOB)["log.txt"]
    assert texts(folder / "private" / JOB)["fedannot_site.log"].count(NAME) == 6


@pytest.mark.parametrize("role", ["server", "site"])
def test_the_parent_process_has_a_private_log_too(tmp_path: Path, role: str) -> None:
    folder = kit(tmp_path / "kit", role)
    assert run(folder, "").returncode == 0
    assert not any(NAME in text for text in texts(folder).values())
    assert texts(folder / "private")[f"fedannot_{role}.log"].count(NAME) == 6


def test_logs_that_nvflare_is_instructed_to_put_elsewhere_do_not_take_the_private_one_along(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit", "server")
    assert run(folder, JOB, NVFL_LOG_ROOT=str(tmp_path / "logs")).returncode == 0
    (log,) = (tmp_path / "logs").rglob("log.txt")
    assert not any(NAME in text for text in texts(log.parent).values())
    assert texts(folder / "private" / JOB)["fedannot_server.log"].count(NAME) == 6


@pytest.mark.parametrize("planted", ["private", f"private/{JOB}"])
def test_a_process_does_not_start_where_a_link_leads_its_log_elsewhere(tmp_path: Path, planted: str) -> None:
    folder = kit(tmp_path / "kit", "server")
    (tmp_path / "elsewhere").mkdir()
    (folder / planted).parent.mkdir(exist_ok=True)
    (folder / planted).symlink_to(tmp_path / "elsewhere")
    done = run(folder, JOB)
    assert done.returncode != 0
    assert "found a symbolic link" in done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def handler(folder: Path, **options: Any) -> PrivateLogHandler:
    return PrivateLogHandler(str(folder / JOB / "own.log"), **options)


def test_a_full_log_is_put_aside_with_the_same_rights(tmp_path: Path) -> None:

    log = handler(kit(tmp_path / "kit", "site"), maxBytes=100, backupCount=2)
    for number in range(5):
        log.emit(logging.LogRecord("name", logging.INFO, "", 0, f"{number:090d}", (), None))
    log.close()
    files = sorted((tmp_path / "kit" / "private" / JOB).iterdir())
    assert [file.name for file in files] == ["own.log", "own.log.1", "own.log.2"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit", "site")
    handler(folder).close()
    log = folder / "private" / JOB / "own.log"
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        handler(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_without_a_workspace_there_is_no_private_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / JOB).mkdir()
    with pytest.raises(ValueError, match="Expected NVFlare's folder of logs in a participant's workspace"):
        handler(tmp_path)


def test_another_participants_folder_is_refused(tmp_path: Path) -> None:
    folder = kit(tmp_path / "kit", "site")
    (folder / "private").touch()
    with pytest.raises(DataError, match="found no folder that can be entered"):
        handler(folder)


@pytest.mark.parametrize("role", ["server", "site"])
def test_log_rules_that_let_names_out_are_distinguished_from_ours(role: str) -> None:
    rules = yaml.safe_load((CONFIGS / f"{role}.yaml").read_text(encoding="utf-8"))["log_config.json"]
    assert keeps_names_private(rules)

    assert not keeps_names_private(default_log_dict)
    assert not keeps_names_private({})
    loggers = rules["loggers"]
    assert not keeps_names_private(rules | {"loggers": loggers | {"fedannot": {"handlers": ["console"]}}})
    assert not keeps_names_private(rules | {"loggers": loggers | {"root": {"handlers": []}}})
