"""FedBN at the server."""

from ...networks.described import described_network
from ...settings import SettingsError
from ..personal.server import PersonalServer
from .normalisation import has_normalisation
from .settings import FedBnSettings


class FedBnServer(PersonalServer):
    """Federated averaging of all layers but normalisation.

    Raises:
        SettingsError: if the network has no normalisation layer with values.
    """

    settings: FedBnSettings

    def __init__(self, settings: FedBnSettings) -> None:
        super().__init__(settings)
        component = settings.network.component
        if component is not None and not has_normalisation(described_network(settings.network)):
            raise SettingsError(
                f"settings.conf: key 'network' is {component.target!r} without normalisation layers that have values, "
                "which the method 'fedbn' keeps at each site; expected a network with batch normalisation, or with "
                "'affine' instance normalisation."
            )
