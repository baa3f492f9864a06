"""Settings of a fingerprint."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from ..fedavg.settings import FedAvgSettings

# The smallest that the network of the settings takes: nothing is to be learnt.
_PATCH = (32, 32, 32)


class FingerprintSettings(FedAvgSettings):
    """Settings of a fingerprint: those of federated averaging. Whole volumes need no patch."""

    method: str = "fingerprint"

    @model_validator(mode="before")
    @classmethod
    def _volumes_have_a_patch(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        network, training = values.get("network", {}), values.get("training", {})
        # What is no table is refused by its own check.
        if not isinstance(network, Mapping) or not isinstance(training, Mapping):
            return values
        if network.get("spatial_dims") != 3 or training.get("patch") is not None:
            return values
        return {**values, "training": {**training, "patch": _PATCH}}

    @property
    def training_predictions(self) -> int | None:
        """Return None: there is nothing to be learnt."""
        return None
