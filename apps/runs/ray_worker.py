"""A run on a worker of Ray: what it is sent, what it checks, and the process of the run.

A worker is sent paths, the run's arguments, and what tells whether it sees the same files by the same code. Ray is not
imported here.
"""

import hashlib
import os
import platform
import socket
from collections.abc import Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from ...custom.data.file_locks import LockAnswer, lock_attempt
from .locked_run import LOCKED_SIMULATION
from .run_placer import PlacementError
from .run_process import Commands

# The package's code; in a checkout its folders are links.
_PACKAGE = Path(__file__).parents[2]
# Of other files the names and sizes are compared.
_READ = frozenset({".py", ".conf", ".json", ".yaml", ".yml", ".csv"})
_PACKAGES = ("torch", "monai", "nvflare", "numpy", "scipy")
# Of Ray and of the worker that it has started.
_OF_RAY = ("RAY_", "PYTHONBREAKPOINT")
_DIGITS = 16
_SECONDS_BETWEEN_LOOKS = 0.5


class RunKilledError(RuntimeError):
    """The process of a run was killed, which is no fault of the run."""


@dataclass(frozen=True)
class RunOrder:
    """All that a worker is sent.

    Attributes:
        arguments: of `fedannot`; the output folder is that after ``--out``.
        log: file for what the run prints.
        working_folder: in which the command was given; paths may be relative to it.
        probe: a file whose lock is held while the comparison runs.
        probe_text: its content.
        inputs: files and folders that the run reads, with the digests of their contents.
        versions: of what computes.
        variables: environment variables that decide how many threads compute; None removes one.
        sees_gpus: whether the run may use a GPU.
        timeout: seconds after which the run is killed.
    """

    arguments: tuple[str, ...]
    log: str
    working_folder: str
    probe: str
    probe_text: str
    inputs: Mapping[str, str]
    versions: Mapping[str, str]
    variables: Mapping[str, str | None]
    sees_gpus: bool
    timeout: float


def run_on_worker(order: RunOrder) -> int:
    """Make a run in a process of its own, and return its exit code.

    Raises:
        PlacementError: if this machine does not see the same files, or has other versions.
        RunKilledError: if the process of the run was killed.
        RunTimeoutError: if the run took too long.
    """
    check_worker(order)
    os.chdir(order.working_folder)
    _set(order.variables)
    commands = Commands(LOCKED_SIMULATION, environment=_environment(order))
    ended = commands.submit(partial(commands.run, order.arguments, Path(order.log), timeout=order.timeout))
    try:
        # Ray raises KeyboardInterrupt here to cancel a run, between two waits.
        while not wait([ended], _SECONDS_BETWEEN_LOOKS).done:
            pass
        code = ended.result()
    finally:
        commands.stop()
    if code < 0:
        raise RunKilledError(f"{_machine()}: the process of the run was killed by signal {-code}.")
    return code


def check_worker(order: RunOrder) -> None:
    """Check that a run gives the same bits on this machine, and reaches the same folder.

    Raises:
        PlacementError: naming the machine, and what is expected.
    """
    _check_shared(Path(order.probe), order.probe_text)
    if not Path(order.working_folder).is_dir():
        raise PlacementError(
            f"{_machine()}: found no folder {order.working_folder}; expected the one that the command was given in, on "
            "a disk that all machines share."
        )
    for path, digest in order.inputs.items():
        if digest_of_contents(Path(order.working_folder, path)) != digest:
            raise PlacementError(
                f"{_machine()}: {path} is absent or has other content than where the command was given; expected the "
                "same files on all machines."
            )
    here = installed_versions()
    if differing := [
        f"{name} {here[name]} in place of {asked}" for name, asked in order.versions.items() if here[name] != asked
    ]:
        raise PlacementError(
            f"{_machine()}: found {', '.join(differing)}; expected the same on all machines, for the same bits."
        )


def _check_shared(probe: Path, text: str) -> None:
    try:
        is_ours = probe.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        is_ours = False
    if not is_ours:
        raise PlacementError(
            f"{_machine()}: does not see {probe.parent} as the machine of the command does; expected an output folder "
            "on a disk that all machines share, at the same path."
        )
    with lock_attempt(probe) as answer:
        if answer is not LockAnswer.TAKEN:
            raise PlacementError(
                f"{_machine()}: the disk of {probe.parent} does not share its locks; expected one that does, as NFS 4. "
                "Otherwise two workers could write the same run."
            )


def digest_of_contents(path: Path) -> str:
    """Return the SHA-256 of the names and sizes below a folder, and of the content of settings, tables and code.

    Hidden files and compiled code do not count, nor what is behind links to folders. Of what is absent it is empty.
    """
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return ""
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(filter(_counts, folders))
        for name in sorted(filter(_counts, names)):
            file = Path(parent, name)
            digest.update(f"{file.relative_to(path)}\0{file.lstat().st_size}\0".encode("utf-8", "surrogateescape"))
            if file.suffix in _READ:
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def installed_versions() -> dict[str, str]:
    """Return the versions of what computes; of fedannot the digest of its code."""
    versions = {name: version(name) for name in _PACKAGES}
    code = "".join(digest_of_contents(part) for part in sorted(_PACKAGE.iterdir()) if _counts(part.name))
    digest = hashlib.sha256(code.encode()).hexdigest()
    return {"Python": platform.python_version(), "fedannot": f"code {digest[:_DIGITS]}", **versions}


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__pycache__"


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables that are read when PyTorch is loaded, in this worker, which does nothing else."""
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def _environment(order: RunOrder) -> dict[str, str]:
    """The environment of the run: this machine's, without what Ray has added, its token among it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}
    return own if order.sees_gpus else own | {"CUDA_VISIBLE_DEVICES": ""}


def _machine() -> str:
    return f"Worker on {socket.gethostname()}"
