"""FedSelect at the server: who trains, and the steps of V."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...aggregation.weighting import LayerWeights
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...seeding import derive_seed
from ...task_names import MEASURE_SCORER_GRADIENT
from ..fedavg.failed_sites import ASKED, failed_sites
from ..fedavg.server import FedAvgServer
from .drawing import drawn_sites, number_of_sites
from .outbound import SCORER_GRADIENT, SELECTION_WEIGHT
from .scorer import initial_scorer
from .scorer_optimizer import ScorerOptimizer
from .settings import SelectionSettings

SCORER = "fedannot_scorer"
# Whether cases are drawn by V, or at equal chances.
IS_SELECTIVE = "fedannot_is_selective"
# Goes to one site alone: the round after which its margins count.
TRAINED_ROUND = "fedannot_trained_round"


class FedSelectServer(FedAvgServer):
    """Draws the sites of a round by their weights, the mean V of their cases, and averages their models as equals.

    A site that has not trained has the weight 1. Before every round but the first, the site of largest weight among
    those that have trained says how V should change, and Adam takes a step here: what Adam remembers stays. In the
    authors' program a site without margins may be asked, and the step is then left out. One that has given no gradient
    comes after all others, until it has sent a weight again: a site of few patients sends neither, and counts as 1.
    """

    settings: SelectionSettings

    def __init__(self, settings: SelectionSettings) -> None:
        super().__init__(settings)
        self._optimizer = ScorerOptimizer(
            initial_scorer(derive_seed(settings.seed, "scorer")),
            settings.scorer_learning_rate,
            settings.scorer_weight_decay,
        )
        self._weights: dict[str, float] = {}
        self._trained: dict[str, int] = {}
        self._silent: set[str] = set()
        self._chosen: tuple[str, ...] = ()
        self._asked: str | None = None

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``selective``."""
        return "warm-up" if this_round.number <= self.settings.warmup_rounds else "selective"

    def before_round(self, this_round: Round) -> None:
        """Let the site of largest weight say how V should change, and change it."""
        self._asked = min(self._trained, key=self._turn, default=None)
        if self._asked is None:
            return
        place = {self._asked: {TRAINED_ROUND: self._trained[self._asked]}}
        answers = this_round.ask(MEASURE_SCORER_GRADIENT, [self._asked], own_messages=place)
        gradient = answers.get(self._asked, {}).get(SCORER_GRADIENT)
        if gradient is None or not all(map(math.isfinite, gradient)):
            if not this_round.is_stopped():
                self._silent.add(self._asked)
                this_round.warning(f"{self._asked} gave no gradient of the scorer: it stays as it is in this round.")
            self._asked = None
            return
        self._silent.discard(self._asked)
        self._optimizer.step(gradient)

    def _turn(self, site: str) -> tuple[bool, float, str]:
        """The order in which sites are asked for a gradient, the smallest first."""
        return site in self._silent, -self._weights.get(site, 1.0), site

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Sequence[str]:
        """Return the settings' fraction of the sites, drawn by their weights, in the warm-up at equal chances.

        Sites that failed of late are drawn after the others.
        """
        number = number_of_sites(len(sites), self.settings.site_fraction, self.settings.min_sites)
        is_warmup = self.stage(this_round) == "warm-up"
        weights = {site: 1.0 if is_warmup else self._weights.get(site, 1.0) for site in sites}
        failed = failed_sites(this_round.history, sites)
        seed = derive_seed(self.settings.seed, this_round.number, "sites")
        self._chosen = tuple(drawn_sites(weights, number, seed, last=failed))
        return self._chosen

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return V, and whether cases are drawn by it."""
        return {SCORER: self._optimizer.parameters, IS_SELECTIVE: self.stage(this_round) == "selective"}

    def own_messages(self, this_round: Round) -> Mapping[str, Mapping[str, object]]:
        """Return of each site that has trained the round after which its margins count."""
        del this_round
        return {site: {TRAINED_ROUND: number} for site, number in self._trained.items()}

    def weights(self, this_round: Round) -> LayerWeights:
        """Return equal weights of the sites that train."""
        equal = dict.fromkeys(self._chosen, 1 / len(self._chosen))
        return LayerWeights.same_in_all_blocks(equal, this_round.blocks)

    def after_training(self, this_round: Round) -> None:
        """Take note of the sites' weights."""
        for site, report in sorted(this_round.reports.items()):
            self._trained[site] = this_round.number
            weight = getattr(report, SELECTION_WEIGHT, None)
            if weight is not None:
                self._weights[site] = float(weight)
                self._silent.discard(site)

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return who was asked to train, and which site's gradient V followed; None where it stayed as it was."""
        return {**super().record(this_round), ASKED: list(self._chosen), "scorer_site": self._asked}

    def state(self) -> Mapping[str, object]:
        """Return V with Adam's moments, the sites' weights, when each has trained, and who gave no gradient."""
        return {
            "scorer": self._optimizer.state(),
            "site_weights": self._weights,
            "trained": self._trained,
            "silent": sorted(self._silent),
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back."""
        del history
        if "scorer" in state:
            self._optimizer.restore(state["scorer"])
            self._weights, self._trained = dict(state["site_weights"]), dict(state["trained"])
            self._silent = set(state.get("silent", ()))

    def describe(self, this_round: Round) -> Mapping[str, object]:
        """Return the sites' weights, what V makes of losses from 0 to 3, and how many steps it has made."""
        del this_round
        losses = [0.0, 0.25, 0.5, 1.0, 2.0, 3.0]
        return {
            "site_weights": dict(sorted(self._weights.items())),
            "scorer_steps": self._optimizer.steps,
            "scorer": {str(loss): weight for loss, weight in zip(losses, self._optimizer.weights(losses), strict=True)},
        }
