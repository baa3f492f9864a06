"""RMD at the server: federated averaging of both networks."""

from ...interface.views import Round
from ..fedavg.server import FedAvgServer


class RmdServer(FedAvgServer):
    """Averages both networks by numbers of samples; the first one is the result."""

    def stage(self, this_round: Round) -> str:
        """Return ``mutual distillation``."""
        del this_round
        return "mutual distillation"
