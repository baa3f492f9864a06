"""FedHAC's prototypes as class means: of a site's batches, what leaves it, and what the server makes of them."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.pictures import make_data
from support.rounds import round_of
from support.site_views import HandmadeSite

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.fedhac.class_means import ClassMeans, averaged_prototypes, rows_of
from fedannot.custom.methods.fedhac.prototypes import fixed_prototypes, num_features_of, prototypes_of_round
from fedannot.custom.methods.fedhac.server import HAS_PROTOTYPES, RECEIVED_PROTOTYPES, FedHACServer
from fedannot.custom.methods.fedhac.settings import FedHACSettings
from fedannot.custom.methods.fedhac.site import FedHACSite
from fedannot.custom.methods.fedia.completeness import Completeness
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute

VALUES: dict[str, Any] = {
    "rounds": 9,
    "warmup_rounds": 1,
    "prototypes": "means",
    "network": {"features": (4, 4, 8, 8, 8, 4), "num_classes": 1},
    "training": {"loss": "dice", "batch_size": 2},
}
LOSSES = {"a": 0.2, "b": 0.25, "c": 0.4, "d": 0.5}
COMPLETENESS = {"a": 0.5, "b": 1.0, "c": 0.8, "d": 1.0}


def settings(**changes: Any) -> FedHACSettings:
    return FedHACSettings.model_validate(VALUES | changes)


def added(means: ClassMeans, rows: list[list[float]], labels: list[int], samples: list[int], start: Any) -> None:
    """Add samples of one row of pixels: one feature for each, and its class."""
    features = torch.tensor(rows)[:, None, None]
    means.add(features, torch.tensor(labels).view(len(rows), 1, 1, -1), torch.tensor(samples), start)


def test_means_move_by_a_tenth_in_every_batch_that_has_the_class() -> None:
    """Class 0 has 2, then 4: 0.9 (0.9 · 1 + 0.1 · 2) + 0.1 · 4; class 1 only the first batch; one pixel is ignored."""
    means, start = ClassMeans(), torch.tensor([[1.0], [10.0], [7.0]])
    added(means, [[1.0, 3.0, 5.0], [2.0, 9.0, 7.0]], [0, 0, 1, 0, 255, 1], [0, 1], start)
    added(means, [[4.0, 4.0, 4.0]], [0, 0, 0], [2], start)
    report = means.report(["p", "q", "r"])
    assert report["prototypes"][0] == pytest.approx(0.9 * (0.9 * 1 + 0.1 * 2) + 0.1 * 4)
    # Two patients have class 1, nobody has class 2.
    assert [math.isnan(value) for value in report["prototypes"]] == [False, True, True]
    assert report["num_prototype_patients"] == [3, 0, 0]
    enough = ClassMeans()
    for sample in range(3):
        added(enough, [[6.0]], [1], [sample], start)
    assert enough.report(list("pqr"))["prototypes"][1] == pytest.approx(6 + 4 * 0.9**3)
    # Slices of one patient are one.
    assert enough.report(list("pqq")) == {}


@pytest.mark.parametrize("feature", [math.nan, math.inf, 1e5])
def test_a_mean_that_the_server_could_not_use_stays_at_the_site(feature: float) -> None:
    means = ClassMeans()
    for sample in range(3):
        added(means, [[feature, 1.0]], [0, 1], [sample], torch.zeros(2, 1))
    assert means.report(list("pqr"))["num_prototype_patients"] == [0, 3]


def test_a_site_sends_means_while_there_are_prototypes_and_trains_with_the_received(tmp_path: Path) -> None:
    method = FedHACSite(settings())
    data = make_data([(1,), (1,), (1,), ()])
    trained, models = {}, {}
    other = [[0.5, -0.5, 0.25, 1.0], None]
    for name, message in {
        "first": {HAS_PROTOTYPES: True},
        "received": {HAS_PROTOTYPES: True, RECEIVED_PROTOTYPES: other},
        "off": {HAS_PROTOTYPES: False},
    }.items():
        torch.manual_seed(1)
        network = ready_to_compute(described_network(method.settings.network))
        trained[name] = method.train(network, HandmadeSite(tmp_path / name, data).view(method, 2, message)).fields
        models[name] = network.state_dict()
    assert trained["off"] == {}
    assert trained["first"]["num_prototype_patients"] == [4, 3]
    assert len(trained["first"]["prototypes"]) == 2 * num_features_of(method.settings.network) == 8
    assert trained["first"] != trained["received"]
    assert any(not torch.equal(models["first"][name], models["received"][name]) for name in models["first"])
    fixed = FedHACSite(settings(prototypes="fixed"))
    network = ready_to_compute(described_network(fixed.settings.network))
    assert fixed.train(network, HandmadeSite(tmp_path / "fixed", data).view(fixed, 2)).fields == {}


def test_received_rows_take_the_place_of_the_fixed_ones() -> None:
    fixed = fixed_prototypes(3, 2, 4)
    assert torch.equal(prototypes_of_round(None, 3, 2, 4), fixed)
    assert torch.equal(prototypes_of_round([None, [1.0, 2.0, 3.0, 4.0]], 3, 2, 4)[0], fixed[0])
    for wrong in ([None], [None, [1.0]]):
        with pytest.raises(ComponentError, match="expected 2 of 4"):
            prototypes_of_round(wrong, 3, 2, 4)


def played(server: FedHACServer, number: int = 1, **changes: Any) -> list[str]:
    """A round in which site k sends k + 1 in every feature of both classes; `changes` are of single sites."""
    said: list[str] = []
    reports = {
        site: {
            "num_samples": 4,
            "dice_loss": loss,
            "prototypes": [float(place)] * 8,
            "num_prototype_patients": [3, 3],
        }
        | changes.get(site, {})
        for place, (site, loss) in enumerate(LOSSES.items(), start=1)
    }
    server.after_training(round_of(number, reports=reports, said=said))
    return said


def received(server: FedHACServer) -> Any:
    return server.message(round_of(2))[RECEIVED_PROTOTYPES]


def test_before_weights_of_completeness_means_weigh_by_the_inverse_loss() -> None:
    server = FedHACServer(settings())
    assert RECEIVED_PROTOTYPES not in server.message(round_of(1))
    played(server)
    expected = 0.666777 + 2 * 0.245294 + 3 * 0.054732 + 4 * 0.033197
    assert received(server)[1] == pytest.approx([expected] * 4, abs=5e-6)


def test_with_weights_of_completeness_means_weigh_as_the_models() -> None:
    server = FedHACServer(settings())
    server.completeness = {site: Completeness(value, 1, 1) for site, value in COMPLETENESS.items()}
    played(server)
    expected = 0.149371 + 2 * 0.669433 + 3 * 0.090598 + 4 * 0.090598
    assert received(server)[0] == pytest.approx([expected] * 4, abs=5e-6)


def test_a_class_that_is_withheld_everywhere_stays_as_it_is() -> None:
    server = FedHACServer(settings())
    withheld = {site: {"prototypes": [1.0] * 4 + [None] * 4} for site in LOSSES}
    played(server, **withheld)
    assert received(server) == [pytest.approx([1.0] * 4), None]
    # Where one site sends it, it is that site's; the other sites divide nothing of it.
    played(server, **withheld | {"d": {"prototypes": [math.nan] * 4 + [7.0] * 4}})
    assert received(server) == [pytest.approx([1.0] * 4), [7.0] * 4]
    played(server, **withheld)
    assert received(server)[1] == [7.0] * 4


def test_rows_of_another_network_are_not_used() -> None:
    server, honest = FedHACServer(settings()), FedHACServer(settings())
    said = played(server, a={"prototypes": [9.0] * 16})
    assert "The prototypes of a are not used: found 16 values, expected 2 × 4" in said[0]
    reports = {site: {"prototypes": [math.nan] * 8} for site in "a"}
    played(honest, **reports)
    assert received(server) == received(honest)
    with pytest.raises(ValueError, match="found 3 values"):
        rows_of([1.0] * 3, 2, 4)


def test_a_bound_of_updates_is_one_of_prototypes() -> None:
    """The liar moves a prototype by 100, the others by 1: with a bound it counts as one of them."""
    sent: dict[str, Any] = {"a": [[100.0]], "b": [[1.0]], "c": [[1.0]]}
    equal = LayerWeights.same_in_all_blocks(dict.fromkeys("abc", 1 / 3), ("one",))
    assert averaged_prototypes(sent, equal, [[0.0]]) == [[pytest.approx(34.0)]]
    assert averaged_prototypes(sent, equal, [[0.0]], 1.0) == [[pytest.approx(1.0)]]


@pytest.mark.parametrize("rule", ["trimmed_mean", "median", "geometric_median", "multi_krum"])
def test_with_a_robust_rule_one_site_moves_no_prototype(rule: str) -> None:
    """Deployed jobs have such a rule by default, and no bound of updates with it."""
    sites = [f"site-{number}" for number in range(1, 6)]
    reports = {
        site: {
            "num_samples": 4,
            "dice_loss": 0.2,
            "prototypes": [0.5] * 4 + [0.7] * 4,
            "num_prototype_patients": [3, 3],
        }
        for site in sites
    }
    reports["site-5"] = reports["site-5"] | {"prototypes": [999.0] * 4 + [-999.0] * 4, "dice_loss": 0.001}
    server = FedHACServer(settings(aggregation={"rule": rule}, min_sites=5))
    server.after_training(round_of(1, reports=reports))
    assert received(server) == [[0.5] * 4, [0.7] * 4]


@pytest.mark.parametrize("changes", [{"aggregation": {"rule": "median"}}, {"influence": {"max_update_ratio": 1.0}}, {}])
def test_a_class_of_two_sites_moves_no_prototype_where_a_lie_is_to_be_bounded(changes: dict[str, Any]) -> None:
    withheld = [1.0] * 4 + [math.nan] * 4
    sent = {"a": withheld, "b": withheld, "c": [1.0] * 4 + [2.0] * 4, "d": [1.0] * 4 + [1000.0] * 4}
    server = FedHACServer(settings(**changes, min_sites=3))
    played(server, **{site: {"prototypes": values} for site, values in sent.items()})
    assert received(server)[0] == pytest.approx([1.0] * 4)
    assert (received(server)[1] is None) is bool(changes)


def test_prototypes_survive_a_restart_and_end_with_the_schedule() -> None:
    server, again = FedHACServer(settings()), FedHACServer(settings())
    assert "prototypes" not in server.state()
    played(server)
    again.restore(server.state(), ())
    played(server, 2)
    played(again, 2)
    assert again.state() == server.state()
    server._risen = {"a": 2}
    late = round_of(2 + server.settings.clean_delay)
    assert server.message(late) == {HAS_PROTOTYPES: False}
    before = server.state()
    server.after_training(round_of(late.number, reports={"a": {"prototypes": [5.0] * 8, "dice_loss": 0.2}}))
    assert server.state() == before


def test_means_that_nothing_uses_are_refused() -> None:
    with pytest.raises(ValueError, match="key 'prototypes' is 'means', but 'prototype_weight' is 0"):
        settings(prototype_weight=0.0)
