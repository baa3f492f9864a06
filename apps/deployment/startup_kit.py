"""NVFlare's startup kit of the server, a relay or a site, as a folder; it loads in no time, for frequent checks."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ...custom.approval.participants import START_FILES
from ...transforms import strict_files
from ...transforms.errors import DataError
from ...transforms.strict_files import JsonObject

# Of a relay, which hands on messages and runs no jobs, there are no policies.
KitRole = Literal["server", "relay", "site"]
_START_FILES: dict[KitRole, str] = {
    "server": START_FILES["server"],
    "site": START_FILES["site"],
    "relay": "fed_relay.json",
}

_RESOURCES = "resources.json"
# In `local` of a site that reaches the server through a relay, and of a relay: where it takes connections.
_RELAY_FILE = "relay__resources.json"
_LISTENER_FILE = "comm_config.json"
_LARGEST_PORT = 65535
# What NVFlare's own `deploy prepare` puts in the place of the launcher of processes.
_RUNTIME_LAUNCHERS = ("docker_launcher", "k8s_launcher", "slurm_launcher")


class KitError(ValueError):
    """A startup kit, or what is to be written into it, cannot be used; the text names the file and what was found."""


@dataclass(frozen=True)
class Address:
    """Where a participant is reached.

    Attributes:
        participant: the server or a relay.
        host: its host name, which its certificate proves.
        port: its port.
        security: how connections to it are protected, by NVFlare's word: ``mtls``, ``tls`` or ``clear``; else what the
            kit says instead.
    """

    participant: Literal["server", "relay"]
    host: str
    port: int
    security: str = "mtls"


@dataclass(frozen=True)
class Kit:
    """A startup kit: what NVFlare's provisioning made for one participant.

    Attributes:
        folder: the kit's folder, with ``startup`` and ``local``.
        role: whose it is.
    """

    folder: Path
    role: KitRole

    @classmethod
    def open(cls, folder: Path) -> "Kit":
        """Open a kit.

        Raises:
            KitError: if it is none, or an administrator's.
        """
        for role, name in _START_FILES.items():
            if (folder / "startup" / name).is_file():
                return cls(folder.resolve(), role)
        expected = " or ".join(f"startup/{name}" for name in _START_FILES.values())
        raise KitError(f"Expected the startup kit of a server, a relay or a site in {folder}, but found no {expected}.")

    @property
    def startup(self) -> Path:
        """The folder with certificates and scripts, which nobody changes."""
        return self.folder / "startup"

    @property
    def local(self) -> Path:
        """The folder with what the participant decides."""
        return self.folder / "local"

    @cached_property
    def start_config(self) -> JsonObject:
        """What the kit's start file says: the server's address, and where the certificates are."""
        return read_json(self.startup / _START_FILES[self.role])

    @property
    def server_address(self) -> tuple[str, int]:
        """Host name and port under which sites reach the server.

        Raises:
            KitError: if the start file does not say.
        """
        try:
            return _host_and_port(self.start_config["servers"][0]["service"]["target"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            file = self.startup / _START_FILES[self.role]
            raise KitError(f"{file}: expected the server's host:port as servers[0].service.target.") from error

    @property
    def connects_to(self) -> Address:
        """What a site or a relay connects to: the server or a relay.

        Raises:
            KitError: if the kit does not say.
        """
        file = self.startup / _START_FILES[self.role] if self.role == "relay" else self.local / _RELAY_FILE
        if not file.is_file():
            return Address("server", *self.server_address)
        key = "connect_to" if self.role == "relay" else "relay_config"
        try:
            entry = read_json(file)[key]
            # NVFlare's name of the root of all cells, and what it takes where nothing is said.
            participant: Literal["server", "relay"] = "server" if entry["fqcn"] == "server" else "relay"
            return Address(
                participant, *_host_and_port(entry["address"]), str(entry.get("connection_security", "mtls"))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise KitError(f"{file}: expected host:port as {key}.address, and a name as {key}.fqcn.") from error

    @property
    def listens_at(self) -> Address:
        """Where the server or a relay takes connections.

        Raises:
            KitError: if the kit does not say.
        """
        if self.role == "server":
            return Address("server", *self.server_address)
        file = self.local / _LISTENER_FILE
        try:
            resources = read_json(file)["internal"]["resources"]
            place = _host_and_port(f"{resources['host'] or ''}:{resources['port']}")
            # A listener of which nothing is said is an open one.
            return Address("relay", *place, str(resources.get("connection_security") or "clear"))
        except (KeyError, TypeError, ValueError) as error:
            raise KitError(f"{file}: expected internal.resources.host and internal.resources.port.") from error

    def certificate(self, what: Literal["certificate", "key", "authority"], *, of_listener: bool = False) -> Path:
        """Return the file of the participant's certificate, of its private key, or of the authority's certificate.

        Args:
            what: which of them.
            of_listener: a relay has two certificates: one to connect with, and one with which it is connected to.
        """
        if what == "authority":
            return self.startup / "rootCA.pem"
        name = "server" if self.role == "server" or of_listener else "client"
        return self.startup / f"{name}.{'crt' if what == 'certificate' else 'key'}"

    @property
    def is_for_runtime(self) -> bool:
        """Whether NVFlare's own `deploy prepare` has made it, for Docker, Kubernetes or Slurm."""
        components = self.effective(_RESOURCES).get("components", [])
        return any(entry.get("id") in _RUNTIME_LAUNCHERS for entry in components)

    def effective(self, name: str) -> JsonObject:
        """Return what a file in ``local`` says, or NVFlare's default where there is none; empty without either."""
        for file in (self.local / name, self.local / f"{name}.default"):
            if file.is_file():
                return read_json(file)
        return {}


def _host_and_port(text: object) -> tuple[str, int]:
    """Take an address apart.

    Raises:
        ValueError: if it has no host or no port that there is.
    """
    host, _, port = str(text).rpartition(":")
    # Of an address of version 6, with colons, the brackets are no part.
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 < int(port) <= _LARGEST_PORT:
        raise ValueError(text)
    return host, int(port)


def is_kit(folder: Path) -> bool:
    """Return whether a folder is the kit of a server, a relay or a site, which joins a federation."""
    return any((folder / "startup" / name).is_file() for name in _START_FILES.values())


def read_json(file: Path) -> JsonObject:
    """Read a JSON file with keys and values.

    Raises:
        KitError: if it cannot be read.
    """
    try:
        values = strict_files.read_json(file, "a kit's configuration")
    except DataError as error:
        raise KitError(str(error)) from error
    if not isinstance(values, dict):
        raise KitError(f"{file}: expected keys with values, but found {type(values).__name__}.")
    return values
