"""FedBN at the server: a network of which nothing would be a site's own is refused before anybody trains."""

from typing import Any

import pytest

from fedannot.custom.methods.fedbn.server import FedBnServer
from fedannot.custom.methods.fedbn.settings import FedBnSettings
from fedannot.custom.settings import SettingsError

UNET = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}


@pytest.mark.parametrize("norm", ["instance", None])
def test_a_network_without_values_of_normalisation_is_refused_by_name(norm: str | None) -> None:
    settings = FedBnSettings.model_validate({"network": UNET | {"norm": norm}})
    with pytest.raises(SettingsError, match=r"key 'network' is '.*UNet' without normalisation"):
        FedBnServer(settings)


@pytest.mark.parametrize("network", [{}, UNET | {"norm": "batch"}, UNET | {"norm": ["instance", {"affine": True}]}])
def test_other_networks_are_taken(network: dict[str, Any]) -> None:
    FedBnServer(FedBnSettings.model_validate({"network": network}))
