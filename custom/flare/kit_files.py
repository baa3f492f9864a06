"""A startup kit's configuration as NVFlare takes it when a process starts: which file counts, and what they give."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nvflare.apis.fl_constant import SiteType
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.private.json_configer import JsonConfigurator

from ...transforms.errors import DataError
from ...transforms.strict_files import JsonObject, read_json
from ..approval.participants import START_FILES, Role

# NVFlare adds every file of such a name to the resources, for parent and job processes; its `deploy prepare` keeps it.
START_CHECK_FILE = "fedannot__resources.json"

Document = Literal["rights", "privacy", "logs", "resources", "start check"]


@dataclass(frozen=True)
class KitFiles:
    """A kit's files, read again by each method.

    Attributes:
        folder: the kit, or the workspace into which NVFlare's start script has linked it.
        role: whose it is.
    """

    folder: Path
    role: Role

    @classmethod
    def open(cls, folder: Path) -> "KitFiles":
        """Open a kit.

        Raises:
            DataError: if it is none of a server or a site.
        """
        for role, name in START_FILES.items():
            if (folder / "startup" / name).is_file() and (folder / "local").is_dir():
                return cls(folder, role)
        expected = " or ".join(f"startup/{name}" for name in START_FILES.values())
        raise DataError(f"{folder}: expected a startup kit with local and {expected}.")

    @property
    def local(self) -> Path:
        """The folder with what the participant decides."""
        return self.folder / "local"

    def merged(self) -> list[JsonObject]:
        """Return what NVFlare builds components from, in the parent process and in the process of a job.

        Raises:
            DataError: if NVFlare cannot merge the files.
        """
        workspace, is_server = self._workspace(), self.role == "server"
        merged = []
        for for_job in (False, True):
            try:
                files = workspace.get_config_files_for_startup(is_server, for_job)
                merged.append(dict(JsonConfigurator(files, base_pkgs=[], module_names=[]).config_data))
            except Exception as error:
                raise DataError(f"{self.local}: NVFlare cannot read the kit's resources: {error}") from error
        return merged

    def found_by_name(self) -> JsonObject:
        """Return the resources that NVFlare finds when it looks for their name in the whole kit.

        Raises:
            DataError: if it finds none that it can read.
        """
        try:
            return dict(ConfigService.load_config_dict("resources.json", [str(self.folder)]))
        except Exception as error:
            raise DataError(f"{self.folder}: NVFlare cannot read the kit's resources: {error}") from error

    def document(self, name: Document) -> JsonObject:
        """Return one of the kit's files, the one that counts for NVFlare; empty where there is none.

        Args:
            name: who may do what (``rights``), the ``privacy`` policy, how ``logs`` are written, the ``resources`` from
                which NVFlare takes the list of classes, or the ``start check`` that is added to its components.

        Raises:
            DataError: if it cannot be read.
        """
        workspace = self._workspace()
        files: dict[Document, Path | str | None] = {
            "rights": workspace.get_authorization_file_path(),
            "privacy": workspace.get_site_privacy_file_path(),
            "logs": workspace.get_log_config_file_path(),
            "resources": workspace.get_resources_file_path(),
            "start check": self.local / START_CHECK_FILE,
        }
        return _keys_with_values(files[name], f"a kit's {name}")

    def _workspace(self) -> Workspace:
        return Workspace(str(self.folder), SiteType.SERVER if self.role == "server" else "")


def components_of(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the components that a configuration lists; what is none is left out."""
    listed = values.get("components")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def own_folder() -> Path:
    """Return the kit on which this process of NVFlare was started: its argument ``-m``, else the current folder."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-m", "--workspace")
    try:
        named = parser.parse_known_args(sys.argv[1:])[0].workspace
    except argparse.ArgumentError:
        named = None
    return Path(named or ".").absolute()


def _keys_with_values(file: Path | str | None, expected: str) -> JsonObject:
    if file is None or not Path(file).is_file():
        return {}
    values = read_json(Path(file), expected)
    if not isinstance(values, dict):
        raise DataError(f"{file}: expected keys with values, but found {type(values).__name__}.")
    return values
