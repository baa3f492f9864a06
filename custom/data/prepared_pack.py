"""A pack of prepared cases on disk: one flat file per kind of tensor, and an index of what lies where."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .whole_files import new_private_file, open_private_file

# Of the index; another one counts as damaged, and the cases are prepared again.
_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")

# What reading a file that somebody damaged raises.
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

Place = tuple[int, tuple[int, ...]]


class WantedCase(NamedTuple):
    """A case that is asked for.

    Attributes:
        key: of everything that its tensors are made from, wherever the files lie.
        origin: where the files lie; a reason for leaving the case out names them, and counts there alone.
    """

    key: str
    origin: str

    @property
    def hashed_origin(self) -> str:
        """What is stored of the origin."""
        return hashlib.sha256(self.origin.encode(errors="surrogateescape")).hexdigest()[:32]


@dataclass(frozen=True)
class StoredCase:
    """One prepared case, or why it could not be prepared.

    Attributes:
        key: see :class:`WantedCase`.
        tensors: kind → position of the first element in the kind's file and shape; empty for an excluded case.
        spacing: size of a voxel along the spatial axes of a sample in millimetres, None in pixels.
        reason: why the case is excluded, None if it is not.
        slice_spacing: distance of neighbouring slices in millimetres, None where there are none.
        origin: a hash of where the files lie; None for a usable case, which is the same everywhere.
    """

    key: str
    tensors: dict[str, Place]
    spacing: tuple[float, ...] | None = None
    reason: str | None = None
    slice_spacing: float | None = None
    origin: str | None = None

    def is_for(self, wanted: WantedCase) -> bool:
        """Return whether it is what is asked for."""
        return self.key == wanted.key and (self.origin is None or self.origin == wanted.hashed_origin)


@dataclass(frozen=True)
class PreparedCase:
    """A case as it comes from the pipeline: tensors by kind (float32 or uint8), and spacings as in `StoredCase`."""

    tensors: dict[str, torch.Tensor]
    spacing: tuple[float, ...] | None = None
    slice_spacing: float | None = None


@dataclass(frozen=True)
class Pack:
    """Cases that lie one after the other, in the order in which they were asked for.

    Attributes:
        blobs: kind → name of the file with the kind's elements, a digest of its content.
        cases: the cases.
    """

    blobs: dict[str, str]
    cases: tuple[StoredCase, ...]

    def check(self, blobs: Path, kinds: Mapping[str, torch.dtype]) -> None:
        """Check that the tensors of every kind lie one after the other and fill its file; their values are not read.

        Raises:
            ValueError: if they do not.
            OSError: if a file is not there.
        """
        for kind, dtype in kinds.items():
            end = 0
            for start, shape in (case.tensors[kind] for case in self.cases if kind in case.tensors):
                if start != end or any(length < 0 for length in shape):
                    raise ValueError(f"a tensor lies at {start}, after one that ends at {end}")
                end += math.prod(shape)
            result = (blobs / self.blobs[kind]).stat().st_size if kind in self.blobs else 0
            if result != end * dtype.itemsize:
                raise ValueError(f"its {kind} file has {result} bytes")

    def map(self, blobs: Path, kinds: Mapping[str, torch.dtype]) -> dict[str, torch.Tensor]:
        """Return the flat tensor of every kind, mapped: memory holds what is being used.

        Raises:
            OSError: if a file is not there, or not this user's.
        """
        mapped = {}
        for kind, name in self.blobs.items():
            with open_private_file(blobs / name) as file:
                # Copy-on-write: torch has no read-only tensors, and nobody may change the file by accident.
                array = np.memmap(file, dtype=torch.empty(0, dtype=kinds[kind]).numpy().dtype, mode="c")
            mapped[kind] = torch.from_numpy(array)
        return mapped


def read_pack(file: Path) -> Pack:
    """Read the index of a pack.

    Raises:
        FileNotFoundError: if there is none.
        OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError: if it is damaged.
    """
    with open_private_file(file) as stream:
        blobs, cases = _blobs(stream.readline()), stream.read()
    result = tuple(
        StoredCase(
            case["key"],
            {kind: (start, tuple(shape)) for kind, (start, shape) in case["tensors"].items()},
            None if case["spacing"] is None else tuple(case["spacing"]),
            case["reason"],
            case["slice_spacing"],
            case["origin"],
        )
        for case in json.loads(cases)
    )
    return Pack(blobs, result)


def blobs_of_pack(file: Path) -> frozenset[str]:
    """Return the names of the files that a pack needs, without reading its cases.

    Raises:
        OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError: as :func:`read_pack`.
    """
    with open_private_file(file) as stream:
        return frozenset(_blobs(stream.readline()).values())


def write_pack(file: Path, pack: Pack) -> None:
    """Write the index of a pack into a new file."""
    header = {"format": _FORMAT, "blobs": pack.blobs}
    content = f"{json.dumps(header)}\n{json.dumps([asdict(case) for case in pack.cases])}\n"
    with new_private_file(file) as stream:
        stream.write(content.encode())


def _blobs(header: bytes) -> dict[str, str]:
    content: Any = json.loads(header)
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']!r:.20}")
    blobs: dict[str, str] = dict(content["blobs"].items())
    if not all(_DIGEST.fullmatch(name) for name in blobs.values()):
        raise ValueError(f"its files are called {sorted(blobs.values())!r:.200}")
    return blobs


def case_tensors(case: StoredCase, flat: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of a case by kind, without a copy."""
    return {kind: view(flat[kind], place) for kind, place in case.tensors.items()}


def prepared_again(case: StoredCase, flat: Mapping[str, torch.Tensor]) -> PreparedCase | str:
    """Return a stored case as it came from the pipeline, or the reason why it is excluded."""
    if case.reason is not None:
        return case.reason
    return PreparedCase(case_tensors(case, flat), case.spacing, case.slice_spacing)


def view(flat: torch.Tensor, place: Place) -> torch.Tensor:
    """Return the tensor at a place of a flat one, without a copy."""
    start, shape = place
    return flat.as_strided(shape, _strides(shape), start)


@cache
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a tensor whose elements lie one after the other."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def same_cases(cases: Sequence[StoredCase], wanted: Sequence[WantedCase]) -> bool:
    """Return whether stored cases are those that are asked for, in order."""
    return len(cases) == len(wanted) and all(case.is_for(one) for case, one in zip(cases, wanted, strict=True))
