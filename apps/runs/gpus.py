"""GPUs of this machine, of which each run of a comparison sees one."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use, in the form of ``CUDA_VISIBLE_DEVICES``.

    They are not used by being counted.
    """
    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get(_VISIBLE, "").split(",") if name.strip()]
    return tuple(named[:count]) if named else tuple(str(index) for index in range(count))


class SharedGpus:
    """Gives runs their GPUs, each the one that has the fewest runs.

    Args:
        names: of the GPUs, in the form of ``CUDA_VISIBLE_DEVICES``; none where there are none.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._runs = dict.fromkeys(names, 0)

    @contextmanager
    def one(self) -> Iterator[Mapping[str, str]]:
        """Give the environment variable by which a run sees one GPU; nothing where there are none to choose from."""
        if len(self._runs) < 2:
            yield {}
            return
        with self._lock:
            name = min(self._runs, key=self._runs.__getitem__)
            self._runs[name] += 1
        try:
            yield {_VISIBLE: name}
        finally:
            with self._lock:
                self._runs[name] -= 1
