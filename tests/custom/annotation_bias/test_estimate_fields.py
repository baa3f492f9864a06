"""Estimates on their way from a site to the server."""

import dataclasses
import math

from plain_records import in_words

from fedannot.custom.annotation_bias.estimate import Estimate, estimate_fields, received, sent
from fedannot.custom.outbound.registry import OutboundRegistry

KNOWN = Estimate(12, 3.0, 2.5, 3.5, slope=1.0, auroc=0.9)


def test_what_is_sent_is_declared_and_comes_back():
    registry = OutboundRegistry(estimate_fields("offset", "ask", calibrated=True))
    fields = sent("offset", [KNOWN, Estimate.unknown()], calibrated=True)
    registry.check("ask", fields)
    assert registry.refusal("ask", fields, 2) is None
    first, second = received("offset", fields)
    assert first == KNOWN
    assert not second.is_known
    assert second.patients == 0


def test_without_calibration_there_are_fewer_fields():
    declared = {field.name for field in estimate_fields("reviewed", "ask", calibrated=False)}
    fields = sent("reviewed", [KNOWN], calibrated=False)
    assert set(fields) == declared
    (back,) = received("reviewed", fields)
    assert math.isnan(back.slope)
    assert back == dataclasses.replace(KNOWN, slope=back.slope, auroc=back.auroc)


def test_too_few_patients_are_withheld():
    (back,) = received("offset", sent("offset", [dataclasses.replace(KNOWN, patients=2)], calibrated=True))
    assert not back.is_known


def test_an_estimate_beyond_its_limits_is_refused():
    registry = OutboundRegistry(estimate_fields("share", "ask", calibrated=True, limits=(0.0, 1.0)))
    fields = sent("share", [dataclasses.replace(KNOWN, value=0.9, low=0.8, high=1.0)], calibrated=True)
    assert registry.refusal("ask", fields, 1) is None
    assert "expected 0.0 to 1.0" in in_words(registry.refusal("ask", fields | {"share": [100.0]}, 1))
    # The slope is on no such scale.
    assert registry.refusal("ask", fields | {"share_slope": [1.3]}, 1) is None
