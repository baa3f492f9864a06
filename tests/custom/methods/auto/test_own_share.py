"""The global model less a site's share."""

import pytest
import torch

from fedannot.custom.methods.auto.own_share import without_own_share


def test_the_others_average_is_left():
    sites = {name: {"w": torch.randn(3), "n": torch.tensor(7)} for name in "abc"}
    samples = {"a": 2, "b": 3, "c": 5}
    average = {"w": sum(samples[name] * sites[name]["w"] for name in "abc") / 10, "n": torch.tensor(7)}
    left = without_own_share(average, sites["c"], 0.5)
    assert torch.allclose(left["w"], (2 * sites["a"]["w"] + 3 * sites["b"]["w"]) / 5, atol=1e-6)
    assert left["n"] == 7


def test_a_site_alone_has_no_others():
    with pytest.raises(ValueError, match="share"):
        without_own_share({"w": torch.ones(1)}, {"w": torch.ones(1)}, 1.0)
    with pytest.raises(ValueError, match="entries"):
        without_own_share({"w": torch.ones(1)}, {}, 0.5)
