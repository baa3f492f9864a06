"""Archives of arrays that are none: whatever they make numpy raise, their reader says one thing."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedannot.custom.audit.case_arrays import read_case_arrays
from fedannot.custom.data import array_files
from fedannot.custom.data.array_files import read_arrays
from fedannot.transforms.errors import DataError


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


class Attack:
    """Makes a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.file,)


NO_ARCHIVES = {"nothing": b"", "text": b"arrays", "one array": saved(np.zeros((2, 2), np.uint8)), "zip": b"PK\x03\x04"}


@pytest.mark.parametrize("content", NO_ARCHIVES.values(), ids=NO_ARCHIVES)
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match="no archive of arrays"):
        read_arrays(content)
    file = tmp_path / "case.npz"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"case\.npz: it is no archive of arrays.*; expected the arrays of an audited"):
        read_case_arrays(file)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    made, stream = tmp_path / "made", io.BytesIO()
    attack = np.array([Attack(made)], dtype=object)
    np.savez(stream, prediction=attack)
    for content in (stream.getvalue(), pickle.dumps(Attack(made))):
        with pytest.raises(ValueError, match="no archive of arrays"):
            read_arrays(content)
    assert not made.exists()


def archive_of(method: int = zipfile.ZIP_DEFLATED, *names: str, size: int = 2**18) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in names:
            archive.writestr(name, saved(np.zeros(size, np.uint8)))
    return stream.getvalue()


def test_an_archive_that_would_take_too_much_memory_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its arrays alone would."""
    content = archive_of(zipfile.ZIP_DEFLATED, "a.npy", "b.npy", "c.npy")
    assert len(content) < 2**12
    assert [array.size for array in read_arrays(content).values()] == 3 * [2**18]
    monkeypatch.setattr(array_files, "MAX_UNPACKED_BYTES", 2**19)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", None)
    with pytest.raises(ValueError, match=r"it would take 786\d\d\d bytes, expected at most 524288"):
        read_arrays(content)


def test_an_entry_is_read_no_further_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of 256 KiB in an entry that claims to have 1000 bytes."""
    content = bytearray(archive_of(zipfile.ZIP_DEFLATED, "a.npy"))
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (1000).to_bytes(4, "little")
    monkeypatch.setattr(array_files, "MAX_UNPACKED_BYTES", 2**12)
    with pytest.raises(ValueError, match="no archive of arrays"):
        read_arrays(bytes(content))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_python_unpacks_without_bounds_is_refused(method: int) -> None:
    """Of these, all that a block holds is unpacked whatever is asked for."""
    assert len(read_arrays(archive_of(zipfile.ZIP_STORED, "a.npy"))) == 1
    with pytest.raises(ValueError, match="packed otherwise than numpy does"):
        read_arrays(archive_of(method, "a.npy"))


def test_names_that_stand_there_twice_are_refused() -> None:
    """One reader takes the first, another one the last."""
    with pytest.raises(ValueError, match="a name stands there twice"):
        read_arrays(archive_of(zipfile.ZIP_DEFLATED, "a.npy", "a"))
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = archive_of(zipfile.ZIP_DEFLATED, "a.npy", "a.npy")
    with pytest.raises(ValueError, match="a name stands there twice"):
        read_arrays(content)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """All of it would take 5 GiB of memory, and nothing of the disk."""
    file = tmp_path / "large.npz"
    with file.open("wb") as stream:
        os.truncate(stream.fileno(), 5 * 2**30)
    with pytest.raises(ValueError, match="it has 5368709120 bytes, expected at most 4294967296"):
        read_arrays(file)
    with pytest.raises(DataError, match=r"large\.npz: it has 5368709120 bytes"):
        read_case_arrays(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        read_arrays(tmp_path / "absent.npz")
