"""What a run says of how its sites annotate."""

from io import StringIO

import pytest
from rich.console import Console

from fedannot.apps.reports.bias_text import bias_entries, print_channels, print_rollback
from fedannot.custom.annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from fedannot.custom.annotation_bias.parameters import ParameterKey
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status
from fedannot.custom.methods.auto.records import (
    BiasFindings,
    BiasRecord,
    DecisionRecord,
    Outcome,
    RollbackFindings,
    RollbackOf,
    RollbackRecord,
    RollbackRoundRecord,
    SiteBiasRecord,
)


def parameter(effect, status=Status.SMALL, *evidence):
    return ParameterRecord(
        estimate=effect,
        low=None,
        high=None,
        patients=12,
        slope=1.0,
        auroc=0.9,
        effect=effect,
        p_value=None if status is Status.UNKNOWN else 0.001,
        status=status,
        evidence=evidence,
    )


def channel(number, corrected, **parameters):
    keys = {ParameterKey.parse(name): one for name, one in parameters.items()}
    record = SiteBiasRecord(parameters=keys, corrections=(), corrected_before_round=corrected)
    level = ReferenceLevelRecord(
        kind="edges",
        value=0.0,
        standard_error=0.1,
        is_confident=True,
        unit="px",
        reasons=(Evidence(EvidenceCode.EDGES),),
    )
    return BiasRecord(
        before_round=number,
        reference_levels={1: level},
        decision=DecisionRecord(outcome=Outcome.NOTHING),
        sites={"site-1": record},
    )


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        (parameter(-3.94, Status.CONFIRMED), "-3.9"),
        (parameter(0.26), "(+0.3)"),
        (parameter(1.0, Status.UNKNOWN), "-"),
        (parameter(None), "-"),
    ],
)
def test_contours_are_shown_by_their_status(offset, shown):
    result = BiasFindings(channels=(channel(6, None, **{"offset 1": offset}),))
    assert bias_entries(result, "site-1")["contours"] == shown


def test_missing_objects_are_in_per_cent_and_the_rounds_of_all_estimates_are_named():
    first = channel(6, 6, **{"missing 1": parameter(0.5, Status.CONFIRMED)})
    last = channel(9, 10, **{"missing 1": parameter(0.25, Status.CONFIRMED)})
    entries = bias_entries(BiasFindings(channels=(first, last)), "site-1")
    assert (entries["missing, %"], entries["corrected before"]) == ("25", "6, 10")


def test_who_is_not_there_has_no_entries():
    empty = {"contours": "-", "missing, %": "-", "confused, %": "-", "corrected before": "-"}
    assert bias_entries(None, "site-1") == empty
    assert bias_entries(BiasFindings(channels=()), "site-1") == empty
    assert bias_entries(BiasFindings(channels=(channel(6, None),)), "elsewhere") == empty


def test_reference_level_decision_and_what_cannot_be_determined_are_said():
    doubted = parameter(1.0, Status.UNKNOWN, Evidence(EvidenceCode.SLOPE_OFF, {"slope": 3.0}))
    out = StringIO()
    result = BiasFindings(channels=(channel(6, None, **{"offset 1": doubted}),))
    print_channels(result, 8, Console(file=out, width=300))
    said = out.getvalue()
    why = "site-1: offset 1: Cannot tell: the estimate shows 3.00 times the injected error (+1.00)."
    for part in ("The reference level is the image boundary", "before round 6. Nothing is confirmed", why):
        assert part in said


@pytest.mark.parametrize("has_vetoed", [True, False])
def test_what_the_rollback_check_found_is_said(has_vetoed):
    gain = {"estimate": 0.02, "low": 0.015, "high": 0.025, "patients": 40, "slope": None, "auroc": None}
    rounds = tuple(RollbackRoundRecord(round=number, sites=4, **gain) for number in (6, 7, 8))
    record = RollbackRecord(
        rollback_of=RollbackOf.MODEL_BEFORE, before_round=6, wanted_rounds=3, rounds=rounds, has_vetoed=has_vetoed
    )
    out = StringIO()
    print_rollback(RollbackFindings(rollback=record), Console(file=out, width=300))
    print_rollback(RollbackFindings(rollback=None), Console(file=out, width=300))
    assert out.getvalue().startswith(
        "Rollback check of rounds 6 to 8: with the model of before round 6 the Dice of 40 "
    )
    assert ("everything is rolled back" in out.getvalue()) == has_vetoed


def test_an_estimate_of_an_audit_is_made_after_the_last_round():
    out = StringIO()
    print_channels(BiasFindings(channels=(channel(7, None),)), 6, Console(file=out, width=300))
    assert "Estimated after the last round. Nothing is confirmed" in out.getvalue()


def test_a_site_that_has_moved_its_masks_is_named():
    record = channel(1, None).model_copy(update={"moved_masks": {"site-1": 14}})
    text = StringIO()

    print_channels(BiasFindings(channels=(record,)), 9, Console(file=text, width=200))

    assert "site-1: all masks were shifted against the images (14 patients); the site has moved them back." in (
        text.getvalue()
    )
