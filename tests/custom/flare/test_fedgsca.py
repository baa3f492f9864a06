"""The controller of FedGSCA: what goes to the sites, what comes of their selectors, and a restart."""

import pytest

from fedannot.custom.flare.fedgsca import FedGSCAController
from fedannot.custom.quality.sample_selector import SampleSelector
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


@pytest.mark.parametrize("means", [(2.0, 1.0), (None, 1.0)])
def test_what_is_no_mixture_is_left_out_and_named(means):
    made = controller()
    made.after_training({"a": report(means), "b": report((0.5, 1.0))})
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
