"""Logs that name files, and everything that a job's process prints: in the participant's own folder alone.

NVFlare stores and returns the logs in a job's workspace. A kit's ``log_config.json`` lets NVFlare's lines and the
course of a run go there; everything else goes to the handler of this module (``site_configs/site.yaml`` and
``server.yaml``). Imports little: NVFlare loads it while a process starts.
"""

import logging
import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from ..data.participant_folder import participant_folder
from ..data.path_names import is_job_id

# What the course of a run says at the server: sites, rounds and scores, never a file of the server's.
COURSE_LOGGER = "fedannot.course"
# Beside the log: what libraries print.
CONSOLE_FILE = "console.txt"
_HANDLER = "fedannot.custom.flare.private_log.PrivateLogHandler"
_OWN_ALONE = 0o600
# Who may log where others can read.
_PUBLIC_LOGGERS = frozenset({"nvflare", COURSE_LOGGER})


class PrivateLogHandler(RotatingFileHandler):
    """Writes a log to the participant's own folder, whichever folder of NVFlare's its configuration is joined with.

    Args:
        filename: the log's name. NVFlare puts the folder of its logs in front: the workspace, or a job's folder in it.
        **options: of ``RotatingFileHandler``.

    Raises:
        DataError: if the own folder cannot be used, see
            :func:`~fedannot.custom.data.participant_folder.participant_folder`.
        ValueError: if the workspace cannot be known.
    """

    def __init__(self, filename: str, **options: Any) -> None:
        workspace, job_id = _place(Path(filename).parent)
        super().__init__(participant_folder(workspace, job_id) / Path(filename).name, **options)

    def _open(self) -> TextIOWrapper:
        return os.fdopen(_opened(Path(self.baseFilename)), "a", encoding=self.encoding, errors=self.errors)


def keep_console_private(folder: Path) -> None:
    """Let what this process and its libraries print go to a file in a private folder; log lines stay where they are.

    Libraries write warnings with names of files to the console, and NVFlare's launcher for clusters keeps the console
    in the job's workspace.

    Args:
        folder: the participant's own folder of the job.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    console = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    for name in ("", *_PUBLIC_LOGGERS):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr):
                handler.setStream(console)
    descriptor = _opened(folder / CONSOLE_FILE)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)


def keeps_names_private(log_config: Mapping[str, Any]) -> bool:
    """Return whether a log configuration lets NVFlare's lines and a run's course alone out of the private log."""
    handlers, loggers = log_config.get("handlers") or {}, dict(log_config.get("loggers") or {})
    root = loggers.pop("root", None) or log_config.get("root") or {}
    private = {name for name, values in handlers.items() if values.get("class", values.get("()")) == _HANDLER}
    used = list(root.get("handlers") or [])
    others = {name for name, values in loggers.items() if set(values.get("handlers") or []) - private}
    public = {name for name in others if name in _PUBLIC_LOGGERS or name.startswith("nvflare.")}
    return bool(used) and set(used) <= private and others == public


def _place(folder: Path) -> tuple[Path, str]:
    """The workspace and the job of a folder of NVFlare's logs; no job for that of the whole participant.

    The logs may lie elsewhere (NVFlare's variables for it): below the folder of whose process it is.
    """
    if _is_workspace(folder):
        return folder, ""
    job_id = folder.name if is_job_id(folder.name) else ""
    for workspace in (folder.parent, Path.cwd()):
        if _is_workspace(workspace):
            return workspace, job_id
    raise ValueError(f"Expected NVFlare's folder of logs in a participant's workspace, but got {folder}.")


def _is_workspace(folder: Path) -> bool:
    return (folder / "startup").is_dir() and (folder / "local").is_dir()


def _opened(file: Path) -> int:
    """Open a file to append to, for the owner alone; through a symbolic link nothing is written."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, _OWN_ALONE)
    os.fchmod(descriptor, _OWN_ALONE)
    return descriptor
