import subprocess
from importlib.metadata import version
from pathlib import Path

from fedannot.custom.run.versions import installed_versions, source_commit


def test_versions_are_those_that_are_installed() -> None:
    result = installed_versions()
    assert result["torch"] == version("torch")
    assert result["fedannot"] == version("fedannot")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_the_repository_that_the_file_lies_in(tmp_path: Path) -> None:
    file = tmp_path / "tree" / "custom" / "versions.py"
    file.parent.mkdir(parents=True)
    file.write_text("first", encoding="utf-8")
    assert source_commit(file) is None
    git(tmp_path / "tree", "init", "-q")
    # The repository of somebody who keeps a virtual environment in it is not fedannot's.
    assert source_commit.__wrapped__(file) is None
    git(tmp_path / "tree", "add", ".")
    # Without a commit there is none to name.
    assert source_commit.__wrapped__(file) is None
    git(tmp_path / "tree", "commit", "-q", "-m", "first")
    link = tmp_path / "installed.py"
    link.symlink_to(file)
    result = source_commit.__wrapped__(link)
    assert result is not None
    assert (result.commit, result.is_changed) == (git(tmp_path / "tree", "rev-parse", "HEAD"), False)
    file.write_text("second", encoding="utf-8")
    changed = source_commit.__wrapped__(file)
    assert changed is not None
    assert changed.is_changed
