"""Files and folders are written whole or not at all, and what a killed process leaves is removed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fedannot.custom.data import whole_files
from fedannot.custom.data.whole_files import new_folder, replaced, write_text

WRITER = """
import sys, time
from pathlib import Path
from fedannot.custom.data.whole_files import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("a part")
    print("begun", flush=True)
    time.sleep(300)
"""


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_text_is_written_in_one_step(tmp_path, monkeypatch):
    file = tmp_path / "summary.json"
    write_text(file, "first")
    monkeypatch.setattr(whole_files.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("crash")))
    with pytest.raises(OSError, match="crash"):
        write_text(file, "second")
    assert file.read_text(encoding="utf-8") == "first"
    assert names(tmp_path) == ["summary.json"]


def test_content_is_on_the_disk_before_it_takes_the_place_and_the_name_after(tmp_path, monkeypatch):
    """The privacy account and corrections must outlive a loss of power."""
    steps = []
    synchronise, replace = os.fsync, Path.replace

    def note_sync(descriptor):
        steps.append(("synchronised", Path(f"/proc/self/fd/{descriptor}").resolve()))
        synchronise(descriptor)

    def note_replacement(self, target):
        steps.append(("replaced", target))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replacement)
    write_text(tmp_path / "corrections.json", "{}")
    (first, temporary), *others = steps
    assert (first, temporary.parent) == ("synchronised", tmp_path)
    assert others == [("replaced", tmp_path / "corrections.json"), ("synchronised", tmp_path)]


def test_a_folder_is_on_the_disk_before_it_takes_its_place_and_the_name_after(tmp_path, monkeypatch):
    """Else a loss of power could leave a whole folder of empty files."""
    steps = []
    synchronise, rename = os.fsync, Path.rename

    def note_sync(descriptor):
        steps.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        synchronise(descriptor)

    def note_renaming(self, target):
        steps.append("renamed")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_renaming)
    (tmp_path / "elsewhere").write_text("of others")
    with new_folder(tmp_path / "made") as folder:
        (folder / "inner").mkdir()
        written = [folder / "a", folder / "inner" / "b"]
        for file in written:
            file.write_text("content")
        (folder / "link").symlink_to(tmp_path / "elsewhere")
    *before, renamed, after = steps
    assert sorted(before) == sorted([folder, *written, folder / "inner"])
    assert (renamed, after) == ("renamed", tmp_path)


def test_a_further_name_of_a_file_keeps_what_it_has(tmp_path):
    write_text(tmp_path / "a.json", "first")
    os.link(tmp_path / "a.json", tmp_path / "backup.json")
    write_text(tmp_path / "a.json", "second")
    assert (tmp_path / "backup.json").read_text(encoding="utf-8") == "first"


def replace_half(file: Path) -> None:
    with replaced(file) as temporary:
        assert temporary.suffix == file.suffix
        temporary.write_text("half")
        raise RuntimeError("crash")


def test_a_replaced_file_has_its_suffix_and_stays_on_failure(tmp_path):
    file = tmp_path / "a.png"
    file.write_text("first")
    with pytest.raises(RuntimeError, match="crash"):
        replace_half(file)
    assert file.read_text(encoding="utf-8") == "first"
    assert names(tmp_path) == ["a.png"]


@pytest.fixture
def writer(tmp_path):
    """A process that is writing the folder `out`."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.wait(timeout=60)
    process.stdout.close()


def write(folder: Path) -> None:
    with new_folder(folder) as unfinished:
        (unfinished / "whole").write_text("all of it")


def test_what_a_killed_process_left_is_removed_by_the_next(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait(timeout=60)
    assert [name for name in names(tmp_path) if name.startswith(".out-unfinished-")]
    write(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["whole"]


def test_what_a_living_process_writes_stays(writer, tmp_path):
    write(tmp_path / "out")
    (left,) = (name for name in names(tmp_path) if name.startswith(".out-unfinished-"))
    assert (tmp_path / left / "out" / "half").read_text(encoding="utf-8") == "a part"


def test_what_another_part_of_this_process_writes_stays(tmp_path):
    with new_folder(tmp_path / "out") as first:
        (first / "half").write_text("a part")
        write(tmp_path / "out")
        assert (first / "half").is_file()
        shutil.rmtree(tmp_path / "out")
    assert names(tmp_path / "out") == ["half"]


def test_an_empty_folder_without_a_lock_goes(tmp_path):
    Path(tempfile.mkdtemp(dir=tmp_path, prefix=".out-unfinished-"))
    write(tmp_path / "out")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("name", [".out-unfinished-mine", ".out-unfinished-abcdefgh", ".other-unfinished-abcdefgh"])
def test_folders_that_are_not_ours_stay(tmp_path, name):
    (tmp_path / name / "thesis").mkdir(parents=True)
    (tmp_path / name / "lock").touch()
    write(tmp_path / "out")
    assert (tmp_path / name / "thesis").is_dir()


def test_a_link_with_such_a_name_is_not_followed(tmp_path):
    (tmp_path / "precious" / "out").mkdir(parents=True)
    (tmp_path / "precious" / "lock").touch()
    (tmp_path / ".out-unfinished-abcdefgh").symlink_to("precious")
    write(tmp_path / "out")
    assert (tmp_path / "precious" / "out").is_dir()
