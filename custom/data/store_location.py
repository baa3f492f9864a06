"""Where a participant's prepared cases lie, and how many: the same search in the simulator and in a hospital."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...transforms.errors import DataError
from .json_record import JsonRecord, read_record
from .prepared_store import PreparedStore
from .store_folder import DEFAULT_LIMITS, StoreLimits

CACHE_VARIABLE = "FEDANNOT_CACHE"
GIB_VARIABLE, DAYS_VARIABLE = "FEDANNOT_CACHE_GIB", "FEDANNOT_CACHE_DAYS"
# In a kit's folder `local`.
CACHE_FILE = "cache.json"

_GIB, _DAY = 2**30, 86400.0
# Next to the folder `local`, and so outside the folders of jobs.
_FOLDER_OF_KIT = "cache"

Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class Cache(JsonRecord):
    """What a participant says of its prepared cases, whatever a job says.

    Attributes:
        folder: where they lie, an absolute path; None for the folder ``cache`` of the kit.
        max_gib: how much they may be.
        max_age_days: days since their last use after which they are removed.
    """

    folder: str | None = None
    max_gib: Positive = DEFAULT_LIMITS.max_bytes / _GIB
    max_age_days: Positive = DEFAULT_LIMITS.max_age / _DAY


@dataclass(frozen=True)
class StoreLocation:
    """A participant's store, and what says where it lies: a variable, a file, or nothing."""

    store: PreparedStore
    named_by: str


def participant_store(config_folder: Path | None = None) -> PreparedStore:
    """Return the store of the participant that runs this process; see :func:`locate_store`."""
    return locate_store(config_folder).store


def locate_store(config_folder: Path | None = None) -> StoreLocation:
    """Find a participant's store; it is not made yet.

    First the environment variable ``FEDANNOT_CACHE`` counts, then ``cache.json`` in the participant's configuration
    folder, then the user's own cache, ``$XDG_CACHE_HOME`` or ``~/.cache``. The limits are those of the variables
    ``FEDANNOT_CACHE_GIB`` and ``FEDANNOT_CACHE_DAYS``, then those of the file, then 20 GiB and 30 days.

    Args:
        config_folder: NVFlare's ``local`` folder of the participant; None for one without.

    Raises:
        DataError: if the file cannot be used, a path is relative, or a limit is no number above 0.
    """
    file = None if config_folder is None else config_folder / CACHE_FILE
    of_file = None if file is None else read_record(file, Cache)
    cache = of_file or Cache()
    limits = StoreLimits(
        max_bytes=int(_number(GIB_VARIABLE, cache.max_gib) * _GIB),
        max_age=_number(DAYS_VARIABLE, cache.max_age_days) * _DAY,
    )
    if variable := os.environ.get(CACHE_VARIABLE, "").strip():
        folder, named_by = _absolute(variable, f"the environment variable {CACHE_VARIABLE}"), CACHE_VARIABLE
    elif file is not None and of_file is not None:
        folder, named_by = _of_kit(file, of_file), str(file)
    else:
        folder, named_by = _of_user(), "the user's cache"
    return StoreLocation(PreparedStore(folder, limits), named_by)


def _of_kit(file: Path, cache: Cache) -> Path:
    if cache.folder is None:
        return file.parent.absolute().parent / _FOLDER_OF_KIT
    return _absolute(cache.folder, f"{file}: folder")


def _of_user() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The specification has relative paths ignored.
        base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    except RuntimeError as error:
        raise DataError(
            f"This user has no home folder for prepared images; expected one, or another folder in {CACHE_VARIABLE}."
        ) from error
    return base / "fedannot" / "prepared"


def _absolute(path: str, source: str) -> Path:
    if not Path(path).is_absolute():
        raise DataError(f"{source} names {path!r:.200}; expected an absolute path: processes start in other folders.")
    return Path(path)


def _number(variable: str, otherwise: float) -> float:
    value = os.environ.get(variable, "").strip()
    if not value:
        return otherwise
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e6:
        raise DataError(f"Expected a number above 0 in {variable}, at most a million, but found {value!r:.40}.")
    return number
