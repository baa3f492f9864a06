"""The settings that a plan chose for a run, in a file of its folder: a run that is continued takes the same ones."""

import math
from dataclasses import dataclass
from pathlib import Path

from ...custom.data.whole_files import write_text
from ...custom.run.time_left import duration
from ...custom.settings import RunSettings, SettingValues
from .job import Job
from .settings_files import PlannedTime, SettingsFile

PLAN_FILE = "planned.conf"
# nnU-Net's: 1000 epochs of 250 steps.
FULL_STEPS = 250_000
# A run that is expected to take longer by this factor is said to.
_LONGER = 1.1


@dataclass(frozen=True)
class PlannedSettings:
    """What a plan chose for a run.

    Attributes:
        as_file: the settings, with the file of the run's folder that has them.
        time: for what time they were planned.
        text: the file's.
    """

    as_file: SettingsFile
    time: PlannedTime
    text: str

    @classmethod
    def of_run(cls, job: Job, out: Path) -> "PlannedSettings | None":
        """Return what a run in an output folder was planned with; None where it was not.

        Raises:
            JobError, SettingsError: if the file cannot be used.
        """
        file = out / PLAN_FILE
        if not file.is_file():
            return None
        read = SettingsFile.read(job, str(file))
        if read.planned is None:
            return None
        return cls(read, read.planned, file.read_text(encoding="utf-8"))

    @property
    def values(self) -> SettingValues:
        """The planned settings by their dotted keys."""
        return self.as_file.values

    def write(self) -> None:
        """Write the file."""
        write_text(self.as_file.file, self.text)

    def sentence(self, settings: RunSettings) -> str:
        """Say how long the run is, and what nnU-Net's full recipe would take.

        Args:
            settings: of the run, which may have chosen others than the planned ones.
        """
        time, training = self.time, settings.training
        full = duration(time.step_seconds * FULL_STEPS * math.ceil(time.sites / time.sites_at_once))
        each = (
            _counted(training.local_epochs, "epoch")
            if training.local_steps is None
            else _counted(training.local_steps, "step")
        )
        beginning = (
            f"Planned for {time.hours:g} h on this machine: {_counted(settings.rounds, 'round')} of {each} at each of "
            f"{time.sites} sites."
        )
        if time.expected_hours is not None and time.expected_hours > _LONGER * time.hours:
            beginning += (
                f" It takes about {duration(3600 * time.expected_hours)}: what was chosen, predictions and scores"
            )
            beginning += " leave no shorter run."
        recipe = f"full recipe of {FULL_STEPS:,} steps a site (nnU-Net)"
        if training.local_steps is None:
            return f"{beginning} The {recipe} would take {full}."
        fraction = settings.rounds * training.local_steps / FULL_STEPS
        return f"{beginning} That is {100 * fraction:.2g} % of the {recipe}, which would take {full}."


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
