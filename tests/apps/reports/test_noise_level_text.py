"""What a run says of wrong labels."""

from io import StringIO

import pytest
from rich.console import Console

from fedannot.apps.reports.noise_level_text import noise_level_entries, print_noise_levels
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status
from fedannot.custom.methods.auto_classification.records import (
    ConfusionFindings,
    Follows,
    NoiseLevelEstimate,
    NoiseLevelRecord,
)


def level(estimate, status=Status.SMALL, *evidence):
    return NoiseLevelRecord(
        estimate=estimate,
        low=None,
        high=None,
        patients=150,
        slope=1.0,
        auroc=0.9,
        support=0.9,
        support_low=0.8,
        effect=estimate,
        p_value=None if status is Status.UNKNOWN else 0.001,
        status=status,
        evidence=evidence,
        follows=Follows.GIVEN,
    )


def estimated(number, **sites):
    right = Evidence(EvidenceCode.RIGHT_LABELS_LEAST, names={"site": "site-1"})
    return NoiseLevelEstimate(
        before_round=number, neutral=0.0, right_labels=right, floor=0.05, threshold=0.05, sites=sites
    )


@pytest.mark.parametrize(
    ("record", "entry"),
    [
        (level(0.384, Status.CONFIRMED), "38"),
        (level(0.03), "(3)"),
        (level(0.2, Status.UNKNOWN), "?"),
        (level(None, Status.UNKNOWN), "?"),
    ],
)
def test_a_site_has_its_fraction_of_wrong_labels_and_how_sure_it_is(record, entry):
    result = ConfusionFindings(
        noise_levels=(estimated(4, a=level(0.9)), estimated(8, a=record)), corrected_from_round={"b": 9}
    )
    assert noise_level_entries(result, "a") == {"wrong, %": entry, "corrected from": "-"}
    assert noise_level_entries(result, "b") == {"wrong, %": "-", "corrected from": "round 9"}


@pytest.mark.parametrize("found", [None, ConfusionFindings(noise_levels=(), corrected_from_round={})])
def test_of_a_run_that_estimated_nothing_nothing_is_said(found):
    said = StringIO()
    print_noise_levels(found, Console(file=said))
    assert said.getvalue() == ""
    assert noise_level_entries(found, "a") == {"wrong, %": "-", "corrected from": "-"}


def test_what_counts_as_right_who_corrects_and_who_cannot_be_assessed_is_printed():
    sites = {"site-10": level(0.3, Status.CONFIRMED), "site-2": level(0.4, Status.CONFIRMED)}
    unknown = level(0.1, Status.UNKNOWN, Evidence(EvidenceCode.NO_SUPPORT))
    result = ConfusionFindings(
        noise_levels=(estimated(4, **sites), estimated(8, **sites, odd=unknown)),
        corrected_from_round={"site-10": 4, "site-2": 4},
    )
    said = StringIO()
    print_noise_levels(result, Console(file=said, width=200))
    assert said.getvalue().splitlines() == [
        "Right labels have the noise level of site-1, the least of all sites: what is wrong at all sites alike "
        "cannot be known.",
        "Estimated before rounds 4, 8. Corrected at 2 of 3 sites: site-2, site-10.",
        "odd: Cannot tell: similar samples of the site do not agree with the model, which may not know its images.",
    ]
    said = StringIO()
    print_noise_levels(result.model_copy(update={"corrected_from_round": {}}), Console(file=said, width=200))
    assert "Nothing is corrected." in said.getvalue()
