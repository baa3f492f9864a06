"""Models that wait for their weights, where those follow from what all sites reported."""

import mmap
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from ...transforms.errors import DataError
from ..data.whole_files import open_private_file, private_folder
from .quantised_updates import QuantisedUpdate

# Entries of a file begin where every type may: at multiples of so many bytes.
_ALIGNMENT = 64


class ModelSpool:
    """Models of sites in memory, as far as they may take it; the others in one file each, which is mapped to memory.

    Files are of this user alone. They are whole when they are read, or they are refused. A model that came as a
    :class:`QuantisedUpdate` waits as its message, and takes so much less room.

    Args:
        folder: made again; nothing else may lie there.
        memory: bytes that models may take in memory. None is kept there by default.
    """

    def __init__(self, folder: Path, memory: int = 0) -> None:
        self._folder = folder
        self._memory_left = memory
        self._written = 0
        self._models: dict[str, _InMemory | _OnDisk] = {}
        self._num_samples: dict[str, int] = {}
        self._updates: dict[str, QuantisedUpdate] = {}
        self.remove()
        # A site's model says more of its patients than an average does: for this user alone.
        private_folder(folder)

    def __contains__(self, site: str) -> bool:
        """Return whether the site's model waits."""
        return site in self._models

    def put(self, site: str, params: Mapping[str, torch.Tensor], num_samples: int) -> None:
        """Keep a copy of a site's model, in memory if it fits there.

        Raises:
            ValueError: if the site's model waits already.
            OSError: if the disk has no room for it; no part of it stays.
        """
        if site in self._models:
            raise ValueError(f"Expected one model per site, but {site} was added twice.")
        sent = params.sent if isinstance(params, QuantisedUpdate) else params
        tensors = {name: tensor.detach().cpu() for name, tensor in sent.items()}
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if size <= self._memory_left:
            self._models[site] = _InMemory({name: tensor.clone() for name, tensor in tensors.items()}, size)
            self._memory_left -= size
        else:
            # Numbered: a site's name need not be a file's.
            file = self._folder / f"{self._written}.raw"
            self._models[site] = _OnDisk.written(file, tensors)
            self._written += 1
        if isinstance(params, QuantisedUpdate):
            # Its message waits above, and not a second time here.
            self._updates[site] = params.of({})
        self._num_samples[site] = num_samples

    @property
    def sites(self) -> tuple[str, ...]:
        """Whose models wait, sorted."""
        return tuple(sorted(self._models))

    def params(self, site: str) -> dict[str, torch.Tensor]:
        """Return a state dict of the caller's own of a site whose model waits.

        Raises:
            KeyError: if none of the site does.
            DataError: if its file is not as it was written.
        """
        return dict(self._as_model(site, self._models[site].own()))

    def num_samples(self, site: str) -> int:
        """Return how many samples the model of a site was trained on."""
        return self._num_samples[site]

    def shared(self, site: str) -> Mapping[str, torch.Tensor]:
        """Return the same without a copy, for one pass over it; nothing may be written into it."""
        return self._as_model(site, self._models[site].shared())

    def mapped(self, site: str) -> Mapping[str, torch.Tensor]:
        """Return the same for a pass over one entry of all sites after the other: files stay mapped."""
        return self._as_model(site, self._models[site].mapped())

    def _as_model(self, site: str, tensors: dict[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        update = self._updates.get(site)
        return tensors if update is None else update.of(tensors)

    def models(self, *, keep: bool = False) -> Iterator[tuple[str, Mapping[str, torch.Tensor], int]]:
        """Yield site, state dict and number of samples in sorted order of the sites; nothing may be written into them.

        Args:
            keep: whether the models stay; else each goes once it is used.
        """
        for site in self.sites:
            yield site, self.shared(site), self._num_samples[site]
            if not keep:
                self._drop(site)

    def keep_only(self, sites: Collection[str]) -> None:
        """Remove the models of all other sites."""
        for site in set(self._models) - set(sites):
            self._drop(site)

    def remove(self) -> None:
        """Remove all models, and the folder."""
        for site in self.sites:
            self._drop(site)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _drop(self, site: str) -> None:
        model = self._models.pop(site)
        del self._num_samples[site]
        self._updates.pop(site, None)
        if isinstance(model, _InMemory):
            self._memory_left += model.size
        else:
            model.file.unlink(missing_ok=True)


@dataclass(frozen=True)
class _InMemory:
    tensors: dict[str, torch.Tensor]
    size: int

    def shared(self) -> dict[str, torch.Tensor]:
        return dict(self.tensors)

    def mapped(self) -> dict[str, torch.Tensor]:
        return self.shared()

    def own(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.tensors.items()}


@dataclass(frozen=True)
class _Entry:
    start: int
    shape: torch.Size
    dtype: torch.dtype


class _OnDisk:
    """A model as raw bytes in a file; where its entries begin is known to this process alone.

    Attributes:
        file: the file.
    """

    def __init__(self, file: Path, entries: dict[str, _Entry], signature: tuple[int, ...]) -> None:
        self.file = file
        self._entries, self._signature = entries, signature
        self._mapped: dict[str, torch.Tensor] | None = None

    @classmethod
    def written(cls, file: Path, tensors: Mapping[str, torch.Tensor]) -> "_OnDisk":
        """Write a new file of mode 0600."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        entries, position = {}, 0
        try:
            with os.fdopen(os.open(file, flags, 0o600), "wb", buffering=0) as stream:
                for name, tensor in tensors.items():
                    start = -(-position // _ALIGNMENT) * _ALIGNMENT
                    entries[name] = _Entry(start, tensor.shape, tensor.dtype)
                    stream.seek(start)
                    position = start + _write(stream.fileno(), tensor)
                signature = _signature(os.fstat(stream.fileno()))
        except FileExistsError:
            raise
        except OSError:
            file.unlink(missing_ok=True)
            raise
        return cls(file, entries, signature)

    def shared(self) -> dict[str, torch.Tensor]:
        """As :meth:`own`: its pages leave this process with it, however many models there are."""
        return self.own()

    def mapped(self) -> dict[str, torch.Tensor]:
        if self._mapped is None:
            self._mapped = self.own()
        return self._mapped

    def own(self) -> dict[str, torch.Tensor]:
        """Map the file once more: what is written into the tensors comes neither to the file nor to other mappings."""
        try:
            with open_private_file(self.file) as stream:
                is_same = _signature(os.fstat(stream.fileno())) == self._signature
                is_empty = not self._signature[-1]
                content = None if is_empty or not is_same else _private_mapping(stream.fileno())
        except OSError as error:
            raise DataError(
                f"{self.file}: a site's model that waits cannot be read ({error}); expected the file that this process "
                "wrote. The round cannot be finished."
            ) from error
        if not is_same:
            raise DataError(
                f"{self.file}: a site's model that waits is another file, or was changed; expected "
                f"{self._signature[-1]} bytes as this process wrote them. The round cannot be finished."
            )
        return {name: _tensor(entry, content) for name, entry in self._entries.items()}


def _write(descriptor: int, tensor: torch.Tensor) -> int:
    """Write a tensor's bytes, all of them, and return how many there are."""
    if not tensor.numel():
        return 0
    content = tensor.reshape(-1).contiguous().view(torch.uint8).numpy().data
    written = 0
    # The system writes at most 2 GiB at a time.
    while written < len(content):
        written += os.write(descriptor, content[written:])
    return written


def _signature(status: os.stat_result) -> tuple[int, ...]:
    """What changes with another file in its place, and with any write to it; the last is its size."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _private_mapping(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)


def _tensor(entry: _Entry, content: mmap.mmap | None) -> torch.Tensor:
    count = entry.shape.numel()
    if not count or content is None:
        return torch.empty(entry.shape, dtype=entry.dtype)
    return torch.frombuffer(content, dtype=entry.dtype, count=count, offset=entry.start).reshape(entry.shape)
