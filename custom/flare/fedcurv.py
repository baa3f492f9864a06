"""FedCurv: the sites' curvatures travel with their models."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..method_settings import FedCurvSettings
from ..settings import SettingsError
from .federated_averaging import FedAvgController
from .messages import CURVATURE_SAMPLES, CURVATURE_SITES


class FedCurvController(FedAvgController):
    """FedCurv (Shoham et al., *Overcoming Forgetting in Federated Learning on Non-IID Data*, 2019).

    Models are averaged by numbers of samples, and with them, as buffers, the diagonals of the sites' Fisher
    information and the parameters weighted by it. With the next round's model the sites are told whose they are.

    Raises:
        SettingsError: if the settings bound the sites' influence: a site could not take its own curvature out of a mean
            in which it has another share than by its samples.
    """

    method: ClassVar[str] = "fedcurv"
    settings_type = FedCurvSettings
    settings: FedCurvSettings

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.settings.influence.has_bounds:
            raise SettingsError(
                "settings.conf: key 'influence' cannot be set for fedcurv: a site takes its own curvature out of the "
                "mean by its share of all samples, which bounds would change; leave it out."
            )
        self.in_mean: dict[str, int] = {}

    def after_training(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """Remember who is in the mean."""
        self.in_mean = {site: int(report["num_samples"]) for site, report in sorted(reports.items())}

    def task_meta(self) -> dict[str, Any]:
        """Return who is in the mean, and the number of their samples; nothing before the first mean."""
        if not self.in_mean:
            return {}
        return {CURVATURE_SITES: list(self.in_mean), CURVATURE_SAMPLES: sum(self.in_mean.values())}

    def method_state(self) -> dict[str, Any]:
        """Return who is in the mean."""
        return {"in_mean": dict(self.in_mean)}

    def restore_method_state(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.in_mean = {str(site): int(count) for site, count in state.get("in_mean", {}).items()}
