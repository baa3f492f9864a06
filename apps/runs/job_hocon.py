"""HOCON files of jobs, which are parsed again only where they, or what they include, have changed."""

import copy
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ...transforms.strict_files import JsonObject
from .hocon import read_hocon

# A substitution in HOCON, which may be an environment variable.
_VARIABLE = re.compile(rb"\$\{\??\s*([^}\s]+)")

# What may include anything but one of the files next to it that are looked at.
_ELSEWHERE = re.compile(rb'\binclude\b(?!\s*"[^"/\\:*?]+\.conf")')

# A job's configurations lie in JOB/APP/config.
_LEVELS_OF_JOB = 3


def read_job_hocon(file: Path) -> JsonObject:
    """Read a HOCON file's keys and values, and those of the files of its job that it includes.

    Raises:
        DataError: if it is not HOCON with keys and values, or includes a URL or a file outside its job's
            folder, for a file of no job outside its own folder.
    """
    seen = [(other.name, other.read_bytes()) for other in sorted({file, *_conf_files(file.parent)})]
    named = sorted({name.decode("utf-8", "replace") for _, text in seen for name in _VARIABLE.findall(text)})
    environment = tuple((name, os.environ.get(name)) for name in named)
    place = file.absolute() if any(_ELSEWHERE.search(text) for _, text in seen) else None
    return copy.deepcopy(_parsed(_Hocon(file, file.name, tuple(seen), environment, place)))


def _conf_files(folder: Path) -> Iterator[Path]:
    return (other for other in folder.glob("*.conf") if other.is_file())


@dataclass(frozen=True)
class _Hocon:
    """What decides a HOCON file's values: the files that it may include, and the environment that it may name.

    Where it lies does not, so that a job's copies are not parsed again, unless it may include files of other folders.
    """

    file: Path = field(compare=False)
    name: str
    texts: tuple[tuple[str, bytes], ...]
    environment: tuple[tuple[str, str | None], ...]
    place: Path | None


@lru_cache(maxsize=128)
def _parsed(hocon: _Hocon) -> JsonObject:
    """Parse again only what has changed.

    A job's files are asked for several times on the way to a run, and the parser takes a tenth of a second for each.
    """
    return read_hocon(hocon.file, _folder_of(hocon.file))


def _folder_of(file: Path) -> Path:
    """The folder of the job that a file is of, whose files it may include; of another file its own folder."""
    above = list(file.absolute().parents)[:_LEVELS_OF_JOB]
    return next((folder for folder in above if (folder / "meta.json").is_file()), file.parent)
