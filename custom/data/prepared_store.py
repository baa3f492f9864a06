"""Prepared cases of one participant on its own disk: by content, shared by runs, private, within limits."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ...transforms.printable import printable_logger
from .prepared_pack import (
    DAMAGED,
    Pack,
    Place,
    PreparedCase,
    StoredCase,
    WantedCase,
    prepared_again,
    read_pack,
    same_cases,
    write_pack,
)
from .store_folder import DEFAULT_LIMITS, StoreFolder, StoreLimits
from .whole_files import new_private_file, private_size

_LOGGER = printable_logger(__name__)

# A reader that finds a file gone between the index and the file looks again.
_TRIES = 5

Kinds = Mapping[str, torch.dtype]
Prepare = Callable[[Sequence[int]], Iterator[PreparedCase | str]]
Loaded = tuple[list[StoredCase], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class PreparedStore:
    """A participant's prepared cases.

    The cases of one list, a pack, lie one after the other, so that cases of equal shape are one tensor without a copy.
    Tensors are mapped: memory holds what is being used, however many cases there are. A pack is found by the content of
    its files, wherever they lie, and two packs with the same images share them. No name of a file is stored but in the
    reason why a case cannot be used. Nothing of it leaves the site. When files are opened their lengths are checked,
    not their content.

    Attributes:
        root: the store's folder, of mode 0700; made when it is first used.
        limits: how much it holds, and how long.
    """

    root: Path
    limits: StoreLimits = DEFAULT_LIMITS

    def open(self) -> StoreFolder:
        """Return the store's folder, made if need be, without what has not been used for too long.

        Raises:
            DataError: if the folder cannot be used; see :meth:`StoreFolder.opened`.
        """
        folder = StoreFolder.opened(self.root)
        folder.tidy_if_due(self.limits)
        return folder

    def load(self, wanted: Sequence[WantedCase], kinds: Kinds, prepare: Prepare) -> Loaded:
        """Return these cases, preparing those that are nowhere in the store, and the flat tensor of every kind.

        A pack is written in one step: an interrupted process leaves nothing of it. Writing to a mapped tensor changes
        no file. Other processes that want the same pack wait; those that want another one do not.

        Args:
            wanted: the cases, in order.
            kinds: the kinds of tensors and their types, float32 or uint8.
            prepare: gives the cases at these positions one after the other, or the reason why one cannot be used.

        Raises:
            DataError: if the store cannot be used, or another process prepares the same cases for more than an hour.
        """
        folder, name = self.open(), _pack_name(wanted)
        result = _stored(folder, name, wanted, kinds)
        if result is not None:
            return result
        with folder.alone(name):
            # Another process may have prepared them while this one waited.
            result = _stored(folder, name, wanted, kinds, warn=True)
            if result is None:
                writer = _PackWriter(folder, name, kinds)
                try:
                    cases = writer.write(wanted, _elsewhere(folder, wanted, kinds), prepare)
                    result = writer.finish(cases, self.limits)
                finally:
                    writer.remove_unfinished()
        return result


def _pack_name(wanted: Sequence[WantedCase]) -> str:
    return hashlib.sha256("\n".join(case.key for case in wanted).encode()).hexdigest()[:32]


def _stored(
    folder: StoreFolder, name: str, wanted: Sequence[WantedCase], kinds: Kinds, *, warn: bool = False
) -> Loaded | None:
    """The cases and tensors of a pack if it is there and undamaged."""
    file = folder.packs / name
    problem: Exception | None = None
    for _ in range(_TRIES):
        try:
            pack = read_pack(file)
        except FileNotFoundError:
            return None
        except DAMAGED as error:
            problem = error
            break
        try:
            pack.check(folder.blobs, kinds)
            flat = pack.map(folder.blobs, kinds)
        except DAMAGED as error:
            # Or another process has just removed it.
            problem = error
            continue
        if not same_cases(pack.cases, wanted):
            return None
        with suppress(OSError):
            os.utime(file)
        return list(pack.cases), flat
    if warn:
        # Whatever is wrong with prepared data, they can be made again.
        _LOGGER.warning("The prepared data in %s cannot be read and are made again: %s", file, problem)
    return None


def _elsewhere(
    folder: StoreFolder, wanted: Sequence[WantedCase], kinds: Kinds
) -> dict[tuple[str, str | None], PreparedCase | str]:
    """Cases that are wanted and lie in any pack, by key and origin, their tensors mapped."""
    needed = {case.key for case in wanted}
    result: dict[tuple[str, str | None], PreparedCase | str] = {}
    files = [Path(entry.path) for entry in sorted(os.scandir(folder.packs), key=_last_use, reverse=True)]
    for file in files:
        if len({key for key, _ in result}) == len(needed):
            break
        try:
            pack = read_pack(file)
            known = [case for case in pack.cases if case.key in needed and (case.key, case.origin) not in result]
            if known:
                pack.check(folder.blobs, kinds)
                flat = pack.map(folder.blobs, kinds)
                result.update({(case.key, case.origin): prepared_again(case, flat) for case in known})
        except DAMAGED:
            continue
    return result


def _last_use(entry: Any) -> float:
    try:
        return float(entry.stat(follow_symlinks=False).st_mtime)
    except FileNotFoundError:
        return 0.0


class _PackWriter:
    """Writes one pack, of which this process has the lock.

    Args:
        folder: the store.
        name: the pack's name.
        kinds: as in :meth:`PreparedStore.load`.
    """

    def __init__(self, folder: StoreFolder, name: str, kinds: Kinds) -> None:
        self._folder, self._name, self._kinds = folder, name, kinds
        self._prefix = f"{name}-{secrets.token_hex(8)}"
        self._digests = {kind: hashlib.sha256() for kind in kinds}
        self._ends = dict.fromkeys(kinds, 0)

    def write(
        self,
        wanted: Sequence[WantedCase],
        known: Mapping[tuple[str, str | None], PreparedCase | str],
        prepare: Prepare,
    ) -> list[StoredCase]:
        """Write the tensors of all cases, known ones and newly prepared ones, into unfinished files."""
        result = [known.get((case.key, None), known.get((case.key, case.hashed_origin))) for case in wanted]
        prepared = prepare([position for position, case in enumerate(result) if case is None])
        stored: list[StoredCase] = []
        with ExitStack() as files:
            streams = {kind: files.enter_context(new_private_file(self._unfinished(kind))) for kind in self._kinds}
            for one, case in zip(wanted, result, strict=True):
                case = next(prepared) if case is None else case  # noqa: PLW2901
                if isinstance(case, str):
                    stored.append(StoredCase(one.key, {}, reason=case, origin=one.hashed_origin))
                else:
                    places = self._append(streams, case)
                    stored.append(StoredCase(one.key, places, case.spacing, slice_spacing=case.slice_spacing))
        return stored

    def finish(self, cases: Sequence[StoredCase], limits: StoreLimits) -> Loaded:
        """Put the files in their places and, at last, the index that makes them count; make room for them."""
        blobs = {kind: digest.hexdigest() for kind, digest in self._digests.items() if self._ends[kind]}
        pack = Pack(blobs, tuple(cases))
        write_pack(self._unfinished("index"), pack)
        with self._folder.alone():
            for kind, blob in blobs.items():
                unfinished, target = self._unfinished(kind), self._folder.blobs / blob
                # What another pack has written already is the same.
                if private_size(target) != unfinished.stat().st_size:
                    unfinished.replace(target)
            self._unfinished("index").replace(self._folder.packs / self._name)
            flat = pack.map(self._folder.blobs, self._kinds)
            self._folder.tidy(limits, keep=self._name)
        return list(pack.cases), flat

    def remove_unfinished(self) -> None:
        """Remove what has not found its place."""
        for kind in (*self._kinds, "index"):
            self._unfinished(kind).unlink(missing_ok=True)

    def _append(self, streams: Mapping[str, BinaryIO], case: PreparedCase) -> dict[str, Place]:
        places = {}
        for kind, tensor in case.tensors.items():
            if tensor.dtype != self._kinds[kind]:
                raise TypeError(f"Expected {kind} as {self._kinds[kind]}, but the pipeline gives {tensor.dtype}.")
            content = tensor.contiguous().numpy().data
            places[kind] = (self._ends[kind], tuple(tensor.shape))
            self._ends[kind] += tensor.numel()
            self._digests[kind].update(content)
            streams[kind].write(content)
        return places

    def _unfinished(self, kind: str) -> Path:
        return self._folder.unfinished / f"{self._prefix}-{kind}"
