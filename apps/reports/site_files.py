"""What sites stored of a run below a folder: an output folder, an NVFlare workspace, or a site's own alone."""

from dataclasses import dataclass
from pathlib import Path

from ...custom.data.personal_files import LOCAL_MODEL_FILE, PERSONAL_FOLDER
from ...custom.methods.lookup import read_job_settings
from ...custom.settings import RunSettings
from ...transforms.errors import DataError
from ..runs.job import parse_hocon

_APP = "app_"


@dataclass(frozen=True)
class SiteFiles:
    """A run's folder at a site, with the model that the site stored.

    Attributes:
        site: the site's name.
        folder: the run's folder in the site's workspace.
    """

    site: str
    folder: Path

    @property
    def model(self) -> Path:
        """The file with the shared network and the site's own layers."""
        return self.folder / PERSONAL_FOLDER / LOCAL_MODEL_FILE

    def settings(self) -> RunSettings:
        """Read the settings that the site ran with.

        Raises:
            DataError: if they are not there.
            SettingsError: if they cannot be used.
        """
        file = self.folder / f"{_APP}{self.site}" / "config" / "settings.conf"
        if not file.is_file():
            raise DataError(
                f"{file}: found no such file; expected the settings of the run whose model is {self.model}."
            )
        return read_job_settings(parse_hocon(file).get("settings") or {}, source=str(file))


def find_site_files(run: Path, site: str | None = None) -> list[SiteFiles]:
    """Find the run folders of sites that stored a model, in the order of their paths.

    Args:
        run: where to look, at any depth.
        site: only this site's.
    """
    found = [SiteFiles(app.name.removeprefix(_APP), app.parent) for app in sorted(run.glob(f"**/{_APP}*"))]
    return [files for files in found if site in (None, files.site) and files.model.is_file()]
