"""What is said and drawn of a finished round."""

from typing import Any

import pytest
from plain_records import record, report

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.evaluation.scoring import Scoring
from fedannot.custom.run.round_record import (
    dominant_site,
    progress_sentence,
    round_scalars,
    warn_of_dominance,
)


def weights_of(*values: float) -> LayerWeights:
    sites = [f"site-{number}" for number in range(len(values))]
    return LayerWeights.same_in_all_blocks(dict(zip(sites, values, strict=True)), ("first", "last"))


@pytest.mark.parametrize(
    ("values", "effective", "dominant"),
    [
        ((0.25,) * 4, 4.0, None),
        # 1 / (0.79² + 0.21²), 1 / (0.78² + 0.22²)
        ((0.79, 0.21), 1.4965579, {"site": "site-0", "weight": 0.79}),
        ((0.78, 0.22), 1.5225335, None),
        ((1.0,), 1.0, None),
    ],
)
def test_only_weights_of_fewer_than_one_and_a_half_sites_are_nearly_one_sites(
    values: tuple[float, ...], effective: float, dominant: dict[str, Any] | None
) -> None:
    weights = weights_of(*values)
    assert weights.fewest_effective_sites == pytest.approx(effective)
    result = dominant_site(weights)
    assert (None if result is None else result.plain()) == dominant


def test_it_is_said_by_name_and_numbers() -> None:
    lines: list[str] = []
    warn_of_dominance(weights_of(0.02, 0.98), lines.append)
    warn_of_dominance(weights_of(0.22, 0.78), lines.append)
    assert lines == [
        "site-1 nearly decides alone: it has 0.98 of the weight in a layer block, 1.04 effective sites of 2."
    ]


RECORD: dict[str, Any] = {
    **{"stage": "warm-up", "dice": 0.5, "hd95": None, "seconds": 30.0},
    "sites": {"a": report(train_loss=0.25), "b": report(train_loss=None)},
}


def test_numbers_are_drawn_by_name_and_site_and_what_is_undefined_is_not() -> None:
    assert round_scalars(record(2, **RECORD), ["dice", "hd95", "stability"], ["train_loss", "noise_level"]) == {
        "dice": 0.5,
        "accepted_sites": 2.0,
        "train_loss/a": 0.25,
    }


def test_each_class_has_a_curve_of_its_own() -> None:
    """The first class of a segmentation is 1, as in the masks."""
    of_two = record(2, **RECORD | {"dice_per_class": (0.4, None, 0.6)})
    assert round_scalars(of_two, ["dice"], []) == {
        "dice": 0.5,
        "dice/class 1": 0.4,
        "dice/class 3": 0.6,
        "accepted_sites": 2.0,
    }


@pytest.mark.parametrize(
    ("rounds", "dice", "expected"),
    [
        (2, 0.5, "Round 2/2 (warm-up): Dice 50.0 %"),
        (4, None, "Round 2/4 (warm-up): not scored, about 60 s left"),
    ],
)
def test_progress_is_one_sentence(rounds: int, dice: float | None, expected: str) -> None:
    assert progress_sentence([record(2, **RECORD | {"dice": dice})], rounds, Scoring.of("segmentation")) == expected


def test_classes_without_a_score_are_named_with_every_score() -> None:
    scoring = Scoring.of("segmentation")
    last = record(2, **RECORD | {"dice": 0.5, "unscored_classes": ("cyst",)})
    assert progress_sentence([last], 2, scoring).endswith(": Dice 50.0 % without cyst")
    unscored = record(2, **RECORD | {"dice": None, "unscored_classes": ("cyst",)})
    assert progress_sentence([unscored], 2, scoring).endswith("not scored")
