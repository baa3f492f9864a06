"""Federated averaging at the server."""

from collections.abc import Mapping
from typing import ClassVar

from ...aggregation.drift import stability
from ...interface.method import ServerMethod
from ...interface.views import Round


class FedAvgServer(ServerMethod):
    """Models are averaged by numbers of samples; of a classification it is recorded how far sites move the model.

    Example:
        >>> from fedannot.custom import FedAvgSettings
        >>> FedAvgServer(FedAvgSettings()).measures_drifts
        False
    """

    round_scalars: ClassVar[tuple[str, ...]] = ("stability",)

    @property
    def measures_drifts(self) -> bool:
        """In classification."""
        return self.settings.task == "classification"

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return the stability of a classification's models, which compares methods; see :func:`stability`."""
        has_drifts = self.measures_drifts and this_round.drifts
        return {"stability": stability(this_round.drifts)} if has_drifts else {}
