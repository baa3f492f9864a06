"""Archives of arrays that are none: whatever they make numpy raise, their reader says one thing."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from fedannot.custom.audit.case_arrays import read_case_arrays
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


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        read_arrays(tmp_path / "absent.npz")
