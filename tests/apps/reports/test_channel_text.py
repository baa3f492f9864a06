"""What a run says of how its sites annotate."""

from io import StringIO

import pytest
from rich.console import Console

from fedannot.apps.reports.channel_text import channel_entries, print_channels, print_shadow
from fedannot.custom.methods.auto.records import (
    ChannelFindings,
    ChannelRecord,
    ParameterRecord,
    ShadowFindings,
    ShadowRecord,
    SiteChannelRecord,
)


def parameter(deviation, p_value=0.001, established=False, reason="said"):
    return ParameterRecord(
        estimate=deviation,
        low=None,
        high=None,
        patients=12,
        slope=1.0,
        auroc=0.9,
        deviation=deviation,
        p_value=p_value,
        established=established,
        reason=reason,
    )


def channel(number, undone, **parameters):
    record = SiteChannelRecord(parameters=parameters, corrections=(), corrected_before_round=undone)
    return ChannelRecord(
        before_round=number, zero={"1": "Zero is here."}, decision="Decided.", sites={"site-1": record}
    )


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        (parameter(-3.94, established=True), "-3.9"),
        (parameter(0.26), "(+0.3)"),
        (parameter(1.0, p_value=None), "-"),
        (parameter(None), "-"),
    ],
)
def test_contours_are_shown_by_how_sure_they_are(offset, shown):
    found = ChannelFindings(channels=(channel(6, None, **{"offset 1": offset}),))
    assert channel_entries(found, "site-1")["contours"] == shown


def test_missing_objects_are_in_per_cent_and_the_rounds_of_all_estimates_are_named():
    first = channel(6, 6, **{"missing 1": parameter(0.5, established=True)})
    last = channel(9, 10, **{"missing 1": parameter(0.25, established=True)})
    entries = channel_entries(ChannelFindings(channels=(first, last)), "site-1")
    assert (entries["missing, %"], entries["corrected before"]) == ("25", "6, 10")


def test_who_is_not_there_has_no_entries():
    empty = {"contours": "-", "missing, %": "-", "swapped, %": "-", "corrected before": "-"}
    assert channel_entries(None, "site-1") == empty
    assert channel_entries(ChannelFindings(channels=()), "site-1") == empty
    assert channel_entries(ChannelFindings(channels=(channel(6, None),)), "elsewhere") == empty


def test_zero_decision_and_what_cannot_be_told_are_said():
    doubted = parameter(1.0, p_value=None, reason="Cannot tell: its images differ.")
    out = StringIO()
    found = ChannelFindings(channels=(channel(6, None, **{"offset 1": doubted}),))
    print_channels(found, 8, Console(file=out, width=300))
    said = out.getvalue()
    for part in ("Zero is here.", "before round 6. Decided.", "site-1: offset 1: Cannot tell: its images differ."):
        assert part in said


@pytest.mark.parametrize("has_vetoed", [True, False])
def test_what_the_shadow_check_found_is_said(has_vetoed):
    record = ShadowRecord(shadow_is="others", rounds=(), has_vetoed=has_vetoed, sentence="Everything is taken back.")
    out = StringIO()
    print_shadow(ShadowFindings(shadow=record), Console(file=out, width=300))
    print_shadow(ShadowFindings(shadow=None), Console(file=out, width=300))
    assert out.getvalue() == "Everything is taken back.\n"


def test_an_estimate_of_an_audit_is_made_after_the_last_round():
    out = StringIO()
    print_channels(ChannelFindings(channels=(channel(7, None),)), 6, Console(file=out, width=300))
    assert "Estimated after the last round. Decided." in out.getvalue()
