"""How far the model draws outside zero: by hand-worked reference levels and edges."""

import pytest

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.statuses import ReferenceKind, ReferenceLevel
from fedannot.custom.corrections.kinds import server_corrections
from fedannot.custom.methods.auto.model_boundary_bias import model_boundary_biases, with_model_bias
from fedannot.custom.methods.auto.records import BiasRecord, DecisionRecord, Outcome, SiteBiasRecord


def reference_level(value: float, kind: str = "balanced", *, is_confident: bool = True) -> ReferenceLevel:
    return ReferenceLevel(ReferenceKind(kind), value, 0.1, is_confident=is_confident)


def edges(value: float) -> Estimate:
    return Estimate(20, value, value - 0.1, value + 0.1)


def earlier(model_boundary_bias: float | None = None, *, asked: bool = True, moved: bool = True) -> BiasRecord:
    site = SiteBiasRecord(
        parameters={},
        corrections=server_corrections(
            bias={1: 3.0} if asked else {}, model_bias={} if model_boundary_bias is None else {1: model_boundary_bias}
        ),
        corrected_before_round=5 if moved else None,
    )
    return BiasRecord(
        before_round=5, reference_levels={}, decision=DecisionRecord(outcome=Outcome.NOTHING), sites={"site-1": site}
    )


def value(
    zero: ReferenceLevel | None, edge: Estimate | None, before: BiasRecord | None, limit: float = 2.0
) -> float | None:
    return model_boundary_biases([zero], [edge], before, limit=limit).get(1)


def test_the_model_lies_as_far_outside_as_zero_lies_inside_of_it() -> None:
    assert value(reference_level(-1.2), edges(-1.5), earlier()) == 1.2
    assert value(reference_level(0.8), edges(1.5), earlier()) == -0.8


def test_a_later_estimate_sees_what_is_left() -> None:
    assert value(reference_level(-0.3), edges(-0.5), earlier(1.0)) == pytest.approx(1.3)
    assert value(reference_level(0.4), edges(0.6), earlier(1.0)) == pytest.approx(0.6)


def test_of_an_inferred_zero_and_edges_on_one_side_the_nearer_counts() -> None:
    assert value(reference_level(1.4), edges(0.1), earlier()) == -0.1
    assert value(reference_level(1.4), edges(-0.1), earlier(0.5)) == 0.5
    assert value(reference_level(1.4), None, earlier()) is None
    assert value(reference_level(1.4, "reference"), edges(-0.1), earlier()) == -1.4


def test_it_is_bounded() -> None:
    assert value(reference_level(-1.5), edges(-3.0), earlier(1.5)) == 2.0
    assert value(reference_level(1.5), edges(3.0), earlier(-1.5)) == -2.0
    assert value(reference_level(1.5), edges(3.0), earlier(), limit=0.0) is None


def test_there_is_none_where_no_contour_was_moved_or_zero_is_not_known() -> None:
    assert value(reference_level(-1.2), edges(-1.5), None) is None
    assert value(reference_level(-1.2), edges(-1.5), earlier(asked=False)) is None
    assert value(reference_level(-1.2), edges(-1.5), earlier(0.9, moved=False)) is None
    assert value(reference_level(-1.2, is_confident=False), edges(-1.5), earlier()) is None
    assert value(None, edges(-1.5), earlier()) is None


def test_only_moved_contours_move_further() -> None:
    result = model_boundary_biases([reference_level(-1.2)], [edges(-1.2)], earlier(), limit=2.0)
    asked = server_corrections(bias={1: 3.0, 2: -1.0}, relabelled=0.6)
    assert with_model_bias(asked, result) == server_corrections(
        bias={1: 3.0, 2: -1.0}, model_bias={1: 1.2}, relabelled=0.6
    )
    assert with_model_bias((), result) == ()
