"""FedCurv at the server."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...settings import SettingsError
from ..fedavg.server import FedAvgServer
from .settings import FedCurvSettings

# In what goes to all sites: of how many curvatures the received mean is, and of how many samples these are.
NUM_CURVATURES = "fedannot_num_curvatures"
CURVATURE_SAMPLES = "fedannot_curvature_samples"
# In what goes to one site: whether the mean is of its own curvature, too.
IN_MEAN = "fedannot_in_mean"


class FedCurvServer(FedAvgServer):
    """FedCurv (Shoham et al., *Overcoming Forgetting in Federated Learning on Non-IID Data*, 2019).

    Models are averaged by numbers of samples, and with them, as buffers, the diagonals of the sites' Fisher
    information and the parameters weighted by it. With the next round's model a site learns of how many sites they
    are, and whether it is one of them.

    Raises:
        SettingsError: if the settings bound the sites' influence or have another rule than the mean: a site could not
            take its own curvature out of a mean in which it has another share than by its samples.
    """

    settings: FedCurvSettings

    def __init__(self, settings: FedCurvSettings) -> None:
        super().__init__(settings)
        if settings.influence.has_bounds:
            raise SettingsError(
                "settings.conf: key 'influence' cannot be set for fedcurv: a site takes its own curvature out of the "
                "mean by its fraction of all samples, which bounds would change; leave it out."
            )
        if settings.aggregation.is_robust:
            raise SettingsError(
                f"settings.conf: key 'aggregation.rule' is {settings.aggregation.rule!r}, expected 'mean' for fedcurv: "
                "a site takes its own curvature out of the mean, which it cannot take out of another average."
            )
        self.in_mean: dict[str, int] = {}

    def after_training(self, this_round: Round) -> None:
        """Remember who is in the mean."""
        self.in_mean = dict(sorted(this_round.samples_of_reports.items()))

    def message(self, this_round: Round) -> dict[str, int]:
        """Return how many sites are in the mean, and the number of their samples; nothing before the first mean."""
        del this_round
        if not self.in_mean:
            return {}
        return {NUM_CURVATURES: len(self.in_mean), CURVATURE_SAMPLES: sum(self.in_mean.values())}

    def own_messages(self, this_round: Round) -> dict[str, dict[str, bool]]:
        """Return that a site is in the mean, for those that are."""
        del this_round
        return {site: {IN_MEAN: True} for site in self.in_mean}

    def state(self) -> dict[str, dict[str, int]]:
        """Return who is in the mean."""
        return {"in_mean": dict(self.in_mean)}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take it back."""
        del history
        self.in_mean = {str(site): int(count) for site, count in state.get("in_mean", {}).items()}
