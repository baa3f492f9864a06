"""Which files are read for their digests, and which are known."""

import hashlib
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedannot.custom.data import file_digests
from fedannot.custom.data.file_digests import FileContent, FileDigests
from fedannot.custom.data.store_folder import StoreFolder


class Reading:
    """Digests of files in a store, and which files were read for them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.store, self.read = StoreFolder.opened(folder / "store"), list[str]()
        original = file_digests._content
        patch.setattr(file_digests, "_content", lambda path: (self.read.append(Path(path).name), original(path))[1])

    def __call__(self, *files: Path, scope: str = "site") -> list[FileContent]:
        result = FileDigests(self.store, scope).contents(map(str, files))
        return [result[str(file)] for file in files]

    def names(self) -> list[str]:
        names, self.read = sorted(self.read), []
        return names


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """With a clock that is a minute ahead: what is written now has been at rest."""
    ahead = SimpleNamespace(time_ns=lambda: time.time_ns() + 60 * 10**9)
    monkeypatch.setattr(file_digests, "time", ahead)
    return Reading(tmp_path, monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a.png", "b.png", "c.nii.gz")]
    for file in made:
        file.write_bytes(f"content of {file.name}".encode())
    return made


def test_a_digest_is_that_of_the_content_and_files_are_read_once(reading: Reading, files: list[Path]) -> None:
    expected = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    for _ in range(2):
        result = reading(*files)
        assert [content.text for content in result] == [
            f"content  {expected[0]}",
            f"content  {expected[1]}",
            f"content .nii.gz {expected[2]}",
        ]
        assert all(content.is_still(str(file)) for content, file in zip(result, files, strict=True))
    assert reading.names() == ["a.png", "b.png", "c.nii.gz"]


def test_a_change_with_restored_size_and_time_is_read(reading: Reading, files: list[Path]) -> None:
    (before,) = reading(files[0])
    status = files[0].stat()
    files[0].write_bytes(files[0].read_bytes().swapcase())
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files[0].stat().st_mtime_ns == status.st_mtime_ns
    assert not before.is_still(str(files[0]))
    (after,) = reading(files[0])
    assert before.text != after.text
    assert reading.names() == ["a.png", "a.png"]


def test_what_has_just_changed_is_read_again(
    reading: Reading, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tick of the disk's clock it may change once more without a trace."""
    monkeypatch.setattr(file_digests, "time", time)
    reading(files[0])
    reading(files[0])
    assert reading.names() == ["a.png", "a.png"]
    os.utime(files[0], (time.time() + 1e6,) * 2)
    monkeypatch.setattr(file_digests, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + 60 * 10**9))
    reading(files[0])
    reading(files[0])
    assert reading.names() == ["a.png"], "a wrong date of the content does not matter"


def test_a_link_that_leads_elsewhere_now_is_read(reading: Reading, files: list[Path], tmp_path: Path) -> None:
    link = tmp_path / "transport.png"
    link.symlink_to(files[0])
    (before,) = reading(link)
    link.unlink()
    link.symlink_to(files[1])
    (after,) = reading(link)
    assert before.text != after.text


def test_what_cannot_be_read_says_where_it_is_and_is_tried_again(reading: Reading, tmp_path: Path) -> None:
    absent, folder, pipe = tmp_path / "absent.png", tmp_path / "folder.png", tmp_path / "pipe.png"
    folder.mkdir()
    os.mkfifo(pipe)
    for _ in range(2):
        result = reading(absent, folder, pipe)
        assert [content.text.split()[:3] for content in result] == [
            ["unreadable", str(absent), "FileNotFoundError"],
            ["unreadable", str(folder), "IsADirectoryError"],
            ["unreadable", str(pipe), "OSError"],
        ]
        assert not any(content.is_readable for content in result)
    assert len(reading.names()) == 6
    absent.write_bytes(b"x")
    assert reading(absent)[0].is_readable


def test_a_list_is_of_the_files_of_now_and_names_none(reading: Reading, files: list[Path]) -> None:
    reading(*files)
    reading(*files[:2], scope="other")
    reading(files[0])
    lists = sorted((reading.store.digests).iterdir())
    contents = [json.loads(file.read_text(encoding="utf-8"))["digests"] for file in lists]
    assert sorted(map(len, contents)) == [1, 2]
    assert not any(file.name in str(contents) or str(file.parent) in str(contents) for file in files)
    assert {file.stat().st_mode & 0o777 for file in lists} == {0o600}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"format": 2, "digests": {}}', b'{"format": 1}'])
def test_a_damaged_list_is_made_again(reading: Reading, files: list[Path], content: bytes) -> None:
    expected = reading(*files)
    (made,) = reading.store.digests.iterdir()
    made.write_bytes(content)
    assert reading(*files) == expected
    assert len(reading.names()) == 6
    assert reading(*files) == expected
    assert reading.names() == []


def test_without_room_for_a_list_files_are_read_again(
    reading: Reading, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_digests, "new_private_file", full)
    assert reading(*files) == reading(*files)
    assert list(reading.store.digests.iterdir()) == []
