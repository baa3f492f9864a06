"""Jobs that somebody with a researcher's account could make, so that sites and server do what they have not approved.

They start from an honest deployed job and change one thing each. What they would do if they ran can be seen: a file
that is written, a folder that is gone, a connection to a listener, a text of the site's files at the server.
"""

import copy
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from conftest import JOBS
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST

from fedannot.apps.deployment.deployable_job import deployable_job, read_configuration
from fedannot.apps.runs.job import flat_settings

_CLIENT, _SERVER = "app/config/config_fed_client.json", "app/config/config_fed_server.json"

# Like one that another package could name by an entry point.
ABSENT_METHOD = "fedelsewhere"

# Keys that NVFlare reads in a job's configurations, and some that it reads in a site's.
_KEYS = (
    "format_version",
    "executors",
    "task_data_filters",
    "task_result_filters",
    "components",
    "handlers",
    "workflows",
    "num_passes",
    "server",
    "client",
    "servers",
    "default_task_fetch_interval",
    "determinism",
    "class_allow_list",
    "class_list_enforcement_mode",
    "allow_log_streaming",
    "app_validator",
    "snapshot_persistor",
    "relay_config",
    "scopes",
    "default_scope",
    "@template",
    "APP_CKPT_DIR",
)


@dataclass(frozen=True)
class Bait:
    """What hostile jobs reach for.

    Attributes:
        marker: a file that is not there.
        victim: a folder with a file in it.
        secret: a file of a site, with names of images.
        url: where a listener counts connections.
    """

    marker: Path
    victim: Path
    secret: Path
    url: str

    def values(self) -> list[Any]:
        """Values for any argument."""
        popen = {"path": "subprocess.Popen", "args": {"args": ["touch", str(self.marker)]}}
        return [
            str(self.marker),
            str(self.victim),
            str(self.secret),
            "../../../../../../etc/passwd",
            self.url,
            f"include file({json.dumps(str(self.secret))})",
            "{$PATH}",
            "{SITE_NAME}",
            "${secret:x}",
            popen,
            popen | {"config_type": "dict"},
            [popen],
            2**62,
            -1,
            1e308,
        ]


@dataclass(frozen=True)
class HostileJob:
    """One job.

    Attributes:
        name: what it tries.
        files: its files by their paths; None takes one away.
        meta: what it says of itself beside what an honest one says.
    """

    name: str
    files: dict[str, str | None]
    meta: dict[str, Any] = field(default_factory=dict)

    def write(self, honest: Path, folder: Path) -> Path:
        """Write the job's folder."""
        files: dict[str, str | None] = {
            str(file.relative_to(honest)): file.read_text(encoding="utf-8")
            for file in honest.rglob("*")
            if file.is_file()
        }
        for path, text in (files | self.files).items():
            if text is None:
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        if self.meta:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8")) | self.meta
            (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        return folder


def named_attacks(honest: Path, bait: Bait) -> list[HostileJob]:
    """What was tried against prepared federations, one of each kind."""
    server, client = _configs(honest)
    command = {"path": "subprocess.Popen", "config_type": "dict", "args": {"args": ["touch", str(bait.marker)]}}
    persistor = {
        "id": "other",
        "path": "nvflare.app_opt.pt.file_model_persistor.PTFileModelPersistor",
        "args": {"model": command},
    }
    spool = {
        "id": "spool",
        "path": "fedannot.custom.aggregation.model_spool.ModelSpool",
        "args": {"folder": str(bait.victim)},
    }
    streamer = {
        "id": "streamer",
        "path": "nvflare.app_common.logging.job_log_streamer.JobLogStreamer",
        "args": {"log_file_name": "fedannot_site.log"},
    }
    secret = json.dumps(str(bait.secret))
    return [
        HostileJob("commands at the sites", {_CLIENT: _with(client, "components", [persistor])}),
        HostileJob("commands at the server", {_SERVER: _with(server, "components", [persistor])}),
        HostileJob("a folder is removed at the sites", {_CLIENT: _with(client, "components", [spool])}),
        HostileJob("a folder is removed at the server", {_SERVER: _with(server, "components", [spool])}),
        HostileJob("another scope", {}, meta={"scope": "swarm"}),
        HostileJob("no filter", {_CLIENT: _with(client, "task_result_filters", [])}),
        HostileJob("a file of the site", _hocon(client, f"settings {{ seed = {{ include file({secret}) }} }}")),
        HostileJob("an address", _hocon(client, f"settings {{ include url({json.dumps(bait.url)}) }}")),
        HostileJob(
            "an address at the server",
            {_SERVER: None, _SERVER.replace(".json", ".conf"): f"include url({json.dumps(bait.url)})"},
        ),
        HostileJob("the site's log", {_CLIENT: _with(client, "components", [streamer])}),
        HostileJob(
            "a method of a package that is not there",
            {
                file: _with_setting(config, "method", ABSENT_METHOD)
                for file, config in ((_CLIENT, client), (_SERVER, server))
            },
        ),
        # The model would be the exact gradient of one hospital; the others need not even be there.
        HostileJob("one hospital", {}, meta={"min_clients": 1, "deploy_map": {"app": ["server", "site-1"]}}),
        HostileJob(
            "one hospital of those that are named",
            {file: _with_setting(config, "min_sites", 1) for file, config in ((_CLIENT, client), (_SERVER, server))},
            meta={"min_clients": 1},
        ),
        HostileJob(
            "a model that is one hospital's",
            {
                file: _with_setting(config, "influence.max_share", 1.0)
                for file, config in ((_CLIENT, client), (_SERVER, server))
            },
        ),
        HostileJob(
            "steps of one sample",
            {
                file: _with_setting(config, "training.batch_size", 1)
                for file, config in ((_CLIENT, client), (_SERVER, server))
            },
        ),
        HostileJob("code", {"app/custom/mine.py": f"open({str(bait.marker)!r}, 'w')\n"}),
        HostileJob("a launcher of its own", {}, meta={"launcher_spec": {"site-1": {"process": {"python": "/bin/sh"}}}}),
    ]


def all_jobs(honest: Path, bait: Bait, admitted: tuple[str, ...]) -> Iterator[HostileJob]:
    """Every class × hostile arguments, every key of NVFlare's configurations, every setting × hostile values.

    Args:
        honest: an honest deployed job.
        bait: what the jobs reach for.
        admitted: names of the classes that a kit's list admits; NVFlare's own list comes with them.
    """
    yield from named_attacks(honest, bait)
    server, client = _configs(honest)
    for path in (*admitted, *DEFAULT_CLASS_ALLOW_LIST):
        for name in (*_arguments(path), "path"):
            for number, value in enumerate(bait.values()):
                component = {"id": "more", "path": path, "args": {name: value}}
                for file, config in ((_CLIENT, client), (_SERVER, server)):
                    yield HostileJob(f"{path}({name} = {number})", {file: _with(config, "components", [component])})
    for key in _KEYS:
        for number, value in enumerate(bait.values()):
            for file, config in ((_CLIENT, client), (_SERVER, server)):
                yield HostileJob(f"{key} = {number}", {file: json.dumps(config | {key: value})})
    for key in flat_settings(client["settings"]):
        for number, value in enumerate(bait.values()):
            files = {file: _with_setting(config, key, value) for file, config in ((_CLIENT, client), (_SERVER, server))}
            yield HostileJob(f"settings.{key} = {number}", files)


def honest_job(folder: Path, sites: tuple[str, ...], name: str = "fedavg") -> Path:
    """Write an honest job."""
    return deployable_job(JOBS / name, folder, sites=sites).folder


def _configs(job: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    documents = read_configuration(job)[1].documents()
    return documents[Path(_SERVER).name], documents[Path(_CLIENT).name]


def _with(config: Mapping[str, Any], key: str, entries: list[Any]) -> str:
    """A configuration with entries added to a list; an empty list replaces it."""
    return json.dumps(dict(config) | {key: [*config.get(key, []), *entries] if entries else []})


def _with_setting(config: Mapping[str, Any], key: str, value: Any) -> str:
    changed = copy.deepcopy(dict(config))
    *groups, name = key.split(".")
    block = changed["settings"]
    for group in groups:
        block = block[group]
    block[name] = value
    return json.dumps(changed)


def _hocon(client: Mapping[str, Any], text: str) -> dict[str, str | None]:
    """The sites' configuration as HOCON with one more line; JSON is HOCON."""
    body = json.dumps(client, indent=1).strip().removeprefix("{").removesuffix("}")
    return {_CLIENT: None, _CLIENT.replace(".json", ".conf"): f"{body}\n{text}\n"}


def _arguments(path: str) -> list[str]:
    module, _, name = path.rpartition(".")
    try:
        return list(inspect.signature(getattr(import_module(module), name)).parameters)
    except (ImportError, AttributeError, ValueError):
        # A class of an optional package that is not installed here.
        return ["config"]
