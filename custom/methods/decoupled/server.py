"""Decoupled predictions at the server."""

from ...interface.views import Round
from ..personal.server import PersonalServer
from .settings import DecoupledSettings


class DecoupledServer(PersonalServer):
    """Segmentation network, prior and posterior are averaged by numbers of samples (Sec. 2).

    The adaptation networks stay at the sites.
    """

    settings: DecoupledSettings

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``decoupled predictions``."""
        return "warm-up" if this_round.number <= self.settings.warmup_rounds else "decoupled predictions"
