"""Files and folders are written whole or not at all, and what a killed process leaves is removed."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedannot.custom.data import whole_files
from fedannot.custom.data.whole_files import new_folder, private_file, private_folder, replaced, write_text

WRITER = """
import sys, time
from collections.abc import Iterator
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


@pytest.fixture
def open_umask() -> Iterator[None]:
    """What a process makes is open to everybody, unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_a_replaced_file_is_private_from_its_first_byte_on(tmp_path):
    file = tmp_path / "page.html"
    file.write_text("before")
    file.chmod(0o666)
    with replaced(file) as temporary:
        assert mode(temporary) == 0o600
        temporary.write_text("content")
        assert mode(temporary) == 0o600
    assert mode(file) == 0o600
    with replaced(file, shared=True) as temporary:
        temporary.write_text("content")
    assert mode(file) == 0o666


@pytest.mark.usefixtures("open_umask")
def test_what_a_killed_process_of_the_same_number_has_left_is_not_written_to(tmp_path):
    """It may be a link, or open to others."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("of others")
    (tmp_path / f".{os.getpid()}.a.json").symlink_to(elsewhere)
    write_text(tmp_path / "a.json", "content")
    assert elsewhere.read_text() == "of others"
    assert mode(tmp_path / "a.json") == 0o600


@pytest.mark.usefixtures("open_umask")
def test_a_new_folder_and_all_in_it_is_private_and_what_it_links_to_stays(tmp_path):
    other = tmp_path / "other"
    other.write_text("of others")
    other.chmod(0o644)
    with new_folder(tmp_path / "parent" / "made") as folder:
        assert mode(folder.parent) == 0o700
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("content")
        (folder / "link").symlink_to(other)
    made = tmp_path / "parent" / "made"
    assert [mode(path) for path in (made.parent, made, made / "inner", made / "inner" / "file")] == [0o700] * 3 + [
        0o600
    ]
    assert mode(other) == 0o644


@pytest.mark.usefixtures("open_umask")
def test_a_shared_folder_is_as_the_umask_says(tmp_path):
    os.umask(0o022)
    with new_folder(tmp_path / "parent" / "made", shared=True) as folder:
        write_text(folder / "file", "content", shared=True)
    made = tmp_path / "parent" / "made"
    assert [mode(path) for path in (made.parent, made, made / "file")] == [0o755, 0o755, 0o644]


@pytest.mark.usefixtures("open_umask")
def test_a_private_folder_has_private_parents_and_one_that_exists_stays_with_a_warning(tmp_path, caplog):
    private_folder(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    private_folder(tmp_path / "a" / "b")
    assert caplog.records == []
    own = tmp_path / "own"
    own.mkdir(0o755)
    private_folder(own)
    assert mode(own) == 0o755
    assert "other accounts of this machine can list this folder" in caplog.text
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "file")


@pytest.mark.usefixtures("open_umask")
def test_a_private_file_keeps_its_content_and_takes_the_rights_of_others(tmp_path):
    file = tmp_path / "log.txt"
    file.write_text("before")
    file.chmod(0o666)
    with private_file(file).open("a") as stream:
        stream.write(", after")
    assert file.read_text() == "before, after"
    assert mode(file) == 0o600
    assert mode(private_file(tmp_path / "new")) == 0o600


@pytest.mark.parametrize("umask", [0o077, 0o277, 0o777])
def test_a_strict_umask_takes_nothing_from_the_owner_of_a_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        assert mode(private_file(tmp_path / "file")) == 0o600
    finally:
        os.umask(before)
