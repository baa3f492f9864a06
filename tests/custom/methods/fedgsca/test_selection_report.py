"""FedGSCA's report of a site: its noise level and its sample selector, where enough patients stand behind them."""

import numpy as np
import pytest
from support.labelled_pictures import make_data, selection

from fedannot.custom.methods.fedgsca import OUTBOUND_FIELDS
from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector
from fedannot.custom.methods.fedgsca.selection_report import selection_report
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import TRAIN

REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)
SELECTOR = SampleSelector((0.2, 2.0), (0.1, 0.4), (0.8, 0.2))
# Losses of six samples that are as probable as can be of the first or the second component of SELECTOR.
LOSSES = np.array([0.2, 0.1, 0.3, 2.0, 1.9, 2.1])


def test_noise_level_and_selector_leave_with_the_patients_of_each_component():
    chosen = selection([True, False, True, True, True, True])
    report = selection_report(make_data([0] * 6, [0] * 6), chosen, SELECTOR, LOSSES)
    assert report == {
        "noise_level": 1 / 6,
        "selector_means": [0.2, 2.0],
        "selector_variances": [0.1, 0.4],
        "selector_priors": [0.8, 0.2],
        "selector_patients": [3, 3],
    }
    REGISTRY.check(TRAIN, report | {"num_patients": 5})
    assert selection_report(make_data([0] * 6, [0] * 6), chosen, None, LOSSES) == {"noise_level": 1 / 6}


@pytest.mark.parametrize(
    ("units", "outbound_fields"), [("abcdef", True), ("aabdef", False), ("abcdde", False), ("abccba", True)]
)
def test_the_selector_stays_where_a_component_has_few_patients(units, outbound_fields):
    """A patient counts for every component that a sample of it belongs to."""
    chosen = selection([True] * 6)
    report = selection_report(make_data([0] * 6, [0] * 6, units=list(units)), chosen, SELECTOR, LOSSES)
    assert ("selector_means" in report) is outbound_fields
    assert ("selector_patients" in report) is outbound_fields
    assert report["noise_level"] == 0.0


def test_two_patients_of_24_who_stand_apart_cannot_be_determined_from_the_selector():
    """Mean μ and variance σ² of a component of two are their losses, μ ± σ; such a selector stays at the site."""
    losses = np.concatenate((np.random.default_rng(0).uniform(0.1, 0.3, 22), [4.0, 5.0]))
    fitted = SampleSelector.start(losses).fitted(losses)
    mean, deviation = fitted.means[1], fitted.variances[1] ** 0.5
    assert (mean - deviation, mean + deviation) == pytest.approx((4.0, 5.0), abs=1e-6), "the attack works"
    data = make_data([0] * 24, [0] * 24)
    assert selection_report(data, selection([True] * 24), fitted, losses) == {"noise_level": 0.0}
    more = np.append(losses, 4.6)
    fitted = SampleSelector.start(more).fitted(more)
    report = selection_report(make_data([0] * 25, [0] * 25), selection([True] * 25), fitted, more)
    assert report["selector_patients"] == [22, 3]


def test_nothing_of_training_on_few_patients_leaves():
    """Four patients are there, samples of two of them are used."""
    chosen = selection([True] * 4 + [False] * 2)
    assert selection_report(make_data([0] * 6, [0] * 6, units=list("aabbcd")), chosen, SELECTOR, LOSSES) == {}
