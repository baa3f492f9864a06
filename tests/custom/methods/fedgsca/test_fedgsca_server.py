"""FedGSCA at the server: what goes to the sites, what comes of their selectors, and a restart."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector
from fedannot.custom.methods.fedgsca.server import FedGSCAServer
from fedannot.custom.methods.fedgsca.settings import FedGSCASettings


class Server(FedGSCAServer):
    """Notes what it writes to the log."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(FedGSCASettings.model_validate(settings))
        self.messages: list[str] = []

    def trained(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        influence = self.settings.influence.model_dump()
        self.after_training(round_of(1, reports=reports, influence=influence, said=self.messages))

    @property
    def sent(self) -> dict[str, Any]:
        return self.message(round_of(2))


def report(
    means: Sequence[float | None],
    variances: Sequence[float] = (0.1, 0.4),
    priors: Sequence[float] = (0.8, 0.2),
    num_samples: int = 100,
) -> dict[str, Any]:
    return {
        "num_samples": num_samples,
        "noise_level": 0.2,
        "selector_means": list(means),
        "selector_variances": list(variances),
        "selector_priors": list(priors),
    }


def test_no_selector_goes_out_before_one_came_in() -> None:
    made = Server()
    assert made.sent == {}
    assert made.describe(round_of(1)) == {"selector": None}


def test_the_mean_of_the_sites_goes_to_all() -> None:
    made = Server()
    made.trained({"a": report((0.2, 2.0), num_samples=300), "b": report((0.6, 1.0)), "c": {"num_samples": 50}})
    assert made.selector.means == pytest.approx((0.3, 1.75))
    assert made.sent == {"fedannot_selector": made.describe(round_of(1))["selector"]}
    assert made.sent["fedannot_selector"]["means"] == list(made.selector.means)
    assert made.messages == ["No sample selector came from ['c']."]


def test_where_nobody_sends_one_it_stays_as_it_was() -> None:
    made = Server()
    made.trained({"a": report((0.2, 2.0))})
    before = made.selector
    made.trained({"a": {"num_samples": 100}})
    assert made.selector == before


@pytest.mark.parametrize(
    "values",
    [
        {"means": (2.0, 1.0)},
        {"means": (None, 1.0)},
        # What no losses from 0 to 27.6, that of a probability of 1e-12, can give.
        {"means": (-1.0, 1.0)},
        {"means": (1.0, 28.0)},
        {"means": (0.5, 1.0), "variances": (0.1, 200.0)},
        {"means": (0.5, 1.0), "priors": (1e9, 0.2)},
    ],
)
def test_what_is_no_mixture_is_left_out_and_named(values: dict[str, Any]) -> None:
    made = Server()
    made.trained({"a": report(**values), "b": report((0.5, 1.0))})
    assert made.selector == SampleSelector((0.5, 1.0), (0.1, 0.4), (0.8, 0.2))
    assert made.messages[0].startswith("The sample selector of a is not used: ")


def test_with_own_selectors_none_goes_out() -> None:
    made = Server(selector="own")
    made.trained({"a": report((0.2, 2.0))})
    assert made.sent == {}


def test_a_restart_goes_on_with_the_same_selector() -> None:
    made, again = Server(), Server()
    made.trained({"a": report((0.2, 2.0))})
    again.restore(made.state(), [])
    assert again.selector == made.selector
    again = Server()
    again.restore({}, [])
    assert again.selector is None


def test_with_bounded_shares_no_site_has_more_of_the_mean() -> None:
    made = Server(influence={"max_share": 0.5})
    made.trained({"a": report((0.2, 2.0), num_samples=800), "b": report((0.6, 1.0)), "c": report((0.6, 1.0))})
    assert made.selector.means == pytest.approx((0.4, 1.5))


def test_the_warm_up_is_federated_averaging() -> None:
    made = Server(warmup_rounds=2, rounds=4)
    assert made.rounds_of_averaging == 2
    assert [made.stage(round_of(number)) for number in (1, 2, 3)] == ["warm-up", "warm-up", "sample selection"]
    assert Server().stage(round_of(1)) == "sample selection"


def test_a_round_is_recorded_with_the_selector_and_how_far_sites_move_the_model() -> None:
    made = Server()
    made.trained({"a": report((0.2, 2.0))})
    record = made.record(round_of(1, drifts={"a": 1.0, "b": 4.0}))
    assert record == {
        "stability": 2.5,
        "selector": {"means": [0.2, 2.0], "variances": [0.1, 0.4], "priors": [0.8, 0.2]},
    }
    assert made.measures_drifts
