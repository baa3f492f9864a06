import re
from pathlib import Path

import pytest

from fedannot.apps.runs.arms import Arm, plan
from fedannot.apps.runs.installed import UnknownJobError, copy_configs, copy_job, find_job, installed_jobs, jobs_folder
from fedannot.apps.runs.job import Job, JobError
from fedannot.transforms.errors import DataError

ROOT = Path(__file__).parents[3]


def test_every_job_of_the_tree_is_installed_and_says_what_it_is_for() -> None:
    result = installed_jobs()
    assert list(result) == sorted(path.parent.name for path in ROOT.glob("jobs/*/meta.json"))
    assert len(result) >= 15
    assert {name for name, job in result.items() if not job.purpose or job.title == name} <= {"auto", "audit"}
    assert result["fedaaai"].title == "FedA³I"
    assert result["fedaaai"].purpose == "contours that are too large or too small"
    assert result["fedaaai"].folder == ROOT / "jobs" / "fedaaai"


def test_a_name_works_where_a_folder_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Job.open("fedavg").settings() == Job.open(ROOT / "jobs" / "fedavg").settings()
    assert [arm.job.name for arm in plan([Arm("a", Path("fedavg")), Arm("b", Path("fedaaai"))], {})] == [
        "fedavg",
        "fedaaai",
    ]


def test_a_job_is_found_by_the_name_of_its_method_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Job.open("feda3i").folder == ROOT / "jobs" / "fedaaai"
    assert copy_job("feda3i", Path("mine")) == Path("mine/fedaaai")
    copy_job("fedavg", Path("other")).rename("feda3i")
    assert find_job("feda3i") == Path("feda3i")


def test_a_folder_that_is_a_job_counts_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fedavg").mkdir()
    assert find_job("fedavg") == ROOT / "jobs" / "fedavg"
    mine = copy_job("fedavg", Path("other"))
    mine.rename("mine")
    Path("mine").rename("fedavg/mine")
    assert find_job("fedavg/mine") == Path("fedavg/mine")
    Path("fedavg/mine").rename("fedia")
    assert find_job("fedia") == Path("fedia")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("fedaai", "; did you mean 'fedaaai'? Expected"),
        # As in the tree, but elsewhere.
        ("jobs/fedaaai", "; did you mean 'fedaaai'? Expected"),
        ("zzz", ". Expected"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    asked: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownJobError, match="^" + re.escape(f"Found no job '{asked}'{hint}")):
        find_job(asked)
    with pytest.raises(JobError, match="^" + re.escape(f"Found no job '{asked}'{hint}")):
        Job.open(asked)


def test_a_job_is_copied_with_its_sets_of_settings_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = copy_job("fedaaai", tmp_path / "mine")
    assert folder == tmp_path / "mine" / "fedaaai"
    files = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}
    source = ROOT / "jobs" / "fedaaai"
    assert files == {file.relative_to(source) for file in source.rglob("*") if file.is_file()}
    assert Path("settings/skin-ns.conf") in files
    # A copy can be changed, and is no link into the package.
    assert not any(file.is_symlink() for file in folder.rglob("*"))
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="expected an empty or absent output folder"):
        copy_job("fedaaai", tmp_path / "mine")


def test_site_configurations_are_copied_as_files(tmp_path: Path) -> None:
    folder = copy_configs(tmp_path / "configs")
    for name in ("project.yml", "site.yaml", "server.yaml", "simulator_log.json", "data/volume.yaml"):
        assert (folder / name).read_bytes() == (ROOT / "site_configs" / name).read_bytes()
        assert not (folder / name).is_symlink()


def test_a_chosen_folder_of_jobs_counts_before_the_installed_one(tmp_path: Path) -> None:
    assert jobs_folder(tmp_path) == tmp_path
    assert jobs_folder() == ROOT / "jobs"
