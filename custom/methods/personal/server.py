"""The server of methods with personal parts: what is shared is averaged, the rest stays at the sites."""

from ...interface.views import Round
from ...task_names import KEEP_MODEL
from ..fedavg.server import FedAvgServer
from .settings import PersonalSettings


class PersonalServer(FedAvgServer):
    """Federated averaging of the shared part; every site keeps the final model with its own part.

    After the last round the sites get the final shared part with the task ``keep_model``. Where the shared part is no
    model by itself, the sites' own models are scored on their validation cases instead of a test set at the server.
    """

    settings: PersonalSettings

    @property
    def is_scored_at_server(self) -> bool:
        """Whether the shared part is a model by itself."""
        return self.settings.has_global_model

    def after_rounds(self, this_round: Round) -> bool:
        """Let every site keep its model; one that does not answer has the personal layers of its last round."""
        answers = this_round.ask(KEEP_MODEL)
        if this_round.is_stopped():
            return False
        stored = {site for site, answer in answers.items() if answer["has_model"]}
        if absent := sorted(set(this_round.num_samples) - stored):
            this_round.warning(f"{absent} did not store the final model.")
        return False
