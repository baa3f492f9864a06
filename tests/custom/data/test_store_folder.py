"""Who can open a store, what is removed when, and what a clearing leaves."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from fedannot.custom.data import store_folder, whole_files
from fedannot.custom.data.prepared_pack import PreparedCase, WantedCase
from fedannot.custom.data.prepared_store import PreparedStore
from fedannot.custom.data.store_folder import MARKER, StoreFolder, StoreLimits
from fedannot.transforms.errors import DataError

KINDS = {"image": torch.float32}
# Of a pack's image, and more than of its index.
LENGTH = 4000
BYTES = 4 * LENGTH
DAY = 86400.0


def load(store: PreparedStore, key: str, value: float = 0.0) -> int:
    """Load a case; return how many were prepared for it."""
    prepared = []

    def prepare(places: Sequence[int]) -> Iterator[PreparedCase]:
        for _ in places:
            prepared.append(key)
            yield PreparedCase({"image": torch.full((1, LENGTH), value or float(ord(key)))})

    store.load([WantedCase(key, "here")], KINDS, prepare)
    return len(prepared)


def files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if not file.is_dir())


def modes(folder: Path) -> set[tuple[bool, int]]:
    """Of all that is there: whether it is a folder, and its mode."""
    return {(path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in (folder, *folder.rglob("*"))}


def age_of_packs(root: Path, *ages: float) -> None:
    """Let packs have been used so long ago, in the order of their making."""
    packs = sorted((root / "packs").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    for file, age in zip(packs, ages, strict=True):
        os.utime(file, (time.time() - age,) * 2)


# --- who can open it


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_a_store_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        load(PreparedStore(tmp_path / "a" / "store"), "x")
    finally:
        os.umask(before)
    assert modes(tmp_path / "a" / "store") <= {(True, 0o700), (False, 0o600), (False, 0o400)}
    assert len(files(tmp_path / "a" / "store")) >= 4


def test_a_folder_that_others_can_read_is_closed_and_goes_on(tmp_path: Path) -> None:
    store = PreparedStore(tmp_path / "store")
    load(store, "x")
    store.root.chmod(0o755)
    assert load(store, "x") == 0
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700
    (tmp_path / "empty").mkdir(mode=0o755)
    load(PreparedStore(tmp_path / "empty"), "x")
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


def test_what_others_could_have_put_there_does_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = PreparedStore(tmp_path / "store")
    load(store, "x")
    store.root.chmod(0o777)
    assert load(store, "x") == 1
    assert "other users could write there" in caplog.text
    assert load(store, "x") == 0


def test_a_disk_that_has_no_rights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir(mode=0o755)
    monkeypatch.setattr(Path, "chmod", lambda self, mode: None)
    with pytest.raises(DataError, match=rf"{tmp_path}/store: other users of this machine can open it \(mode 0755\)"):
        load(PreparedStore(tmp_path / "store"), "x")
    assert files(tmp_path / "store") == []


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what belongs to another user")


@as_root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 12345, 12345)
    expected = rf"{tmp_path}/store: belongs to user 12345; expected a folder of this user \(0\)"
    with pytest.raises(DataError, match=expected):
        load(PreparedStore(tmp_path / "store"), "x")
    assert files(tmp_path / "store") == []


@as_root
def test_a_link_of_another_user_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for link, root in ((tmp_path / "store", tmp_path / "store"), (tmp_path / "above", tmp_path / "above" / "store")):
        link.symlink_to(tmp_path / "mine")
        os.lchown(link, 12345, 12345)
        with pytest.raises(DataError, match=rf"{link} is a symbolic link of user 12345; expected a folder"):
            load(PreparedStore(root), "x")
    assert files(tmp_path / "mine") == []


@as_root
def test_a_link_to_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o777)
    os.chown(tmp_path / "theirs", 12345, 12345)
    (tmp_path / "store").symlink_to(tmp_path / "theirs")
    with pytest.raises(DataError, match="store: belongs to user 12345"):
        load(PreparedStore(tmp_path / "store"), "x")


def test_ones_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    load(PreparedStore(tmp_path / "store"), "x")
    assert load(PreparedStore(tmp_path / "disk"), "x") == 0


def test_what_is_no_folder_or_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, result in (("file", "found a file"), ("lost", "No such file"), ("loop", r"cannot be used \(")):
        with pytest.raises(DataError, match=rf"{tmp_path}/{name}: .*{result}"):
            load(PreparedStore(tmp_path / name), "x")
    with pytest.raises(DataError, match=r"file/store: cannot be used \(File exists\)"):
        load(PreparedStore(tmp_path / "file" / "store"), "x")


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    (folder / "thesis.tex").write_text("x")
    for use in (lambda: load(PreparedStore(folder), "x"), lambda: StoreFolder.existing(folder)):
        with pytest.raises(DataError, match=rf"{folder}: found (other files \(thesis.tex|no {MARKER})"):
            use()
    assert [file.name for file in files(folder)] == ["thesis.tex"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("part", ["packs", "blobs", "digests", "locks", "unfinished"])
def test_a_part_that_leads_elsewhere_is_refused(tmp_path: Path, part: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    StoreFolder.opened(tmp_path / "store")
    (tmp_path / "store" / part).rmdir()
    (tmp_path / "store" / part).symlink_to(tmp_path / "mine")
    for use in (StoreFolder.opened, StoreFolder.existing):
        with pytest.raises(DataError, match=rf"store/{part}: found a symbolic link; expected a folder of this user"):
            use(tmp_path / "store")
    assert (tmp_path / "mine" / "thesis.tex").exists()


READING = """
import os, sys
from pathlib import Path
os.setgroups([]), os.setgid(12345), os.setuid(12345)
for path in map(Path, sys.argv[1:]):
    try:
        path.read_bytes()
        print("read", path)
    except PermissionError:
        pass
"""


@as_root
def test_another_user_reads_nothing() -> None:
    """A process of another user tries every file, in a folder that it may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        load(PreparedStore(folder / "store"), "x")
        (folder / "open").write_text("x")
        paths = [str(path) for path in (*files(folder / "store"), folder / "open")]
        command = [sys.executable, "-I", "-S", "-c", READING, *paths]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert len(paths) > 4
    assert done.stdout.splitlines() == [f"read {folder}/open"]


# --- limits


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    room_for_two = PreparedStore(tmp_path, StoreLimits(max_bytes=3 * BYTES - 1))
    assert load(room_for_two, "a") == load(room_for_two, "b") == 1
    age_of_packs(tmp_path, 2 * DAY, 1 * DAY)
    # Used again.
    assert load(room_for_two, "a") == 0
    assert load(room_for_two, "c") == 1
    assert len(files(tmp_path / "blobs")) == len(files(tmp_path / "packs")) == 2
    assert sum(file.stat().st_size for file in files(tmp_path)) <= room_for_two.limits.max_bytes
    assert load(room_for_two, "a") == load(room_for_two, "c") == 0
    assert load(room_for_two, "b") == 1


def test_what_is_in_use_stays_though_it_is_too_much(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = PreparedStore(tmp_path, StoreLimits(max_bytes=1))
    assert load(store, "a") == 1
    assert load(store, "a") == 0
    assert "in use at a time" not in caplog.text
    assert load(store, "b") == 1
    assert load(store, "a") == 1
    assert "more than 0.0 GiB are in use at a time" in caplog.text


def test_what_other_packs_need_stays(tmp_path: Path) -> None:
    store = PreparedStore(tmp_path, StoreLimits(max_bytes=2 * BYTES - 1))
    load(store, "a", value=1.0)
    load(store, "b", value=1.0)
    assert len(files(tmp_path / "blobs")) == 1
    age_of_packs(tmp_path, 2 * DAY, 1 * DAY)
    load(store, "c", value=2.0)
    assert len(files(tmp_path / "packs")) == len(files(tmp_path / "blobs")) == 1
    other = tmp_path / "other"
    load(PreparedStore(other), "a", value=1.0)
    load(PreparedStore(other), "b", value=1.0)
    age_of_packs(other, 40 * DAY, 1 * DAY)
    load(PreparedStore(other), "c", value=2.0)
    assert len(files(other / "packs")) == len(files(other / "blobs")) == 2
    assert load(PreparedStore(other), "b", value=1.0) == 0


def test_what_is_too_old_goes_when_the_store_is_opened(tmp_path: Path) -> None:
    store = PreparedStore(tmp_path, StoreLimits(max_age=10 * DAY))
    load(store, "a")
    load(store, "b")
    (tmp_path / "digests" / "old").write_text("{}")
    os.utime(tmp_path / "digests" / "old", (0, 0))
    age_of_packs(tmp_path, 11 * DAY, 9 * DAY)
    assert load(store, "b") == 0
    assert len(files(tmp_path / "packs")) == 2, "looked for once an hour"
    os.utime(tmp_path / MARKER, (time.time() - 3700,) * 2)
    assert load(store, "b") == 0
    assert len(files(tmp_path / "packs")) == len(files(tmp_path / "blobs")) == 1
    assert files(tmp_path / "digests") == []
    assert load(store, "a") == 1


def test_what_nobody_needs_goes(tmp_path: Path) -> None:
    store = PreparedStore(tmp_path)
    load(store, "a")
    (tmp_path / "blobs" / ("0" * 64)).write_bytes(b"left by a process that was killed")
    (tmp_path / "packs" / "damaged").write_bytes(b"x")
    load(store, "b")
    assert len(files(tmp_path / "packs")) == len(files(tmp_path / "blobs")) == 2
    load(store, "c")
    assert len(files(tmp_path / "locks")) == 2, "of the store, and of what was prepared last"


# --- clearing


def test_a_clearing_removes_every_file_of_the_store_and_nothing_else(tmp_path: Path) -> None:
    store = PreparedStore(tmp_path / "store")
    load(store, "a")
    load(store, "b")
    (tmp_path / "beside").write_text("x")
    (store.root / "notes.txt").write_text("somebody's own")
    folder = StoreFolder.existing(store.root)
    assert folder is not None
    before = folder.usage()
    assert (before.packs, before.being_prepared) == (2, 0)
    assert 2 * BYTES < before.num_bytes < 3 * BYTES
    assert folder.clear() == store_folder.StoreUsage()
    assert [file.name for file in files(store.root)] == [MARKER, "store", "notes.txt"]
    assert (tmp_path / "beside").exists()
    assert load(store, "a") == 1


def test_a_clearing_while_a_process_prepares_and_another_reads(tmp_path: Path) -> None:
    store, begun, go_on, result = PreparedStore(tmp_path), threading.Event(), threading.Event(), []

    def waiting(places: Sequence[int]) -> Iterator[PreparedCase]:
        begun.set()
        assert go_on.wait(30)
        yield PreparedCase({"image": torch.ones(1, LENGTH)})

    _, flat = store.load(
        [WantedCase("r", "here")], KINDS, lambda _: iter([PreparedCase({"image": torch.full((1, LENGTH), 5.0)})])
    )
    thread = threading.Thread(target=lambda: result.append(store.load([WantedCase("w", "here")], KINDS, waiting)))
    thread.start()
    assert begun.wait(30)
    folder = StoreFolder.existing(tmp_path)
    assert folder is not None
    left = folder.clear()
    assert (left.packs, left.being_prepared) == (0, 1)
    go_on.set()
    thread.join(30)
    assert torch.equal(result[0][1]["image"], torch.ones(LENGTH))
    assert torch.equal(flat["image"], torch.full((LENGTH,), 5.0)), "what is mapped stays readable"
    assert folder.usage().packs == 1


def test_nothing_there_is_nothing_to_clear(tmp_path: Path) -> None:
    assert StoreFolder.existing(tmp_path / "absent") is None
    assert not (tmp_path / "absent").exists()


def test_a_folder_is_checked_and_not_made_private_files_are_new(tmp_path: Path) -> None:
    assert whole_files.check_owner(tmp_path) == tmp_path.resolve()
    with whole_files.new_private_file(tmp_path / "new") as stream:
        stream.write(b"x")
    with pytest.raises(FileExistsError), whole_files.new_private_file(tmp_path / "new"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic links"):
        whole_files.open_private_file(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="pipe is no file of this user"):
        whole_files.open_private_file(tmp_path / "pipe")
