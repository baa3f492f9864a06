"""Named sets of settings next to a job, `settings/NAME.conf`: what differs from the job's own, and for which data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.federation import FEDERATION_FILE, read_federation
from ...custom.data.noise.choice import COMPLETENESS, LABELS, PROTOCOLS
from ...custom.settings import SettingsError, SettingValues
from ...custom.strict_model import StrictModel
from ...transforms.errors import DataError, describe_validation_error, did_you_mean
from ...transforms.noise.class_noise import ClassNoise
from ...transforms.noise.federation_noise import FederationNoise
from ...transforms.noise.site_protocol import SiteProtocol
from ..wording.shell_words import shell_word
from .job import SETTINGS_FOLDER, Job, JobError, flat_settings, parse_hocon

_SUFFIX = ".conf"

Positive = Annotated[int, Field(ge=1)]


class Requirements(StrictModel):
    """What the data of a set of settings must be; None leaves it open.

    Args:
        sites: number of sites.
        size: rows and columns that images are loaded at.
        fit: how they are brought to that size.
        channels: 1 for grey, 3 for RGB.
        noise: how the annotations were made imperfect, ``M(20,-20,10,0.2)``, ``completeness 0.4,0.6,0.8,1``,
            ``protocols 0-0-C-D`` or ``labels 0-S10-P10-C10``; or a list, one of which it must be.
        table: for wrong labels, which classes are confused, to name in an error.
    """

    sites: Positive | None = None
    size: tuple[Positive, Positive] | None = None
    fit: Literal["resize", "crop", "pad"] | None = None
    channels: Literal[1, 3] | None = None
    noise: str | tuple[str, ...] | None = None
    table: str | None = None

    @field_validator("noise")
    @classmethod
    def _noise_can_be_read(cls, noise: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if noise is None:
            return None
        if isinstance(noise, tuple):
            return tuple(_read_noise(item) for item in noise)
        return _read_noise(noise)

    @property
    def noises(self) -> tuple[str, ...]:
        """The noises that are allowed; none if any is."""
        return (self.noise,) if isinstance(self.noise, str) else self.noise or ()

    def __str__(self) -> str:
        parts = {
            "sites": self.sites,
            "size": None if self.size is None else _size_text(self.size),
            "fit": self.fit,
            "channels": self.channels,
            "noise": " or ".join(self.noises) or None,
        }
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


class PlannedTime(StrictModel):
    """For what time settings were planned, by a step that was measured.

    Args:
        hours: that a run may take.
        sites: how many there are.
        step_seconds: of a step of training.
        sites_at_once: how many sites train at a time.
        expected_hours: that the run will take; None where no run was planned.
    """

    hours: Annotated[float, Field(gt=0)]
    sites: Positive
    step_seconds: Annotated[float, Field(gt=0)]
    sites_at_once: Positive = 1
    expected_hours: Annotated[float, Field(gt=0)] | None = None


class _Content(StrictModel):
    settings: dict[str, Any]
    requires: Requirements = Requirements()
    planned: PlannedTime | None = None


@dataclass(frozen=True)
class SettingsFile:
    """A set of settings for a job.

    Args:
        file: where it was read.
        values: the settings that differ from the job's, ``{"training.batch_size": 8, ...}``.
        requires: what the data must be.
        planned: for what time they were planned; None where they were not.
    """

    file: Path
    values: SettingValues
    requires: Requirements
    planned: PlannedTime | None = None

    @classmethod
    def read(cls, job: Job, name_or_file: str, overrides: Mapping[str, Any] | None = None) -> "SettingsFile":
        """Read a set of settings and check it against the job's method.

        Args:
            job: the job whose settings they replace.
            name_or_file: a name in the job's folder ``settings``, or the path of a file that ends in ``.conf``.
            overrides: what else is changed after that, and may be meant to go with the set.

        Raises:
            JobError: if there is no such file, or it is not HOCON.
            SettingsError: if a key is unknown or a value not allowed.
        """
        file = _find(job, name_or_file)
        try:
            content = _Content.model_validate(parse_hocon(file))
        except ValidationError as error:
            raise SettingsError(describe_validation_error(error, source=str(file), model=_Content)) from error
        values = job.current_names(flat_settings(content.settings))
        try:
            job.settings_with(values, source=file)
        except SettingsError as error:
            # A value that does not go with the job's own may go with what else is changed; that is checked with it.
            if not any(f"{key}=" in str(error) for key in overrides or {}):
                raise
        return cls(file, values, content.requires, content.planned)

    def check_data(self, data: Path | None) -> None:
        """Check that a federation is the one that the settings are for.

        Args:
            data: the federation's folder; None for the embedded phantom.

        Raises:
            DataError: with a line for everything that differs, and the command that makes the right data.
        """
        if self.requires == Requirements():
            return
        if data is None:
            raise DataError(
                f"{self.file}: requires a federation ({self.requires}); give its folder with --data. The comments in "
                "the file say how to make it."
            )
        federation = read_federation(data)
        wrong = [
            *self._wrong_sites(data, len(federation.sites)),
            *self._wrong_images(data, federation.sites),
            *self._wrong_noise(data, federation.noise),
        ]
        if wrong:
            raise DataError("\n".join(wrong))

    def _wrong_sites(self, data: Path, found: int) -> list[str]:
        wanted = self.requires.sites
        if wanted is None or found == wanted:
            return []
        return [self._import_again(data / FEDERATION_FILE, f"sites {found}", wanted, f"--sites {wanted}")]

    def _wrong_images(self, data: Path, sites: Sequence[str]) -> list[str]:
        """Name the first site whose images have another size, are brought to it otherwise, or have other channels."""
        size, fit, channels = self.requires.size, self.requires.fit, self.requires.channels
        for site in sites:
            file, description = data / site / DESCRIPTION_FILE, read_site_description(data / site)
            wrong = []
            if size is not None and description.size != size:
                result = f"size {_size_text(description.size)}"
                wrong.append(self._import_again(file, result, _size_text(size), f"--size {size[0]},{size[1]}"))
            if fit is not None and description.fit != fit:
                wrong.append(self._import_again(file, f"fit {description.fit}", fit, f"--fit {fit}"))
            if channels is not None and description.in_channels != channels:
                result = f"channels {description.in_channels}"
                wrong.append(self._import_again(file, result, channels, f"--channels {channels}"))
            if wrong:
                return wrong
        return []

    def _wrong_noise(self, data: Path, found: str | None) -> list[str]:
        allowed, where = self.requires.noises, data / FEDERATION_FILE
        if not allowed or (found is not None and _comparable(found) in allowed):
            return []
        wanted, option = " or ".join(allowed), _noise_option(allowed[0], self.requires.table)
        if found is None:
            return [
                f"{where}: found no noise, but {self.file} requires {wanted}. This makes it: "
                f"fedannot data noise {shell_word(data)} {option} --out {shell_word(Path(f'{data}-noisy'))}"
            ]
        return [
            f"{where}: found noise {found!r}, but {self.file} requires {wanted}. Noise adds up, so make it from the "
            f"federation without noise: fedannot data noise CLEAN {option} --out NOISY"
        ]

    def _import_again(self, where: Path, found: str, wanted: object, option: str) -> str:
        return (
            f"{where}: found {found}, but {self.file} requires {wanted}. Import the data with {option}: "
            f"fedannot data import … {option} --out …; the comments in the file show the whole command."
        )


def _find(job: Job, name_or_file: str) -> Path:
    if name_or_file.endswith(_SUFFIX):
        file = Path(name_or_file)
        if not file.is_file():
            raise JobError(f"Expected a file with settings, but {file} does not exist.")
        return file
    folder = job.folder / SETTINGS_FOLDER
    names = sorted(file.stem for file in folder.glob(f"*{_SUFFIX}"))
    if name_or_file not in names:
        raise JobError(
            f"{folder}: no settings {name_or_file!r}{did_you_mean(name_or_file, names)} "
            f"Available: {', '.join(names) or 'none'}; the path of a file ends in {_SUFFIX}."
        )
    return folder / f"{name_or_file}{_SUFFIX}"


def _size_text(size: tuple[int, ...] | None) -> str:
    return "of each image's own" if size is None else "×".join(map(str, size))


def _read_noise(noise: str) -> str:
    """The text of a noise as federations have it.

    Raises:
        ValueError: if it is none.
    """
    if noise.startswith(COMPLETENESS):
        return noise
    if noise.startswith(LABELS):
        ClassNoise.parse_sites(noise.removeprefix(LABELS))
        return noise
    if noise.startswith(PROTOCOLS):
        protocols = SiteProtocol.parse_sites(noise.removeprefix(PROTOCOLS).strip())
        return f"{PROTOCOLS} {'-'.join(str(protocol.with_lengths()) for protocol in protocols)}"
    return str(FederationNoise.parse(noise))


def _noise_option(noise: str, table: str | None) -> str:
    """The option of `fedannot data noise` that makes a noise."""
    if noise.startswith(LABELS):
        return f"--labels {shell_word(noise.removeprefix(LABELS).strip())}" + (
            f" --table {shell_word(table)}" if table else ""
        )
    if noise.startswith(COMPLETENESS):
        return f"--completeness {shell_word(noise.removeprefix(COMPLETENESS).strip())}"
    if noise.startswith(PROTOCOLS):
        return f'--protocols "{noise.removeprefix(PROTOCOLS).strip()}"'
    return f'--model "{noise}"'


def _comparable(noise: str) -> str:
    """Write a noise like a requirement; another kind of text stays."""
    try:
        return _read_noise(noise)
    except ValueError:
        return noise
