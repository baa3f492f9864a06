"""What a run says of wrong labels."""

from io import StringIO

import pytest
from rich.console import Console

from fedannot.apps.reports.noise_level_text import noise_level_entries, print_noise_levels
from fedannot.custom.methods.auto_classification.records import (
    ConfusionFindings,
    NoiseLevelEstimate,
    NoiseLevelRecord,
)


def level(estimate, p_value=0.001, established=False, reason="said"):
    return NoiseLevelRecord(
        estimate=estimate,
        low=None,
        high=None,
        patients=150,
        slope=1.0,
        auroc=0.9,
        support=0.9,
        support_low=0.8,
        p_value=p_value,
        is_established=established,
        decision="decided",
        reason=reason,
    )


def estimated(number, **sites):
    return NoiseLevelEstimate(
        before_round=number, neutral=0.0, neutral_is="Right is 0.", floor=0.05, threshold=0.05, sites=sites
    )


@pytest.mark.parametrize(
    ("record", "entry"),
    [
        (level(0.384, established=True), "38"),
        (level(0.03), "(3)"),
        (level(0.2, p_value=None), "?"),
        (level(None, p_value=None), "?"),
    ],
)
def test_a_site_has_its_share_of_wrong_labels_and_how_sure_it_is(record, entry):
    found = ConfusionFindings(
        noise_levels=(estimated(4, a=level(0.9)), estimated(8, a=record)), undone_from_round={"b": 9}
    )
    assert noise_level_entries(found, "a") == {"wrong, %": entry, "undone from": "-"}
    assert noise_level_entries(found, "b") == {"wrong, %": "-", "undone from": "round 9"}


@pytest.mark.parametrize("found", [None, ConfusionFindings(noise_levels=(), undone_from_round={})])
def test_of_a_run_that_estimated_nothing_nothing_is_said(found):
    said = StringIO()
    print_noise_levels(found, Console(file=said))
    assert said.getvalue() == ""
    assert noise_level_entries(found, "a") == {"wrong, %": "-", "undone from": "-"}


def test_what_counts_as_right_who_undoes_and_who_cannot_be_judged_is_printed():
    sites = {"site-10": level(0.3, established=True), "site-2": level(0.4, established=True)}
    unknown = level(0.1, p_value=None, reason="Cannot tell: because.")
    found = ConfusionFindings(
        noise_levels=(estimated(4, **sites), estimated(8, **sites, odd=unknown)),
        undone_from_round={"site-10": 4, "site-2": 4},
    )
    said = StringIO()
    print_noise_levels(found, Console(file=said, width=200))
    assert said.getvalue().splitlines() == [
        "Right is 0.",
        "Estimated before rounds 4, 8. Undone at 2 of 3 sites: site-2, site-10.",
        "odd: Cannot tell: because.",
    ]
    said = StringIO()
    print_noise_levels(found.model_copy(update={"undone_from_round": {}}), Console(file=said, width=200))
    assert "Nothing is undone." in said.getvalue()
