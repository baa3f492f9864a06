"""A job folder: which sites it names, what its settings are, and a copy of it with other settings."""

import copy
import importlib
import inspect
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...custom.components.building import parameters_of, takes_anything
from ...custom.components.component import TARGET
from ...custom.components.merging import (
    apply_changes,
    component_places,
    flat,
    merged,
    names_a_component,
    place_of,
    value_at,
)
from ...custom.former_names import current_setting, has_former_names
from ...custom.methods.lookup import find_method, read_job_settings
from ...custom.settings import RunSettings, SettingsError, SettingValues, of_recipe
from ...transforms.errors import DataError, did_you_mean
from ...transforms.strict_files import JsonObject, parse_yaml, read_json
from ..wording.shell_words import shell_word
from .hocon import parse_hocon_value, read_hocon
from .installed import UnknownJobError, find_job

# Beside the app, where NVFlare does not look: named sets of settings, see settings_files.py.
SETTINGS_FOLDER = "settings"
# As above: runs the job of its folder by NVFlare's recipe, see nvflare_recipe.py.
JOB_PROGRAM = "job.py"

# In place of names in a job's deploy_map: the server and every site.
ALL_MEMBERS = "@ALL"

# A substitution in HOCON, which may be an environment variable.
_VARIABLE = re.compile(rb"\$\{\??\s*([^}\s]+)")

# What may include anything but one of the files beside that are looked at.
_ELSEWHERE = re.compile(rb'\binclude\b(?!\s*"[^"/\\:*?]+\.conf")')

# A job's configurations lie in JOB/APP/config.
_LEVELS_OF_JOB = 3

# What decides which settings there are.
_KINDS = ("task", "method")


class JobError(ValueError):
    """A job folder cannot be used; the text names the folder, what was found and what was expected."""


@dataclass(frozen=True)
class Job:
    """An NVFlare job folder with one app for the server and all sites."""

    folder: Path

    @classmethod
    def open(cls, name_or_folder: str | Path) -> "Job":
        """Open a job folder, or a job that is installed, by its name.

        Raises:
            JobError: if it is not one, or has several apps.
            SettingsError: if its settings cannot be used.
        """
        try:
            job = cls(find_job(name_or_folder))
        except UnknownJobError as error:
            raise JobError(str(error)) from None
        for file in (job.server_config, job.client_config, job.settings_file):
            if not file.is_file():
                raise JobError(f"Expected the file {file}, but it does not exist.")
        job.settings()
        for file in (job.server_config, job.client_config):
            check_components(file)
        return job

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self._meta()["name"])

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that the job names; none where it is for all that are there."""
        (members,) = self._meta()["deploy_map"].values()
        return tuple(member for member in members if member not in ("server", ALL_MEMBERS))

    @property
    def app(self) -> Path:
        """The folder of the job's only app."""
        names = list(self._meta()["deploy_map"])
        if len(names) != 1:
            raise JobError(f"Expected one app in {self.folder / 'meta.json'}, but found {names}.")
        return self.folder / str(names[0])

    @property
    def server_config(self) -> Path:
        """The server's configuration."""
        return self.app / "config" / "config_fed_server.conf"

    @property
    def client_config(self) -> Path:
        """The sites' configuration."""
        return self.app / "config" / "config_fed_client.conf"

    @property
    def settings_file(self) -> Path:
        """The file with the job's settings."""
        return self.app / "config" / "settings.conf"

    def settings(self) -> RunSettings:
        """Read and check the job's settings.

        Raises:
            JobError: if the file cannot be read.
            SettingsError: if a key is unknown or a value not allowed.
        """
        return read_job_settings(self._values(), source=str(self.settings_file))

    def own_values(self) -> SettingValues:
        """Return the settings that the job's file has by their dotted keys, not yet checked."""
        return flat_settings(self._values())

    def setting_names(self, overrides: Mapping[str, Any]) -> list[str]:
        """Return the dotted keys of all settings that the job has; another method among the overrides has others.

        Raises:
            SettingsError: if there is no such method.
        """
        return setting_names(self._kind_with(overrides))

    def known_names(self, overrides: Mapping[str, Any]) -> list[str]:
        """Return the dotted keys of all settings, and those among the overrides that are a component's arguments.

        Raises:
            SettingsError: if there is no such method.
        """
        kind, values = self._kind_with(overrides), self._values()
        places = component_places(kind)
        return setting_names(kind) + [key for key in overrides if _is_of_component(key, places, values, overrides)]

    def _kind_with(self, overrides: Mapping[str, Any], source: Path | None = None) -> type[RunSettings]:
        """The settings of the job's method, or of that among the overrides, which come from a source."""
        kinds = self._values() | {key: overrides[key] for key in _KINDS if key in overrides}
        task, method = kinds.get("task", "segmentation"), kinds.get("method")
        return find_method(str(task), str(method), str(source or self.settings_file)).settings

    def current_names(self, overrides: Mapping[str, Any]) -> SettingValues:
        """Return overrides by the names that settings have now; an unknown name stays as it is.

        Raises:
            SettingsError: if there is no such method, or a setting is given under its former name and its name.
        """
        if not has_former_names(overrides):
            return dict(overrides)
        known = self.setting_names(overrides)
        named: SettingValues = {}
        for key, value in overrides.items():
            current = current_setting(key, known)
            if current in named:
                raise SettingsError(f"Found the setting {current!r} twice, as {key!r} as well; leave one out.")
            named[current] = value
        return named

    def settings_with(self, overrides: Mapping[str, Any], source: Path | None = None) -> RunSettings:
        """Return the job's settings with some of them changed; no file is.

        Args:
            overrides: the changes, ``{"training.batch_size": 8, ...}``.
            source: the file that they come from, to name in an error; by default the job's own.

        Raises:
            SettingsError: if an override is not a setting of the job's method, or its value not allowed.
        """
        return read_job_settings(self._values_with(overrides, source), source=str(source or self.settings_file))

    def recipe_changes(self, overrides: Mapping[str, Any]) -> SettingValues:
        """Return what a recipe among the overrides changes of the job's settings, apart from what they give themselves.

        A recipe that the job's file names fills what the file lacks, as it is read; there is nothing to change.

        Raises:
            SettingsError: if there is no such method.
        """
        if "recipe" not in overrides:
            return {}
        dimensions = overrides.get("network.spatial_dims", value_at(self._values(), "network.spatial_dims"))
        values = {**overrides, "network": {"spatial_dims": dimensions}}
        filled = of_recipe(self._kind_with(overrides), values)
        kept = merged(filled, overrides)
        return {key: value for key, value in filled.items() if key in kept and key not in overrides}

    def _values_with(self, overrides: Mapping[str, Any], source: Path | None = None) -> JsonObject:
        """The file's settings with changes and those of their recipe, whose values are not yet checked."""
        kind = self._kind_with(overrides, source)
        changes, values = self._with_recipe(overrides), self._values()
        known, places = setting_names(kind), component_places(kind)
        in_file, current = self._names_in_file(known), self.current_names(changes)
        for key in current:
            if key not in known and key not in kind.removed and not _is_of_component(key, places, values, current):
                listed = SettingsError.where_listed.replace("JOB", self.folder.name)
                hint = did_you_mean(key, known)
                raise SettingsError(f"{source or self.settings_file}: no setting {key!r}{hint} {listed}")
        apply_changes(values, {in_file.get(key, key): json.loads(_as_json(current[key])) for key in current}, places)
        return values

    def _with_recipe(self, overrides: Mapping[str, Any]) -> SettingValues:
        changes = merged(overrides)
        return merged(self.recipe_changes(changes), changes)

    def copy_with(self, overrides: Mapping[str, Any], folder: Path) -> "Job":
        """Copy the job with other settings, given as ``{"training.batch_size": 8, ...}``.

        The named sets of settings and ``job.py`` stay behind: the copy holds the settings of one run.

        Raises:
            SettingsError: if an override is not a setting of the job's method, or its value not allowed.
        """
        self.settings_with(overrides)
        beside = (SETTINGS_FOLDER, JOB_PROGRAM)
        shutil.copytree(self.folder, folder, ignore=lambda inside, _: beside if Path(inside) == self.folder else ())
        copied = Job(folder)
        if overrides:
            with copied.settings_file.open("a", encoding="utf-8") as file:
                file.write("\n# Changed for this run\n" + "\n".join(self._changed_lines(overrides)) + "\n")
        return copied

    def _changed_lines(self, overrides: Mapping[str, Any]) -> list[str]:
        """Changes as a file with settings has them; a block with a component is written whole."""
        changes = self._with_recipe(overrides)
        kind = self._kind_with(changes)
        current, values = self.current_names(changes), self._values_with(changes)
        in_file, places = self._names_in_file(setting_names(kind)), component_places(kind)
        changed = {place for place in places if any(place_of(key, (place,)) for key in current)}
        whole = sorted(place for place in changed if names_a_component(values, place))
        lines = [
            f"settings.{in_file.get(key, key)} = {_as_json(value)}"
            for key, value in current.items()
            if place_of(key, whole) is None
        ]
        for place in whole:
            # A table is added to one before it, but not across another value.
            lines += [f"settings.{place} = null", f"settings.{place} = {_as_json(value_at(values, place))}"]
        return lines

    def _names_in_file(self, known: Collection[str]) -> dict[str, str]:
        """Setting → its name in the job's file, of those that the file has."""
        own = self.own_values()
        return {current_setting(key, known): key for key in own} if has_former_names(own) else {}

    def _values(self) -> JsonObject:
        """The settings as the file has them, not yet checked."""
        values = parse_hocon(self.settings_file).get("settings")
        if not isinstance(values, dict):
            raise SettingsError(f"{self.settings_file}: expected a block 'settings {{ ... }}', but found {values!r}.")
        return values

    def _meta(self) -> JsonObject:
        try:
            meta: JsonObject = read_json(self.folder / "meta.json", "what the job says of itself")
        except DataError as error:
            raise JobError(str(error)) from error
        if not isinstance(meta, dict) or not isinstance(meta.get("deploy_map", {}), dict):
            raise JobError(f"{self.folder / 'meta.json'}: expected keys with values, and so in deploy_map.")
        if missing := [key for key in ("name", "deploy_map") if key not in meta]:
            raise JobError(f"{self.folder / 'meta.json'}: missing {missing}.")
        return meta


def is_swarm(job: Job) -> bool:
    """Return whether a job's sites talk to each other."""
    # NVFlare's controllers take 0.3 s.
    from nvflare.app_common.ccwf.server_ctl import ServerSideController  # noqa: PLC0415

    for path, _ in components_in(parse_hocon(job.server_config).get("workflows", [])):
        module, _, name = path.rpartition(".")
        if issubclass(getattr(importlib.import_module(module), name), ServerSideController):
            return True
    return False


def check_runs_in_process(job: Job) -> None:
    """Check that a job's sites talk to the server alone.

    Raises:
        JobError: if they talk to each other; the text says how such a job is run.
    """
    if is_swarm(job):
        sites = len(job.sites) or job.settings().embedded.sites
        raise JobError(
            f"{job.folder}: its sites talk to each other, so that each needs a process of its own: "
            f"nvflare simulator {shell_word(job.folder)} -n {sites} -t {sites}"
        )


def check_components(file: Path) -> None:
    """Check that every component of a configuration exists and takes the arguments that it is given.

    Raises:
        JobError: naming the file, the component, the argument and what is allowed.
    """
    for path, arguments in components_in(parse_hocon(file)):
        module, _, name = path.rpartition(".")
        try:
            component = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise JobError(f"{file}: found no component {path!r} ({error}).") from error
        allowed = _argument_names(component)
        if not isinstance(arguments, Mapping):
            raise JobError(f"{file}: the arguments of {path} are {arguments!r}, expected keys with values.")
        for key in arguments:
            if allowed is not None and key not in allowed:
                raise JobError(
                    f"{file}: {path} has no argument {key!r}{did_you_mean(key, allowed)} Allowed: {allowed}."
                )


def parse_hocon(file: Path) -> JsonObject:
    """Read a HOCON file's keys and values, and those of the files of its job that it includes.

    Raises:
        JobError: if it is not HOCON, holds anything but keys with values, or includes a URL or a file outside its job's
            folder, for a file of no job outside its own folder.
    """
    seen = [(other.name, other.read_bytes()) for other in sorted({file, *_conf_files(file.parent)})]
    named = sorted({name.decode("utf-8", "replace") for _, text in seen for name in _VARIABLE.findall(text)})
    environment = tuple((name, os.environ.get(name)) for name in named)
    place = file.absolute() if any(_ELSEWHERE.search(text) for _, text in seen) else None
    return copy.deepcopy(_parse_hocon(_Hocon(file, file.name, tuple(seen), environment, place)))


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
def _parse_hocon(hocon: _Hocon) -> JsonObject:
    """Parse again only what has changed.

    A job's files are asked for several times on the way to a run, and the parser takes a tenth of a second for each.
    """
    try:
        return read_hocon(hocon.file, _folder_of(hocon.file))
    except DataError as error:
        raise JobError(str(error)) from error


def _folder_of(file: Path) -> Path:
    """The folder of the job that a file is of, whose files it may include; of another file its own folder."""
    above = list(file.absolute().parents)[:_LEVELS_OF_JOB]
    return next((folder for folder in above if (folder / "meta.json").is_file()), file.parent)


def components_in(element: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find everything in a configuration that has a class path, at any depth, with its arguments."""
    if isinstance(element, Mapping):
        if isinstance(element.get("path"), str):
            yield element["path"], element.get("args") or {}
        for value in element.values():
            yield from components_in(value)
    elif isinstance(element, list):
        for value in element:
            yield from components_in(value)


def _argument_names(component: Any) -> list[str] | None:
    """Return the names of a component's arguments, collected over the classes that pass theirs on; None if unknown."""
    if not inspect.isclass(component):
        return list(inspect.signature(component).parameters)
    return None if takes_anything(component) else list(parameters_of(component))


def flat_settings(values: Mapping[str, Any]) -> SettingValues:
    """Return nested settings by their dotted keys, ``{"training.batch_size": 8, ...}``."""
    return flat(values)


def setting_names(kind: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the dotted keys of all settings of a kind, ``["training.batch_size", ...]``."""
    names = []
    for name, described in kind.model_fields.items():
        if described.exclude:
            continue
        of: Any = described.annotation
        is_block = isinstance(of, type) and issubclass(of, BaseModel)
        names += setting_names(of, f"{prefix}{name}.") if is_block else [f"{prefix}{name}"]
    return names


def _is_of_component(key: str, places: Collection[str], values: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether a dotted key names a component, or is an argument of one that the file or the changes have."""
    place = place_of(key, places)
    if place is None:
        return False
    naming = (place, f"{place}.{TARGET}")
    return key in naming or any(name in changes for name in naming) or names_a_component(values, place)


def _as_json(value: Any) -> str:
    """Write a value as HOCON reads it; what YAML made of a text that looks like a date becomes text again."""
    return json.dumps(value, default=str)


def parse_override(text: str) -> tuple[str, Any]:
    """Read ``key=value``; the value is YAML (a number, true, a list), a block as in a job's file, or else a text.

    Raises:
        SettingsError: if there is no ``=``.

    >>> parse_override("rounds=8"), parse_override("training.patch=[32, 32, 16]")
    (('rounds', 8), ('training.patch', [32, 32, 16]))
    >>> parse_override("network={_target_ = SegResNet}") == ("network", {"_target_": "SegResNet"})
    True
    """
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key:
        raise SettingsError(f"Expected a setting as key=value, but got {text!r}.")
    try:
        return key, _parsed_value(value)
    except DataError as error:
        raise SettingsError(f"The value of {text!r} cannot be read: {error}") from error


def _parsed_value(text: str) -> Any:
    """A value of the command line: YAML; a block or a list with ``=`` is HOCON, which YAML takes for odd texts."""
    if text[:1] in ("{", "[") and "=" in text:
        try:
            value = parse_yaml(text, "it")
        except DataError:
            return parse_hocon_value(text)
        return parse_hocon_value(text) if _has_equals_key(value) else value
    return parse_yaml(text, "it") if text else ""


def _has_equals_key(value: Any) -> bool:
    """Whether YAML found ``name=value`` where a key was expected."""
    if isinstance(value, Mapping):
        return any("=" in str(key) or _has_equals_key(entry) for key, entry in value.items())
    return isinstance(value, list) and any(map(_has_equals_key, value))
