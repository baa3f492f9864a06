"""The folder of a store of prepared cases: what lies where, how much it is, and what is removed when."""

import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from .file_locks import locked, locked_if_free
from .prepared_pack import DAMAGED, blobs_of_pack
from .whole_files import close_to_others, make_private_folder, make_private_part, new_private_file

_LOGGER = printable_logger(__name__)

# Says that a folder is a store, which may be cleared. Its time is that of the last look for what is too old.
MARKER = "fedannot-prepared.json"
_STORE_LOCK = "store"
_DAY, _HOUR = 86400.0, 3600.0


@dataclass(frozen=True)
class StoreLimits:
    """How much a store holds, and how long.

    Attributes:
        max_bytes: of all files; the cases that are in use stay, even if they alone are more.
        max_age: seconds since the last use.
    """

    max_bytes: int = 20 * 2**30
    max_age: float = 30 * _DAY


DEFAULT_LIMITS = StoreLimits()


@dataclass(frozen=True)
class StoreUsage:
    """What a store holds.

    Attributes:
        packs: of prepared cases: one for each list of cases and of annotations in use.
        num_bytes: of all files.
        being_prepared: how many packs a process prepares now.
    """

    packs: int = 0
    num_bytes: int = 0
    being_prepared: int = 0


@dataclass(frozen=True)
class _Entry:
    """What is removed as a whole: the index of a pack, or a list of digests."""

    file: Path
    last_use: float
    num_bytes: int
    blobs: frozenset[str]


class StoreFolder:
    """A store's folder, which this user owns and nobody else can open.

    Args:
        root: where it really is; see :meth:`opened` and :meth:`existing`.

    Attributes:
        packs: an index for each pack; its time is that of its last use.
        blobs: flat tensors, called by the digest of their content: what several packs have lies there once.
        digests: digests of the content of files that have not changed since.
        unfinished: what processes are writing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packs, self.blobs, self.digests = root / "packs", root / "blobs", root / "digests"
        self.unfinished, self._locks = root / "unfinished", root / "locks"

    @classmethod
    def opened(cls, folder: Path) -> "StoreFolder":
        """Open a store, made if it is not there. What others could have put there is removed.

        Raises:
            DataError: if the folder holds other files, belongs to another user, is reached by a link of another user,
                or cannot be closed to others.
        """
        store = cls(make_private_folder(folder))
        marker = store.root / MARKER
        if not marker.exists():
            others = sorted({entry.name for entry in store.root.iterdir()} - {MARKER})
            # Another process may have begun it in the meantime: its marker comes first.
            if others and not marker.exists():
                raise DataError(
                    f"{folder}: found other files ({others[0]}, …); expected an empty or absent folder, or one of "
                    "prepared images. Name another folder."
                )
        was_open = close_to_others(store.root)
        with suppress(FileExistsError), new_private_file(marker) as stream:
            stream.write(b'{"format": 1}\n')
        for part in (store.packs, store.blobs, store.digests, store.unfinished, store._locks):
            make_private_part(part)
        if was_open:
            _LOGGER.warning("%s: other users could write there. What it held is removed and prepared again.", folder)
            store.clear()
        return store

    @classmethod
    def existing(cls, folder: Path) -> "StoreFolder | None":
        """Open a store that is there, None if there is nothing; a folder that is no store is refused.

        Raises:
            DataError: as :meth:`opened`, or if the folder is no store.
        """
        if not os.path.lexists(folder):
            return None
        if not (folder / MARKER).is_file():
            raise DataError(f"{folder}: found no {MARKER}; expected a folder of prepared images. Nothing is removed.")
        return cls.opened(folder)

    @contextmanager
    def alone(self, pack: str = _STORE_LOCK) -> Iterator[None]:
        """Let no other process or thread prepare a pack, or add to the store and take from it.

        Raises:
            DataError: if another one does so for more than an hour.
        """
        with locked(self._locks / pack):
            yield

    def tidy_if_due(self, limits: StoreLimits) -> None:
        """Remove what has not been used for too long; looked for once an hour."""
        marker = self.root / MARKER
        with suppress(FileNotFoundError):
            if time.time() - marker.stat().st_mtime > _HOUR:
                os.utime(marker)
                with self.alone():
                    self.tidy(limits)

    def tidy(self, limits: StoreLimits, keep: str = "") -> None:
        """Remove what is too old, and then what was used longest ago until the rest is within the limits.

        To be called by who has the store alone. Who has mapped a tensor keeps it.

        Args:
            limits: of the store.
            keep: a pack that stays.
        """
        self._remove_leftovers()
        entries = sorted(self._entries(), key=lambda entry: entry.last_use)
        uses = Counter(blob for entry in entries for blob in entry.blobs)
        sizes = {file.name: size for file, size in _files(self.blobs)}
        for name in sizes.keys() - uses.keys():
            (self.blobs / name).unlink()
        total = sum(sizes.get(name, 0) for name in uses) + sum(entry.num_bytes for entry in entries)
        now = time.time()
        for entry in entries:
            age = now - entry.last_use
            if entry.file.name == keep or (age <= limits.max_age and total <= limits.max_bytes):
                continue
            if age < _HOUR:
                _LOGGER.warning(
                    "%s: more than %.1f GiB are in use at a time, so that images are prepared again and again; "
                    "expected room for all. Raise its limit.",
                    self.root,
                    limits.max_bytes / 2**30,
                )
            entry.file.unlink(missing_ok=True)
            uses.subtract(entry.blobs)
            gone = [name for name in entry.blobs if not uses[name]]
            for name in gone:
                (self.blobs / name).unlink(missing_ok=True)
            total -= entry.num_bytes + sum(sizes.get(name, 0) for name in gone)

    def clear(self) -> StoreUsage:
        """Remove every file of the store, and nothing else, and return what has stayed.

        What a running process is writing stays; what it has mapped it keeps until it ends.
        """
        with self.alone():
            self._remove_leftovers()
            for folder in (self.packs, self.blobs, self.digests):
                for file, _ in _files(folder):
                    file.unlink(missing_ok=True)
        return self.usage()

    def usage(self) -> StoreUsage:
        """Return what the store holds."""
        folders = (self.packs, self.blobs, self.digests, self.unfinished)
        held = {folder: list(_files(folder)) for folder in folders}
        return StoreUsage(
            packs=len(held[self.packs]),
            num_bytes=sum(size for files in held.values() for _, size in files),
            being_prepared=len({_pack_of(file) for file, _ in held[self.unfinished]}),
        )

    def _entries(self) -> Iterator[_Entry]:
        for file, size in _files(self.packs):
            try:
                yield _Entry(file, file.stat().st_mtime, size, blobs_of_pack(file))
            except DAMAGED:
                file.unlink(missing_ok=True)
        for file, size in _files(self.digests):
            with suppress(FileNotFoundError):
                yield _Entry(file, file.stat().st_mtime, size, frozenset())

    def _remove_leftovers(self) -> None:
        """Remove what processes that are gone were writing; on a disk without locks what is a day old."""
        written: dict[str, list[Path]] = {file.name: [] for file, _ in _files(self._locks) if file.name != _STORE_LOCK}
        for file, _ in _files(self.unfinished):
            written.setdefault(_pack_of(file), []).append(file)
        for pack, files in written.items():
            with locked_if_free(self._locks / pack) as is_free:
                for file in files:
                    with suppress(FileNotFoundError):
                        if is_free or time.time() - file.stat().st_mtime > _DAY:
                            file.unlink()
                if is_free:
                    (self._locks / pack).unlink(missing_ok=True)


def _pack_of(unfinished: Path) -> str:
    return unfinished.name.partition("-")[0]


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files in a folder and their sizes, without what another process has just removed."""
    for entry in list(os.scandir(folder)):
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                yield Path(entry.path), status.st_size
