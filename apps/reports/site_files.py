"""What sites stored of a run below a folder: an output folder, an NVFlare workspace, or a site's own alone."""

from dataclasses import dataclass
from pathlib import Path

from ...custom.data.participant_folder import job_folder_of, participant_folder_beside
from ...custom.data.personal_files import LOCAL_MODEL_FILE, PERSONAL_FOLDER
from ...custom.methods.lookup import read_job_settings
from ...custom.settings import RunSettings
from ...transforms.errors import DataError
from ..runs.job import parse_hocon

_APP = "app_"


@dataclass(frozen=True)
class SiteFiles:
    """What a site keeps of a run, with the model that the site stored.

    Attributes:
        site: the site's name.
        folder: the site's own folder of the run; of earlier versions the job's folder.
        app: the folder with the job's configuration.
    """

    site: str
    folder: Path
    app: Path

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
        file = self.app / "config" / "settings.conf"
        if not file.is_file():
            raise DataError(
                f"{file}: found no such file; expected the settings of the run whose model is {self.model}."
            )
        values = parse_hocon(file).get("settings") or {}
        return read_job_settings(values, source=str(file), of_finished_run=True)


def find_site_files(run: Path, site: str | None = None) -> list[SiteFiles]:
    """Find what sites that stored a model keep of runs, in the order of their paths.

    Args:
        run: where to look, at any depth; a site's own folder of a run, or the job's folder, is one place.
        site: only this site's.
    """
    result = [
        SiteFiles(app.name.removeprefix(_APP), folder, app)
        for app in _apps(run)
        for folder in (participant_folder_beside(app.parent), app.parent)
    ]
    return [files for files in result if site in (None, files.site) and files.model.is_file()]


def site_folders(run: Path, site: str) -> list[Path]:
    """Return where a site may keep what it has of runs below a folder, whether there is anything or not."""
    apps = [app for app in _apps(run) if app.name == f"{_APP}{site}"]
    return [folder for app in apps for folder in (participant_folder_beside(app.parent), app.parent)]


def _apps(run: Path) -> list[Path]:
    job_folder = job_folder_of(run.resolve())
    return sorted(app for app in (job_folder or run).glob(f"**/{_APP}*") if app.is_dir())
