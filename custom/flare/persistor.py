"""The component that holds the network at the server, or at a swarm's sites, and writes the global model."""

from collections.abc import Mapping
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.app_opt.pt.file_model_persistor import PTFileModelPersistor

from ..methods.lookup import read_job_settings
from ..networks.building import load_checkpoint
from ..networks.described import described_network
from ..networks.dry_run import dry_run
from ..settings import ClassifierSettings
from .kept_files import model_file
from .public_errors import public_reason


class NetworkPersistor(PTFileModelPersistor):  # type: ignore[misc]
    """Writes the global model of the network that a job's settings describe.

    NVFlare's own persistor builds whatever class its arguments name, before it asks whether that is a network. This one
    takes plain settings: the network is built by a function of fedannot, from values, when the run starts.

    Args:
        settings: the job's settings.

    Raises:
        SettingsError: if the settings cannot be used.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(allow_numpy_conversion=False)
        self._settings = read_job_settings(settings)

    def handle_event(self, event: str, fl_ctx: FLContext) -> None:
        """Build the network when the run starts; a checkpoint that cannot be used ends the run."""
        if event == EventType.START_RUN:
            try:
                self.model = self._network(fl_ctx)
            except Exception as error:
                # NVFlare would log it, go on without a network, and tell everybody.
                self.system_panic(public_reason(error, fl_ctx), fl_ctx)
                return
        super().handle_event(event, fl_ctx)

    def _network(self, fl_ctx: FLContext) -> Any:
        described, seed = self._settings.network, self._settings.seed
        if described.component is not None:
            # A site has its own look with the size of its images.
            dry_run(self._settings)
        network = described_network(described, seed)
        if isinstance(described, ClassifierSettings) and described.checkpoint:
            load_checkpoint(network, model_file(described.checkpoint, fl_ctx))
        return network
