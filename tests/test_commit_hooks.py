"""The hooks of commits: nothing is fetched, each runs a tool of the lock file, and a subject is held to its rule."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
HOOKS: dict[str, dict[str, Any]] = {hook["id"]: hook for repo in CONFIG["repos"] for hook in repo["hooks"]}
# Which package a hook's command is of.
PACKAGES = {
    "ruff": "ruff",
    "mypy": "mypy",
    "end-of-file-fixer": "pre-commit-hooks",
    "check-added-large-files": "pre-commit-hooks",
}


def test_hooks_fetch_nothing_and_run_what_make_installs() -> None:
    assert {repo["repo"] for repo in CONFIG["repos"]} == {"local"}
    languages = {name: hook["language"] for name, hook in HOOKS.items()}
    assert set(languages.values()) == {"system", "pygrep"}
    tools = {hook["entry"].split()[0] for name, hook in HOOKS.items() if languages[name] == "system"}
    assert tools == {f".venv/bin/{command}" for command in PACKAGES}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_developers = {re.split("[<>=]", line)[0] for line in project["optional-dependencies"]["dev"]}
    locked = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()}
    assert {"pre-commit", *PACKAGES.values()} <= of_developers & locked


def test_types_are_checked_as_lint_checks_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = [line.strip() for line in makefile.splitlines() if line.strip().startswith("$(BIN)/mypy")]
    assert HOOKS["mypy"]["entry"] == line.replace("$(BIN)", ".venv/bin")


@pytest.mark.parametrize(
    ("message", "is_right"),
    [
        ("Add hooks", True),
        ("Add hooks\n\nThey run before a commit.\n", True),
        ("Add hooks\n# Please enter the commit message", True),
        ("A" * 72, True),
        ("A" * 73, False),
        ("add hooks", False),
        ("Add hooks.", False),
        ("Add hooks\nThey run before a commit.\n", False),
        ("\nAdd hooks\n", False),
    ],
)
def test_a_subject_is_short_and_begins_with_a_capital(message: str, is_right: bool) -> None:
    hook = HOOKS["commit-subject"]
    assert hook["args"] == ["--multiline", "--negate"]
    assert hook["stages"] == ["commit-msg"]
    # As pre-commit does: the whole file, `.` and `$` over lines.
    result = re.compile(hook["entry"].encode(), re.MULTILINE | re.DOTALL).search(message.encode())
    assert (result is not None) is is_right
