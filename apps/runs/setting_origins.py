"""Where settings come from: the method's defaults, the job's file, a set of settings, or the command line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticUndefined, to_jsonable_python

from ...custom.compatibility import DataMismatchError
from ...custom.components.component import TARGET
from ...custom.components.merging import KEPT, merged, place_of, value_at
from ...custom.settings import SettingsError, SettingValues, of_recipe
from ...transforms.errors import shown
from .job import Job, flat_settings, setting_names
from .settings_files import SettingsFile

COMMAND_LINE = "--set"
DEFAULT = "the method's defaults"
RECIPE = "the recipe"

_SHOWN_CHARACTERS = 100


@contextmanager
def named_origins(job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> Iterator[None]:
    """Name in an error of settings the places that give the wrong ones, and where each of several comes from.

    Args:
        job: the job whose settings are changed.
        settings_file: the set of settings, None for none.
        overrides: what the command line changes after that.

    Raises:
        SettingsError: the same error, whose lines begin with ``--set key=value`` or the set's file where these give the
            key; with a sentence more where it names settings with their values.
        DataMismatchError: likewise, where the job's network or augmentation cannot be used.
    """
    try:
        yield
    except DataMismatchError as error:
        # An error class need not be made from a text.
        error.args = (_placed(str(error), job, settings_file, overrides),)
        raise
    except SettingsError as error:
        if (placed := _placed(str(error), job, settings_file, overrides)) != str(error):
            raise SettingsError(placed) from error
        origins = _origins(job, settings_file, overrides)
        named = [key for key in origins if re.search(rf"(?<![\w.]){re.escape(key)}=", str(error))]
        if not named:
            raise
        first, *others = (f"{key} from {origins[key]}" for key in named)
        said = ", ".join([first.replace(" from ", " comes from ", 1), *others])
        raise SettingsError(f"{error} {said}. Change them together.") from error


def _placed(text: str, job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> str:
    """The text of an error, each line of which names the place that gives its key, not the job's file in any case."""
    own = re.escape(str(job.settings_file))

    def placed(line: str) -> str:
        result = re.match(rf"{own}: ((?:the job's key|unknown key|key|no setting) '([^']+)'.*)", line)
        if result is None:
            return line
        given = [key for key in overrides if _concerns(key, result[2])]
        if given:
            place = " ".join(f"{COMMAND_LINE} {key}={_as_given(overrides[key])}" for key in given)
        elif settings_file is not None and any(_concerns(key, result[2]) for key in settings_file.values):
            place = str(settings_file.file)
        else:
            return line
        return f"{place}: {result[1]}"

    return "\n".join(map(placed, text.split("\n")))


def _concerns(given: str, key: str) -> bool:
    """Whether a setting that is given is the one of a key, a part of it, or a block around it."""
    if place_of(given, [key]) is not None:
        # Channels and classes of a component's block are not the component's.
        return given.removeprefix(f"{key}.") not in KEPT
    return place_of(key, [given]) is not None


def _as_given(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= _SHOWN_CHARACTERS else shown(value)


def _origins(job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> dict[str, str]:
    """Setting → where its value comes from."""
    origins = dict.fromkeys(job.setting_names(overrides), DEFAULT)
    for layer in setting_layers(job, settings_file, overrides):
        origins |= dict.fromkeys(layer.values, layer.name)
    return origins


@dataclass(frozen=True)
class Layer:
    """Settings from one place, which count before those of the places before it.

    Attributes:
        name: the place, a file or an option of the command line.
        values: the settings that it has, by their dotted keys.
    """

    name: str
    values: Mapping[str, Any]


def setting_layers(job: Job, settings_file: SettingsFile | None, overrides: Mapping[str, Any]) -> list[Layer]:
    """Return the places that give a job's settings after the method's defaults; of two the later one counts.

    Args:
        job: the job.
        settings_file: the set of settings, None for none.
        overrides: what the command line changes after that.
    """
    changes = merged({} if settings_file is None else settings_file.values, overrides)
    layers = [Layer(str(job.settings_file), job.current_names(job.own_values()))]
    layers.append(Layer(RECIPE, _recipe_values(job, changes)))
    if settings_file is not None:
        layers.append(Layer(str(settings_file.file), settings_file.values))
    layers.append(Layer(COMMAND_LINE, overrides))
    return layers


def _recipe_values(job: Job, changes: Mapping[str, Any]) -> SettingValues:
    """What a recipe among the changes says, or that of the job's file of what the file lacks."""
    if "recipe" in changes:
        return job.recipe_changes(changes)
    own = job.current_names(job.own_values())
    network = {"spatial_dims": own.get("network.spatial_dims")}
    filled = of_recipe(type(job.settings()), merged(own, changes) | {"network": network})
    return {key: value for key, value in filled.items() if key not in own}


@dataclass(frozen=True)
class EffectiveSetting:
    """A setting as a run would have it.

    Attributes:
        name: its dotted key.
        value: the value that counts.
        origin: where it comes from, :data:`DEFAULT` or the name of a :class:`Layer`.
        default: the value of the method's settings class; None where the class has none.
    """

    name: str
    value: JsonValue
    origin: str
    default: JsonValue

    @property
    def overrides_default(self) -> bool:
        """Whether a file or the command line gives another value than the method's default."""
        return self.origin != DEFAULT and self.value != self.default


def effective_settings(
    job: Job, settings: str | None = None, overrides: Mapping[str, Any] | None = None
) -> list[EffectiveSetting]:
    """Return every setting of a job with its value, where that comes from, and the method's default.

    Args:
        job: the job.
        settings: a set of settings, by its name next to the job or as a file.
        overrides: what is changed after that.

    Raises:
        JobError, SettingsError: if the settings cannot be used.
    """
    given = job.current_names(overrides or {})
    settings_file = None if settings is None else SettingsFile.read(job, settings, given)
    changes = merged({} if settings_file is None else settings_file.values, given)
    with named_origins(job, settings_file, given):
        effective = job.settings_with(changes)
    values, defaults = effective.model_dump(mode="json"), default_values(type(effective))
    known = [name for name in setting_names(type(effective)) if _has(values, name)]
    # Arguments of a component, such as `network.strides`, are in no settings class.
    others = [key for key in flat_settings(values) if place_of(key, known) is None]
    layers = setting_layers(job, settings_file, given)
    return [
        EffectiveSetting(name, value_at(values, name), _origin(name, layers), defaults.get(name))
        for name in (*known, *others)
    ]


def _has(values: Mapping[str, Any], key: str) -> bool:
    block, _, name = key.rpartition(".")
    return name in ((value_at(values, block) if block else values) or {})


def _origin(name: str, layers: Sequence[Layer]) -> str:
    """The last place that gives a setting, a part of it, or the class that it is the name of."""
    component = name.removesuffix(f".{TARGET}")
    for layer in reversed(layers):
        if any(key == component or place_of(key, [name]) is not None for key in layer.values):
            return layer.name
    return DEFAULT


def default_values(kind: type[BaseModel], prefix: str = "") -> SettingValues:
    """Return the defaults of a settings class by their dotted keys, those of its blocks as the class has them.

    Args:
        kind: the class.
        prefix: of the keys.
    """
    defaults: SettingValues = {}
    for name, field in kind.model_fields.items():
        of: Any = field.annotation
        value = field.get_default(call_default_factory=True)
        if isinstance(value, BaseModel):
            defaults |= flat_settings({f"{prefix}{name}": value.model_dump(mode="json")})
        elif isinstance(of, type) and issubclass(of, BaseModel):
            defaults |= default_values(of, f"{prefix}{name}.")
        elif value is not PydanticUndefined:
            defaults[f"{prefix}{name}"] = to_jsonable_python(value)
    return defaults
