"""A site in one task, made by hand: data in memory or in a folder, and a run folder of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.location import DataLocation
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.data.store_location import participant_store
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.interface.views import SiteView


class HandmadeSite:
    """A site over several tasks.

    Args:
        folder: what it writes lies in its folder ``run``.
        data: its training cases; None for those of `data_folder`.
        data_folder: folder with a ``data.yaml``.
        name: the site's name.
        embedded: whether its data are the embedded phantom.

    Attributes:
        said: what was written to the site's log.
        stopped: whether the run is being stopped.
    """

    def __init__(
        self,
        folder: Path,
        data: SiteData | None = None,
        data_folder: Path | None = None,
        name: str = "site-1",
        embedded: bool = False,
    ) -> None:
        self.run_folder = folder / "run"
        self.run_folder.mkdir(parents=True, exist_ok=True)
        self.location = DataLocation(folder if data_folder is None else data_folder, embedded)
        self.data, self.name = data, name
        self.said: list[str] = []
        self.stopped = False

    def view(
        self, method: SiteMethod, round_number: int = 1, message: Mapping[str, Any] | None = None, **changes: Any
    ) -> SiteView:
        """Return the site as the method sees it in a task of a round."""

        def load(section: str, as_given: bool = False) -> SiteData:
            if self.data is not None:
                assert section == TRAINING
                return self.data
            replaced = (
                made.corrections.files_in_use(self.location.folder) if section == TRAINING and not as_given else {}
            )
            store = participant_store()
            return load_site_data(
                self.location.folder, store, section=section, site=self.name, replaced_labels=replaced
            )

        values = {
            "name": self.name,
            "seed": method.settings.seed,
            "round_number": round_number,
            "message": message or {},
            "run_folder": self.run_folder,
            "locate": lambda: self.location,
            "load": load,
            "load_given": lambda: load(TRAINING, as_given=True),
            "is_stopped": lambda: self.stopped,
            "info": self.said.append,
            "warning": self.said.append,
        }
        made = SiteView(**(values | changes))
        return made
