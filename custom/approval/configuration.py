"""What a job asks for, apart from its settings: the configurations of server and sites, and their digest."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...transforms.errors import DataError
from ...transforms.printable import printable
from ...transforms.strict_files import JsonObject, parse_json

SERVER_CONFIG = "config_fed_server.json"
CLIENT_CONFIG = "config_fed_client.json"

# In a deployed job: the one document of settings, and what stands for it where a component takes it. NVFlare puts the
# document in the place of the reference.
SETTINGS = "settings"
# What is learnt where the settings do not say.
DEFAULT_TASK = "segmentation"
REFERENCE = "{settings}"

_LONGEST_REASON = 600

# In a swarm results count as they come. A site of FedCurv takes its own part out of the mean by its fraction of the
# samples, which bounds would change; SCAFFOLD and FedNova take updates as they are.
_SWARM_AGGREGATOR = "fedannot.custom.flare.swarm_aggregator.SwarmAggregator"
_WITHOUT_BOUNDS = ("fedcurv",)
# It projects updates in the place of a rule.
_WITHOUT_RULE = ("feddm",)


class JobRefusedError(ValueError):
    """A participant does not take part in a job; the text says what was found in the job, and nothing of the site.

    Args:
        text: the reason; a long one is cut, and what no log or terminal shows as it is becomes visible.
    """

    def __init__(self, text: str) -> None:
        shown = printable(" ".join(text.split()))
        super().__init__(shown if len(shown) <= _LONGEST_REASON else f"{shown[:_LONGEST_REASON]} …")


@dataclass(frozen=True)
class JobConfiguration:
    """What a job asks for.

    Attributes:
        server: the server's configuration, with references in place of settings.
        client: the sites' configuration, as above.
        settings: the document of settings.
        sites: the sites that the job names; None for all that are there when it starts, or where it is not known.
    """

    server: Mapping[str, Any]
    client: Mapping[str, Any]
    settings: Mapping[str, Any]
    sites: frozenset[str] | None = field(default=None, compare=False)

    @property
    def method(self) -> str:
        """What is learnt and how, ``task/method``, as the settings name it: configurations are the same for all."""
        return f"{self.settings.get('task', DEFAULT_TASK)}/{self.settings.get('method')}"

    @classmethod
    def of_resolved(cls, server: Mapping[str, Any], client: Mapping[str, Any]) -> "JobConfiguration":
        """Return what configurations ask for whose settings are written out, as a job's files give them when parsed.

        Raises:
            JobRefusedError: if they have no settings, or differ in them.
        """
        settings = [config.get(SETTINGS) for config in (server, client)]
        if not isinstance(settings[0], Mapping) or settings[0] != settings[1]:
            raise JobRefusedError("Expected the same block 'settings' in the configurations of server and sites.")
        skeletons = [
            {key: _with_references(value, settings[0]) for key, value in config.items() if key != SETTINGS}
            for config in (server, client)
        ]
        return cls(skeletons[0], skeletons[1], settings[0])

    @classmethod
    def of_texts(cls, server: bytes, client: bytes) -> "JobConfiguration":
        """Read what a deployed job asks for.

        Raises:
            JobRefusedError: if a text is not plain JSON with keys and values, or the settings differ.
        """
        configs = {}
        for name, text in ((SERVER_CONFIG, server), (CLIENT_CONFIG, client)):
            config = read_strict_json(name, text)
            if not isinstance(config, dict) or not isinstance(config.get(SETTINGS), dict):
                raise JobRefusedError(f"{name}: expected keys and values with a block 'settings'.")
            configs[name] = config
        server_settings, client_settings = (configs[name].pop(SETTINGS) for name in (SERVER_CONFIG, CLIENT_CONFIG))
        # Not compared as Python does, to which 1 and true are the same.
        if _canonical(server_settings) != _canonical(client_settings):
            raise JobRefusedError("The settings of server and sites differ; expected the same document in both.")
        return cls(configs[SERVER_CONFIG], configs[CLIENT_CONFIG], server_settings)

    def documents(self) -> dict[str, JsonObject]:
        """Return the content of a deployed job's configurations by the names of their files."""
        # NVFlare wants the version first.
        return {
            name: {**config, SETTINGS: dict(self.settings)}
            for name, config in ((SERVER_CONFIG, self.server), (CLIENT_CONFIG, self.client))
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the configurations without settings, in hexadecimal digits."""
        content = {"server": self.server, "client": self.client}
        return hashlib.sha256(_canonical(content).encode()).hexdigest()

    @property
    def takes_bounds(self) -> bool:
        """Whether the job can bound what one site weighs: a swarm, FedCurv and corrections of drift take no bounds."""
        corrects_drift = self.settings.get("drift_correction", "none") != "none"
        is_bounded = self.settings.get("method") not in _WITHOUT_BOUNDS and not corrects_drift
        return _SWARM_AGGREGATOR not in self.classes and is_bounded

    @property
    def takes_rule(self) -> bool:
        """Whether a rule other than the mean can make the job's model."""
        return self.takes_bounds and self.settings.get("method") not in _WITHOUT_RULE

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes and functions that the configurations name, sorted."""
        return tuple(sorted({*_named_in(self.server), *_named_in(self.client)}))


def read_strict_json(name: str, text: bytes) -> Any:
    """Read JSON of a job; see :func:`fedannot.transforms.strict_files.parse_json` for what is refused.

    Args:
        name: the file's name, for an error.
        text: its content.

    Raises:
        JobRefusedError: if it is not JSON or is refused.
    """
    try:
        return parse_json(text.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        raise JobRefusedError(f"{name}: is not JSON; expected text in UTF-8.") from error
    except DataError as error:
        raise JobRefusedError(str(error)) from error


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _with_references(element: Any, settings: Mapping[str, Any]) -> Any:
    """Put the reference where a component's argument is the whole of the settings."""
    if isinstance(element, Mapping):
        return {
            key: REFERENCE if key == SETTINGS and value == settings else _with_references(value, settings)
            for key, value in element.items()
        }
    if isinstance(element, list):
        return [_with_references(entry, settings) for entry in element]
    return element


def _named_in(element: Any) -> Iterator[str]:
    """Find every class path, at any depth."""
    if isinstance(element, Mapping):
        yield from (value for key, value in element.items() if key in _PATH_KEYS and isinstance(value, str))
        for value in element.values():
            yield from _named_in(value)
    elif isinstance(element, list):
        for entry in element:
            yield from _named_in(entry)


# Under which keys NVFlare looks for a component's class.
_PATH_KEYS = ("path", "class_path", "name")
