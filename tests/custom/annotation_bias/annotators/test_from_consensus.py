"""Bias of annotators against the majority, with contours moved by known numbers of pixels."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from moved_cells import annotated_discs, disc, moved
from PIL import Image

from fedannot.custom.annotation_bias.annotators.case_annotations import CaseAnnotations
from fedannot.custom.annotation_bias.annotators.from_consensus import consensus_estimates

BIASES = {"Ann": -2.0, "Ben": 0.0, "Cem": 0.0, "Dora": 4.0}
REAL = Path(os.environ.get("FEDANNOT_REAL_DATA", "")) / "bubil-cells"


def test_bias_against_the_majority_is_what_contours_were_moved_by():
    estimates = consensus_estimates(annotated_discs(BIASES), 1, seed=0)
    for name, bias in BIASES.items():
        assert estimates[name].from_majority[0].value == pytest.approx(bias, abs=0.3)
        assert estimates[name].from_majority[0].patients == 6
        assert estimates[name].compared[0] == {f"p{n}" for n in range(6)}


def test_a_majority_without_oneself_is_moved_by_the_deviating_one_where_votes_are_equal():
    estimates = consensus_estimates(annotated_discs({"a": 0.0, "b": 0.0, "c": 4.0}), 1, seed=0)
    assert estimates["c"].from_others[0].value == pytest.approx(4, abs=0.3)
    # The others of b are a and c: half-way between them.
    assert estimates["b"].from_others[0].value == pytest.approx(-2, abs=0.3)
    assert estimates["b"].from_majority[0].value == pytest.approx(0, abs=0.1)


def test_of_two_annotators_each_is_the_other_ones_opposite_and_nobody_the_majority():
    estimates = consensus_estimates(annotated_discs({"a": 0.0, "b": 3.0}), 1, seed=0)
    assert estimates["b"].from_others[0].value == pytest.approx(3, abs=0.3)
    assert estimates["a"].from_others[0].value == -estimates["b"].from_others[0].value
    assert estimates["a"].from_majority[0].patients == estimates["a"].missed[0].patients == 0


def test_missed_and_confused_fractions_are_counted_against_the_majority_of_the_others():
    two = np.concatenate([disc(6), disc(6)], axis=2)
    half, swapped = two.copy(), two.copy()
    half[..., 48:] = 0
    swapped[..., 48:] *= 2
    masks = {"all": two, "same": two, "half": half, "swaps": swapped}
    cases = [CaseAnnotations(f"p{n}", tuple(masks), tuple(masks.values())) for n in range(3)]
    estimates = consensus_estimates(cases, 2, seed=0)
    # Of three others more than half have annotated the second disc, except where two of them have not, or as class 2.
    assert {name: one.missed[0].value for name, one in estimates.items()} == {
        "all": 0.0, "same": 0.0, "half": 0.5, "swaps": 0.0,
    }  # fmt: skip
    assert estimates["swaps"].confused.value == 0.5
    assert estimates["all"].confused.value == 0.0


def test_objects_at_ignored_pixels_count_for_nobody():
    cases = annotated_discs({"a": 0.0, "b": 0.0, "c": 2.0}, count=3)
    hidden = [mask.copy() for mask in cases[0].masks]
    hidden[0][0, 24, 24] = 255
    estimates = consensus_estimates([CaseAnnotations("p0", ("a", "b", "c"), tuple(hidden)), *cases[1:]], 1, seed=0)
    assert estimates["c"].from_majority[0].patients == 2


def test_an_annotator_without_company_has_no_estimate():
    assert consensus_estimates([CaseAnnotations("p", ("a",), (disc(8),))], 1, seed=0) == {}


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the real data")
def test_bias_of_moved_contours_of_real_cells_is_within_half_a_pixel():
    items = [item for item in json.loads((REAL / "datalist.json").read_text())["items"] if item["source"] == "bubil_d4"]
    biases, cases = {"a": -2.0, "b": 0.0, "c": 0.0, "d": 3.0}, []
    for item in items[:6]:
        mask = np.pad(np.asarray(Image.open(REAL / item["label"])) > 0, 8).astype(np.uint8)[None]
        moves = tuple(moved(mask[0], bias)[None] for bias in biases.values())
        cases.append(CaseAnnotations(item["image"], tuple(biases), moves))
    estimates = consensus_estimates(cases, 1, seed=0)
    for name, bias in biases.items():
        assert estimates[name].from_majority[0].value == pytest.approx(bias, abs=0.5)


def two_of(cases, seed=0):
    """The cases with two of their annotators each, drawn by chance."""
    generator, result = np.random.default_rng(seed), []
    for case in cases:
        first, second = generator.choice(len(case.annotators), 2, replace=False)
        chosen = (int(first), int(second))
        names = tuple(case.annotators[index] for index in chosen)
        result.append(CaseAnnotations(case.unit, names, tuple(case.masks[index] for index in chosen)))
    return result


def test_of_two_annotators_in_each_case_pairs_give_the_bias_against_the_median_annotator():
    estimates = consensus_estimates(two_of(annotated_discs(BIASES, 24)), 1, seed=0)
    for name, bias in BIASES.items():
        assert estimates[name].from_pairs[0].value == pytest.approx(bias, abs=0.3)
        assert estimates[name].from_majority[0].patients == 0
    # The other one alone says something else.
    assert estimates["Ben"].from_others[0].value < -0.5


@pytest.mark.parametrize("pairs", [["ab"] * 8, ["ab"] * 8 + ["cd"] * 8, ["ab"] * 8 + ["bc"] * 4])
def test_without_a_chain_of_three_annotators_with_enough_patients_pairs_say_nothing(pairs):
    cases = [CaseAnnotations(f"p{n}", tuple(pair), (disc(8), disc(11))) for n, pair in enumerate(pairs)]
    assert not any(one.from_pairs[0].is_known for one in consensus_estimates(cases, 1, seed=0).values())


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the real data")
def test_two_experts_in_each_case_of_real_cells_have_their_bias_against_the_majority_within_half_a_pixel():
    items = [item for item in json.loads((REAL / "datalist.json").read_text())["items"] if item["source"] == "bubil_d4"]
    cases = []
    for item in items[:40]:
        arrays = np.load(REAL / item["annotators"])
        masks = {str(name): mask for name, mask in zip(arrays["names"], arrays["masks"], strict=True)}
        experts = {name: np.uint8(mask)[None] for name, mask in masks.items() if name.startswith("expert")}
        cases.append(CaseAnnotations(item["image"], tuple(experts), tuple(experts.values())))
    of_all, of_two = (consensus_estimates(chosen, 1, seed=0) for chosen in (cases, two_of(cases)))
    assert len(of_two) == 3
    for name, estimate in of_two.items():
        assert estimate.from_pairs[0].value == pytest.approx(of_all[name].from_majority[0].value, abs=0.5)
