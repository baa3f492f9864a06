"""A model for every part of the patients, and sites that alone learn what is concluded of them."""

from collections.abc import Mapping
from typing import Any

from ....transforms.natural_order import natural_order
from ...interface.views import Round
from ...task_names import CONCLUDE, KEEP_REFERENCE_MODEL
from ..fedavg.server import FedAvgServer
from .folds import fold_of_round
from .settings import FoldsSettings


class FoldsServer(FedAvgServer):
    """Trains the reference models, by federated averaging.

    Sites keep the model of every fold but the last (task ``keep_reference_model``), since each predicts the patients
    that it has not learnt. What is concluded of a site it alone learns (``conclude``).
    """

    settings: FoldsSettings

    def stage(self, this_round: Round) -> str:
        """Return which part of the patients the round's model will predict."""
        return f"reference model of part {self._fold(this_round.number) + 1} of {self.settings.folds}"

    def restarts(self, this_round: Round) -> bool:
        """With every part of the patients."""
        return this_round.number > 1 and self._fold(this_round.number) != self._fold(this_round.number - 1)

    def before_round(self, this_round: Round) -> None:
        """Let the sites keep the model of a finished fold."""
        if not self.restarts(this_round):
            return
        answers = this_round.ask(KEEP_REFERENCE_MODEL)
        if absent := sorted(set(this_round.num_samples) - set(answers), key=natural_order):
            this_round.warning(f"{', '.join(absent)}: no model was kept; the last one predicts all patients there.")

    def tell(self, this_round: Round, concluded: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Tell each site what is concluded of it, which no other site learns; return those that have it."""
        messages = {site: {"conclude": of_site} for site, of_site in concluded.items()}
        answers = this_round.ask(CONCLUDE, list(messages), own_messages=messages)
        return [site for site, fields in answers.items() if fields["has_concluded"]]

    def _fold(self, number: int) -> int:
        return fold_of_round(number, self.settings.rounds_of_fold)
