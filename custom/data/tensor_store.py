"""Prepared cases on disk: one flat file per kind of tensor, mapped into memory and read as far as it is used."""

import fcntl
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from .whole_files import private_file, private_folder

_LOGGER = printable_logger(__name__)

_INDEX = "index.json"
_LOCK = "lock"
_LONGEST_WAIT = 3600.0
_SECONDS_BETWEEN_TRIES = 0.05


@dataclass(frozen=True)
class StoredCase:
    """One prepared case, or why it could not be prepared.

    Attributes:
        key: of everything that it was made from.
        tensors: kind → position of the first element in the kind's file and shape; empty for an excluded case.
        spacing: size of a voxel along the spatial axes of a sample in millimetres, None in pixels.
        reason: why the case is excluded, None if it is not.
        slice_spacing: distance of neighbouring slices in millimetres, None where there are none.
    """

    key: str
    tensors: dict[str, tuple[int, tuple[int, ...]]]
    spacing: tuple[float, ...] | None = None
    reason: str | None = None
    slice_spacing: float | None = None


@dataclass(frozen=True)
class PreparedCase:
    """A case as it comes from the pipeline: tensors by kind (float32 or uint8), and spacings as in `StoredCase`."""

    tensors: dict[str, torch.Tensor]
    spacing: tuple[float, ...] | None = None
    slice_spacing: float | None = None


class TensorStore:
    """The prepared cases of one site and section.

    Cases lie one after the other in the order in which they were asked for, so that cases of equal shape are one tensor
    without a copy. Tensors are mapped: memory holds what is being used, however many cases there are. The files are
    private to the site's own disk; nothing else may lie in the folder. One process or thread at a time works there.
    When files are opened their lengths are checked, not their content.

    Args:
        folder: where the files lie; made if need be.
        kinds: the kinds of tensors and their types, float32 or uint8.
    """

    def __init__(self, folder: Path, kinds: Mapping[str, torch.dtype]) -> None:
        self._folder = folder
        self._kinds = dict(kinds)

    def load(
        self, keys: Sequence[str], prepare: Callable[[Sequence[int]], Iterator[PreparedCase | str]]
    ) -> tuple[list[StoredCase], dict[str, torch.Tensor]]:
        """Return the cases of these keys, preparing those that are not there, and the flat tensor of every kind.

        The files are written anew where anything is missing, with the cases that are there copied, and take the place
        of the old ones in one step; a reader keeps what it has mapped. Writing to a mapped tensor changes no file.

        Args:
            keys: a key of each case, in order.
            prepare: gives the cases at these positions one after the other, or the reason why one cannot be used.

        Raises:
            DataError: if another process works in the folder for more than an hour.
        """
        private_folder(self._folder)
        with _alone_in(self._folder):
            generation, cases = self._read_index() or (None, [])
            if generation is None or [case.key for case in cases] != list(keys):
                old = {} if generation is None else self._map(generation)
                try:
                    generation, cases = self._renewed(keys, cases, old, prepare)
                finally:
                    self._remove_all_but(generation)
            return cases, self._map(generation)

    def _renewed(
        self,
        keys: Sequence[str],
        cases: Sequence[StoredCase],
        old: Mapping[str, torch.Tensor],
        prepare: Callable[[Sequence[int]], Iterator[PreparedCase | str]],
    ) -> tuple[str, list[StoredCase]]:
        """Write the files and, at last, the index that makes them count."""
        stored = {case.key: case for case in cases}
        missing = [position for position, key in enumerate(keys) if key not in stored]
        generation = secrets.token_hex(4)
        renewed = self._write(generation, keys, stored, old, prepare(missing))
        self._write_index(generation, renewed)
        return generation, renewed

    def _write(
        self,
        generation: str,
        keys: Sequence[str],
        stored: Mapping[str, StoredCase],
        old: Mapping[str, torch.Tensor],
        prepared: Iterator[PreparedCase | str],
    ) -> list[StoredCase]:
        cases: list[StoredCase] = []
        files = {kind: private_file(self._file(generation, kind)).open("wb") for kind in self._kinds}
        try:
            for key in keys:
                known = stored.get(key)
                case = next(prepared) if known is None else _taken_from(known, old)
                if isinstance(case, str):
                    cases.append(StoredCase(key, {}, reason=case))
                else:
                    places = self._append(files, case)
                    cases.append(StoredCase(key, places, case.spacing, slice_spacing=case.slice_spacing))
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in files.values():
                file.close()
        return cases

    def _append(self, files: Mapping[str, BinaryIO], case: PreparedCase) -> dict[str, tuple[int, tuple[int, ...]]]:
        places = {}
        for kind, tensor in case.tensors.items():
            if tensor.dtype != self._kinds[kind]:
                raise TypeError(f"Expected {kind} as {self._kinds[kind]}, but the pipeline gives {tensor.dtype}.")
            places[kind] = (files[kind].tell() // tensor.element_size(), tuple(tensor.shape))
            files[kind].write(tensor.contiguous().numpy().data)
        return places

    def _map(self, generation: str) -> dict[str, torch.Tensor]:
        mapped = {}
        for kind, dtype in self._kinds.items():
            file = self._file(generation, kind)
            if file.stat().st_size:
                # Copy-on-write: torch has no read-only tensors, and nobody may change the file by accident.
                array = np.memmap(file, dtype=torch.empty(0, dtype=dtype).numpy().dtype, mode="c")
                mapped[kind] = torch.from_numpy(array)
        return mapped

    def _file(self, generation: str, kind: str) -> Path:
        return self._folder / f"{kind}-{generation}.bin"

    def _read_index(self) -> tuple[str, list[StoredCase]] | None:
        file = self._folder / _INDEX
        if not file.is_file():
            return None
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
            cases = [
                StoredCase(
                    case["key"],
                    {kind: (start, tuple(shape)) for kind, (start, shape) in case["tensors"].items()},
                    None if case["spacing"] is None else tuple(case["spacing"]),
                    case["reason"],
                    case["slice_spacing"],
                )
                for case in content["cases"]
            ]
            generation = str(content["generation"])
            self._check(generation, cases)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # Whatever is wrong with prepared data, they can be made again.
            _LOGGER.warning("The prepared data in %s cannot be read and are made again: %s", self._folder, error)
            return None
        return generation, cases

    def _check(self, generation: str, cases: Sequence[StoredCase]) -> None:
        """Check that the tensors of every kind lie one after the other and fill its file."""
        if not re.fullmatch("[0-9a-f]+", generation):
            raise ValueError(f"the generation is {generation!r}")
        for kind, dtype in self._kinds.items():
            end = 0
            for start, shape in (case.tensors[kind] for case in cases if kind in case.tensors):
                if start != end or any(length < 0 for length in shape):
                    raise ValueError(f"a tensor lies at {start}, after one that ends at {end}")
                end += math.prod(shape)
            found = self._file(generation, kind).stat().st_size
            if found != end * torch.empty(0, dtype=dtype).element_size():
                raise ValueError(f"{self._file(generation, kind).name} has {found} bytes")

    def _write_index(self, generation: str, cases: Sequence[StoredCase]) -> None:
        content = {"generation": generation, "cases": [asdict(case) for case in cases]}
        unfinished = self._folder / f"{_INDEX}-{generation}"
        with private_file(unfinished).open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / _INDEX)

    def _remove_all_but(self, generation: str | None) -> None:
        """Remove older generations, which who has them mapped keeps, and what an interrupted process has left."""
        kept = {_INDEX, _LOCK} | {self._file(generation, kind).name for kind in self._kinds if generation}
        for file in self._folder.iterdir():
            if file.name not in kept:
                file.unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread works in a folder; the lock ends with the process that has it."""
    end = time.monotonic() + _LONGEST_WAIT
    with private_file(folder / _LOCK).open("ab") as file:
        while not _locked(file):
            if time.monotonic() > end:
                raise DataError(
                    f"{folder}: another process has prepared data there for more than {_LONGEST_WAIT:.0f} seconds; "
                    "expected it to finish. End it, or choose another folder."
                )
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some network disks have no locks. Sites have processes that share a folder only by mistake.
        _LOGGER.warning("%s: the disk has no locks (%s); no other process may use the folder now.", file.name, error)
    return True


def _taken_from(case: StoredCase, flat: Mapping[str, torch.Tensor]) -> PreparedCase | str:
    if case.reason is not None:
        return case.reason
    tensors = {kind: view(flat[kind], place) for kind, place in case.tensors.items()}
    return PreparedCase(tensors, case.spacing, case.slice_spacing)


def view(flat: torch.Tensor, place: tuple[int, tuple[int, ...]]) -> torch.Tensor:
    """Return the tensor at a place of a flat one, without a copy."""
    start, shape = place
    return flat[start : start + math.prod(shape)].view(shape)
