"""The connection to Ray: a cluster that somebody has started, or one of this machine that ends with the command."""

import importlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .cores import available_cores
from .job import JobError
from .ray_engine import LOCAL, RETRIES, check_address

_PACKAGE = "pip install 'ray>=2.60'"
_ADDRESS_VARIABLE = "RAY_ADDRESS"
_LOOPBACK = "127.0.0.1"
_TOKEN_VARIABLE, _MODE_VARIABLE = "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"
# What Ray sets in this process.
_CHANGED = ("RAY_", "PYTHONBREAKPOINT")
# Ray keeps nothing of ours in memory; this is the least that it takes.
_STORE_BYTES = 80 * 2**20
_SECONDS_TO_ANSWER = 10
# Sockets have paths of at most 107 characters, and Ray adds 64.
_LONGEST_FOLDER = 40
_LONGEST_REASON = 300
# Of all clusters that this process starts: Ray reads it once.
_TOKEN = secrets.token_hex(32)


def usable_address(address: str | None) -> str | None:
    """Return which cluster is to be used: ``HOST:PORT``, ``local``, or None for the connection of this process.

    Nothing is connected or loaded.

    Args:
        address: that is given; None to look further.

    Raises:
        JobError: if Ray is not installed, or the address has another form or no use.
    """
    if importlib.util.find_spec("ray") is None:
        raise JobError(f"--engine ray: ray is not installed. Install it with: {_PACKAGE}")
    loaded: Any = sys.modules.get("ray")
    if loaded is not None and loaded.is_initialized():
        if address is not None:
            raise JobError(
                f"--ray-address {address}: this process is connected to Ray already; expected no address, or "
                "ray.shutdown() before."
            )
        return None
    asked, source = (address, "--ray-address") if address else (os.environ.get(_ADDRESS_VARIABLE), _ADDRESS_VARIABLE)
    asked = asked or LOCAL
    check_address(asked, source)
    return asked


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to Ray in the block, and give its module.

    Where this process is connected already, the connection is used and kept. Otherwise the address counts, then
    ``RAY_ADDRESS``; without both Ray is started on this machine and ends with the block. Such a cluster answers on the
    loopback device alone, asks for a token of this process, and keeps its files in a folder of this account.

    Args:
        address: ``HOST:PORT`` of a cluster's head, or ``local``; None to look further.

    Raises:
        JobError: if Ray is not installed, or the cluster cannot be used.
    """
    asked = usable_address(address)
    if asked is None:
        yield sys.modules["ray"]
        return
    with _kept_environment(), _started_here() if asked == LOCAL else _joined(asked) as ray:
        yield ray


@contextmanager
def _started_here() -> Iterator[Any]:
    folder = _short_folder()
    try:
        # Read when Ray is loaded: without clusters it binds to the loopback device.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ[_TOKEN_VARIABLE] = _TOKEN
        for name in (_MODE_VARIABLE, "RAY_AUTH_TOKEN_PATH", "RAY_JOB_CONFIG_JSON_ENV_VAR", _ADDRESS_VARIABLE):
            os.environ.pop(name, None)
        with _initialised(
            address=LOCAL,
            num_cpus=available_cores(),
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            _temp_dir=str(folder),
            _system_config={"task_oom_retries": RETRIES},
        ) as ray:
            _check_closed(ray)
            yield ray
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_closed(ray: Any) -> None:
    """Check that nobody else can reach the cluster of this machine.

    Raises:
        JobError: if it answers to other machines, or without a token.
    """
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()}
    if addresses != {_LOOPBACK} or os.environ.get(_MODE_VARIABLE) != "token":
        raise JobError(
            f"--engine ray: Ray answers at {', '.join(sorted(addresses))}, and not on {_LOOPBACK} with a token alone: "
            "others could run code here. Expected a process that has not loaded Ray before; or connect to a cluster of "
            "yours by ray.init() or --ray-address."
        )


@contextmanager
def _joined(address: str) -> Iterator[Any]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise JobError(
            f"Ray at {address}: no answer within {_SECONDS_TO_ANSWER} s ({error}). Expected the head of a cluster: "
            "start it with ray start --head, or correct the address."
        ) from error
    with _initialised(address=address) as ray:
        yield ray


@contextmanager
def _initialised(**options: Any) -> Iterator[Any]:
    """Let Ray begin with options, and end with the block; signals stay those of the command."""
    ray: Any = importlib.import_module("ray")
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())[:_LONGEST_REASON]
            raise JobError(f"Ray at {options['address']} cannot be used: {type(error).__name__}: {reason}") from error
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, before)
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _kept_environment() -> Iterator[None]:
    """Give variables of Ray back after the block as they were."""
    before = {name: value for name, value in os.environ.items() if name.startswith(_CHANGED)}
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(_CHANGED)]:
            del os.environ[name]
        os.environ.update(before)


def _short_folder() -> Path:
    """Make a folder of this account alone, whose path is short enough for sockets in it."""
    folder = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="fa", dir=folder if len(folder) <= _LONGEST_FOLDER else "/tmp"))
