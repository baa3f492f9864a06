"""Where the settings come from that do not go together: the job's file, a set of settings, or the command line."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...custom.settings import SettingsError
from .job import Job
from .settings_files import SettingsFile

COMMAND_LINE = "--set"


@contextmanager
def named_origins(job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> Iterator[None]:
    """Add to an error of settings where each setting that its text gives a value of comes from.

    Args:
        job: the job whose settings are changed.
        settings_file: the set of settings, None for none.
        overrides: what the command line changes after that.

    Raises:
        SettingsError: the same error, with a sentence more where it names settings with their values.
    """
    try:
        yield
    except SettingsError as error:
        origins = _origins(job, settings_file, overrides)
        if (moved := _from_command_line(str(error), job, overrides)) != str(error):
            raise SettingsError(moved) from error
        named = [key for key in origins if re.search(rf"(?<![\w.]){re.escape(key)}=", str(error))]
        if not named:
            raise
        first, *others = (f"{key} from {origins[key]}" for key in named)
        said = ", ".join([first.replace(" from ", " comes from ", 1), *others])
        raise SettingsError(f"{error} {said}. Change them together.") from error


def _from_command_line(text: str, job: Job, overrides: Mapping[str, Any]) -> str:
    """The text of an error, in which a key that the command line gave is no longer laid to the job's file."""

    def moved(line: str) -> str:
        found = re.match(rf"{re.escape(str(job.settings_file))}: ((?:key|no setting) '([^']+)'.*)", line)
        return line if found is None or found[2] not in overrides else f"{COMMAND_LINE}: {found[1]}"

    return "\n".join(map(moved, text.split("\n")))


def _origins(job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> dict[str, str]:
    """Setting → where its value comes from."""
    own = job.own_values()
    origins = {
        key: str(job.settings_file) if key in own else "the method's defaults" for key in job.setting_names(overrides)
    }
    if settings_file is not None:
        origins |= dict.fromkeys(settings_file.values, str(settings_file.file))
    return origins | dict.fromkeys(overrides, COMMAND_LINE)
