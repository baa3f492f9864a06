"""The systemd unit: its start line, with start scripts that end in the ways in which NVFlare's does."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[3] / "site_configs" / "fedannot-participant.service"


def start_line() -> str:
    """What systemd runs, in which two dollars are one."""
    result = re.search(r"^ExecStart=/bin/bash -c '(.*)'$", UNIT.read_text(encoding="utf-8"), re.M)
    assert result is not None
    assert "$" not in result[1].replace("$$", "")
    return result[1].replace("$$", "$")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("touch shutdown.fl", 0),
        ("touch shutdown.fl; exit 3", 0),
        ("touch restart.fl", 75),
        ("exit 0", 75),
        ("exit 1", 75),
        ("kill -9 $$", 75),
    ],
)
def test_only_a_shutdown_ends_the_unit(tmp_path: Path, script: str, code: int) -> None:
    """All else is a failure, after which systemd starts it again; what an earlier shutdown has left counts no more."""
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "sub_start.sh").write_text(f'[ "$1" = --once ] || exit 9\n{script}\n')
    (tmp_path / "shutdown.fl").touch()
    command = ["/bin/bash", "-c", start_line()]
    assert subprocess.run(command, cwd=tmp_path, timeout=20, check=False, capture_output=True).returncode == code


def test_it_is_private_and_may_gain_nothing() -> None:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    for wanted in ("UMask=0077", "NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=on-failure"):
        assert wanted in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_it() -> None:
    command = ["systemd-analyze", "verify", str(UNIT)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
