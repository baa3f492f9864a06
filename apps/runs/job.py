"""A job folder: which sites it names, what its settings are, and a copy of it with other settings."""

import importlib
import inspect
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
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
from ...transforms.strict_files import JsonObject, read_json
from ..wording.shell_words import shell_word
from .installed import UnknownJobError, find_job
from .job_hocon import read_job_hocon

# Next to the app, where NVFlare does not look: named sets of settings, see settings_files.py.
SETTINGS_FOLDER = "settings"
# As above: runs the job of its folder by NVFlare's recipe, see nvflare_recipe.py.
JOB_PROGRAM = "job.py"

# In place of names in a job's deploy_map: the server and every site.
ALL_MEMBERS = "@ALL"


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
        left_out = (SETTINGS_FOLDER, JOB_PROGRAM)
        shutil.copytree(self.folder, folder, ignore=lambda inside, _: left_out if Path(inside) == self.folder else ())
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


def parse_hocon(file: Path) -> JsonObject:
    """Read a HOCON file of a job, see :func:`.job_hocon.read_job_hocon`.

    Raises:
        JobError: if it cannot be read, or includes what it may not.
    """
    try:
        return read_job_hocon(file)
    except DataError as error:
        raise JobError(str(error)) from error


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
