"""A participant's own folder of a job: its user's alone, whatever the umask, and never somewhere else."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedannot.custom.data.participant_folder import job_folder_of, participant_folder, with_private_folder
from fedannot.transforms.errors import DataError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_it_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    folder = participant_folder(tmp_path, "job-1")
    assert folder == tmp_path / "private" / "job-1"
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)
    assert participant_folder(tmp_path, "job-1") == folder
    assert participant_folder(tmp_path) == folder.parent


def test_wider_rights_that_are_there_are_narrowed(tmp_path: Path) -> None:
    (tmp_path / "private" / "job-1").mkdir(parents=True)
    for folder in (tmp_path / "private", tmp_path / "private" / "job-1"):
        folder.chmod(0o755)
    folder = participant_folder(tmp_path, "job-1")
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)


@pytest.mark.parametrize("planted", ["private", "private/job-1"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, planted: str) -> None:
    elsewhere, workspace = tmp_path / "elsewhere", tmp_path / "kit"
    elsewhere.mkdir()
    (workspace / planted).parent.mkdir(parents=True)
    (workspace / planted).symlink_to(elsewhere, target_is_directory=True)
    rights = mode(elsewhere)
    with pytest.raises(DataError, match=rf"{planted}: found a symbolic link; expected a folder of this user"):
        participant_folder(workspace, "job-1")
    assert (list(elsewhere.iterdir()), mode(elsewhere)) == ([], rights)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").touch()
    with pytest.raises(DataError, match="private: found no folder that can be entered"):
        participant_folder(tmp_path, "job-1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o777)
    os.chown(tmp_path / "private", 12345, -1)
    with pytest.raises(DataError, match="belongs to the user 12345"):
        participant_folder(tmp_path, "job-1")


@pytest.mark.parametrize("job_id", ["..", "../other", "/etc", "a/b", "."])
def test_a_jobs_id_leads_nowhere_else(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(DataError, match="no job's id"):
        participant_folder(tmp_path, job_id)
    assert list(tmp_path.iterdir()) == []


def test_a_jobs_folder_and_the_own_one_belong_together(tmp_path: Path) -> None:
    own = participant_folder(tmp_path, "job-1")
    (tmp_path / "job-1").mkdir()
    assert job_folder_of(own) == tmp_path / "job-1"
    assert job_folder_of(tmp_path / "job-1") is None
    assert with_private_folder(tmp_path / "job-1") == [tmp_path / "job-1", own]
    assert with_private_folder(tmp_path) == [tmp_path]
