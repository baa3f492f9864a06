"""FedFixer at the server: federated averaging, with a warm-up in which no samples are chosen."""

from ...interface.views import Round
from ..fedavg.server import FedAvgServer
from .settings import FedFixerSettings


class FedFixerServer(FedAvgServer):
    """Averages the sites' global models by numbers of samples; their own models stay with them."""

    settings: FedFixerSettings

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``sample selection``."""
        return "warm-up" if this_round.number <= self.settings.warmup_rounds else "sample selection"
