"""The controller of FedGSCA: what goes to the sites, what comes of their selectors, and a restart."""

import pytest

from fedannot.custom.flare.fedgsca import FedGSCAController
from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector
from fedannot.custom.settings import SettingsError


def controller(**settings):
    made = FedGSCAController({"task": "classification", "method": "fedgsca", **settings})
    made.messages = []
    made.info = made.warning = made.messages.append
    return made


def report(means, variances=(0.1, 0.4), priors=(0.8, 0.2), num_samples=100):
    return {
        "num_samples": num_samples,
        "noise_level": 0.2,
        "selector_means": list(means),
        "selector_variances": list(variances),
        "selector_priors": list(priors),
    }


def test_no_selector_goes_out_before_one_came_in():
    made = controller()
    assert made.task_meta() == {}
    assert made.describe() == {"selector": None}


def test_the_mean_of_the_sites_goes_to_all():
    made = controller()
    made.after_training({"a": report((0.2, 2.0), num_samples=300), "b": report((0.6, 1.0)), "c": {"num_samples": 50}})
    assert made.selector.means == pytest.approx((0.3, 1.75))
    assert made.task_meta() == {"fedannot_selector": made.describe()["selector"]}
    assert made.task_meta()["fedannot_selector"]["means"] == list(made.selector.means)
    assert made.messages == ["No sample selector came from ['c']."]


def test_where_nobody_sends_one_it_stays_as_it_was():
    made = controller()
    made.after_training({"a": report((0.2, 2.0))})
    before = made.selector
    made.after_training({"a": {"num_samples": 100}})
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
def test_what_is_no_mixture_is_left_out_and_named(values):
    made = controller()
    made.after_training({"a": report(**values), "b": report((0.5, 1.0))})
    assert made.selector == SampleSelector((0.5, 1.0), (0.1, 0.4), (0.8, 0.2))
    assert made.messages[0].startswith("The sample selector of a is not used: ")


def test_with_own_selectors_none_goes_out():
    made = controller(selector="own")
    made.after_training({"a": report((0.2, 2.0))})
    assert made.task_meta() == {}


def test_a_restart_goes_on_with_the_same_selector():
    made, again = controller(), controller()
    made.after_training({"a": report((0.2, 2.0))})
    again.restore_method_state(made.method_state())
    assert again.selector == made.selector
    again = controller()
    again.restore_method_state({"num_samples": {}})
    assert again.selector is None


def test_settings_of_another_method_are_refused():
    with pytest.raises(SettingsError, match="runs the method 'fedgsca', but the settings are those of 'fedavg'"):
        FedGSCAController({"task": "classification", "method": "fedavg"})


def test_with_bounded_shares_no_site_has_more_of_the_mean():
    made = controller(influence={"max_share": 0.5})
    made.after_training({"a": report((0.2, 2.0), num_samples=800), "b": report((0.6, 1.0)), "c": report((0.6, 1.0))})
    assert made.selector.means == pytest.approx((0.4, 1.5))
