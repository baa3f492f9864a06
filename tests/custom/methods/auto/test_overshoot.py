"""How far the model draws outside zero: by hand-worked anchors and edges."""

import pytest

from fedannot.custom.channel.anchor import Anchor
from fedannot.custom.channel.estimate import Estimate
from fedannot.custom.corrections.kinds import server_corrections
from fedannot.custom.methods.auto.overshoot import overshoots, with_model_bias
from fedannot.custom.methods.auto.records import ChannelRecord, SiteChannelRecord


def anchor(value: float, kind: str = "balanced", *, is_sure: bool = True) -> Anchor:
    return Anchor(kind, value, 0.1, "Zero.", is_sure)


def edges(value: float) -> Estimate:
    return Estimate(20, value, value - 0.1, value + 0.1)


def earlier(overshoot: float | None = None, *, asked: bool = True, moved: bool = True) -> ChannelRecord:
    site = SiteChannelRecord(
        parameters={},
        corrections=server_corrections(
            bias={1: 3.0} if asked else {}, model_bias={} if overshoot is None else {1: overshoot}
        ),
        corrected_before_round=5 if moved else None,
    )
    return ChannelRecord(before_round=5, zero={}, decision="", sites={"site-1": site})


def value(zero: Anchor | None, edge: Estimate | None, before: ChannelRecord | None, limit: float = 2.0) -> float | None:
    found = overshoots([zero], [edge], before, limit=limit, unit="px").get(1)
    return None if found is None else found.value


def test_the_model_lies_as_far_outside_as_zero_lies_inside_of_it() -> None:
    assert value(anchor(-1.2), edges(-1.5), earlier()) == 1.2
    assert value(anchor(0.8), edges(1.5), earlier()) == -0.8


def test_a_later_estimate_sees_what_is_left() -> None:
    assert value(anchor(-0.3), edges(-0.5), earlier(1.0)) == pytest.approx(1.3)
    assert value(anchor(0.4), edges(0.6), earlier(1.0)) == pytest.approx(0.6)


def test_of_an_inferred_zero_and_edges_on_one_side_the_nearer_counts() -> None:
    assert value(anchor(1.4), edges(0.1), earlier()) == -0.1
    assert value(anchor(1.4), edges(-0.1), earlier(0.5)) == 0.5
    assert value(anchor(1.4), None, earlier()) is None
    assert value(anchor(1.4, "reference"), edges(-0.1), earlier()) == -1.4


def test_it_is_bounded() -> None:
    assert value(anchor(-1.5), edges(-3.0), earlier(1.5)) == 2.0
    assert value(anchor(1.5), edges(3.0), earlier(-1.5)) == -2.0
    assert value(anchor(1.5), edges(3.0), earlier(), limit=0.0) is None


def test_there_is_none_where_no_contour_was_moved_or_zero_is_not_known() -> None:
    assert value(anchor(-1.2), edges(-1.5), None) is None
    assert value(anchor(-1.2), edges(-1.5), earlier(asked=False)) is None
    assert value(anchor(-1.2), edges(-1.5), earlier(0.9, moved=False)) is None
    assert value(anchor(-1.2, is_sure=False), edges(-1.5), earlier()) is None
    assert value(None, edges(-1.5), earlier()) is None


def test_only_moved_contours_move_further() -> None:
    found = overshoots([anchor(-1.2)], [edges(-1.2)], earlier(), limit=2.0, unit="mm")
    asked = server_corrections(bias={1: 3.0, 2: -1.0}, relabelled=0.6)
    assert with_model_bias(asked, found) == server_corrections(
        bias={1: 3.0, 2: -1.0}, model_bias={1: 1.2}, relabelled=0.6
    )
    assert with_model_bias((), found) == ()
    assert found[1].sentence("1") == (
        "In training contours of class 1 move by another -1.20 mm, as the model draws that far outside of zero "
        "otherwise."
    )
