"""Which annotations are a site's own: replaced, kept, or changed by a review of which nothing is known; by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedannot.custom.annotation_bias.given_annotations import GivenAnnotations
from fedannot.custom.data.datalist import Case
from fedannot.custom.data.site_data import LoadedCase

SITE, REVIEWER, OTHER = 3, 1, 2


def case(image, label, file, *, given=None):
    """A case whose annotation is one number everywhere; `given` is number and file before a review."""
    number, before = (None, None) if given is None else given
    return LoadedCase(
        name=f"{image}.png",
        unit=str(image),
        image=torch.zeros(1, 1, 4, 4),
        label=_mask(label),
        clean_label=None,
        spacing=None,
        files=Case(Path(f"{image}.png"), Path(file), given_label=None if before is None else Path(before)),
        given_label=None if number is None else _mask(number),
    )


def _mask(number):
    return torch.full((1, 4, 4), number, dtype=torch.uint8)


def numbers(cases):
    return [(one.unit, int(one.label.max())) for one in cases]


def pairs(annotations, annotated=None):
    return [
        (given.unit, int(given.label.max()), int(reviewed.label.max()))
        for given, reviewed in annotations.compared(annotated)
    ]


OPEN = [case(name, SITE, f"labels/{name}.png") for name in ("d", "e")]


def test_without_a_review_all_annotations_are_the_sites_own():
    annotations = GivenAnnotations.of(OPEN)
    assert annotations.own() == OPEN
    assert (annotations.settled, annotations.compared(), annotations.not_compared) == ((False, False), [], 0)


def test_a_review_beside_unchanged_training_cases_is_compared_with_these():
    annotations = GivenAnnotations.of(OPEN, [case("e", REVIEWER, "new/e.png")])
    assert numbers(annotations.own()) == [("d", SITE), ("e", SITE)]
    assert pairs(annotations) == [("e", SITE, REVIEWER)]
    assert (annotations.settled, annotations.not_compared) == ((False, False), 0)


@pytest.mark.parametrize("names_it", ["training", "reference", "both"])
def test_the_mask_before_a_review_stays_the_sites_own(names_it):
    before = (SITE, "labels/a.png")
    training = case("a", REVIEWER, "new/a.png", given=None if names_it == "reference" else before)
    reviewed = case("a", REVIEWER, "new/a.png", given=None if names_it == "training" else before)
    annotations = GivenAnnotations.of([training, *OPEN], [reviewed])
    assert numbers(annotations.own()) == [("a", SITE), ("d", SITE), ("e", SITE)]
    assert pairs(annotations) == [("a", SITE, REVIEWER)]
    assert (annotations.settled, annotations.not_compared) == ((True, False, False), 0)


@pytest.mark.parametrize("file", ["new/a.png", "copies/a.png"], ids=["same file", "same content"])
def test_a_review_that_does_not_say_what_was_before_is_no_evidence_of_rightness(file):
    """A datalist of an earlier version: the reviewed mask is in both lists."""
    training = [case("a", REVIEWER, "new/a.png"), *OPEN]
    annotations = GivenAnnotations.of(training, [case("a", REVIEWER, file)])
    assert numbers(annotations.own()) == [("d", SITE), ("e", SITE)]
    assert (pairs(annotations), annotations.not_compared) == ([], 1)
    assert annotations.settled == (True, False, False)


def test_a_mask_that_a_review_has_kept_counts_as_right():
    kept = case("a", SITE, "labels/a.png", given=(SITE, "labels/a.png"))
    annotations = GivenAnnotations.of([case("a", SITE, "labels/a.png"), *OPEN], [kept])
    assert numbers(annotations.own()) == [("a", SITE), ("d", SITE), ("e", SITE)]
    assert (pairs(annotations), annotations.not_compared) == ([("a", SITE, SITE)], 0)


def test_where_every_case_is_settled_the_annotations_in_use_count():
    """Nothing that the site has annotated wrongly is left, so nothing is said of it."""
    training = [case(name, REVIEWER, f"new/{name}.png", given=(SITE, f"labels/{name}.png")) for name in "ab"]
    annotations = GivenAnnotations.of(training, training)
    assert numbers(annotations.own()) == [("a", REVIEWER), ("b", REVIEWER)]
    assert (annotations.compared(), annotations.not_compared) == ([], 2)


def test_a_mask_that_is_reviewed_in_part_is_open_and_its_given_one_counts():
    """It is in no list of reviewed cases."""
    training = [case("a", REVIEWER, "new/a.png", given=(SITE, "labels/a.png")), *OPEN]
    annotations = GivenAnnotations.of(training)
    assert numbers(annotations.own()) == [("a", SITE), ("d", SITE), ("e", SITE)]
    assert annotations.settled == (False, False, False)


def test_of_two_annotators_the_one_whose_mask_was_not_replaced_is_compared():
    training = [case("a", OTHER, "labels/other.png"), case("a", REVIEWER, "new/a.png"), *OPEN]
    annotations = GivenAnnotations.of(training, [case("a", REVIEWER, "new/a.png")])
    assert numbers(annotations.own()) == [("a", OTHER), ("d", SITE), ("e", SITE)]
    assert pairs(annotations) == [("a", OTHER, REVIEWER)]


def test_other_annotations_of_training_cases_take_the_place_of_those_in_use_alone():
    """Objects of other classes: not in masks before a review."""
    training = [case("a", REVIEWER, "new/a.png", given=(SITE, "labels/a.png")), *OPEN]
    reviewed = [training[0], case("e", REVIEWER, "new/e.png")]
    annotations = GivenAnnotations.of(training, reviewed)
    relabelled = [replace(one, label=_mask(OTHER)) for one in training]
    assert numbers(annotations.own(relabelled)) == [("a", SITE), ("d", OTHER), ("e", OTHER)]
    assert pairs(annotations, relabelled) == [("a", SITE, REVIEWER), ("e", OTHER, REVIEWER)]


def test_versions_of_another_size_and_images_of_no_training_case_are_not_compared():
    smaller = replace(case("d", REVIEWER, "new/d.png"), label=torch.ones(1, 3, 3, dtype=torch.uint8))
    annotations = GivenAnnotations.of(OPEN, [smaller, case("z", REVIEWER, "new/z.png")])
    assert (annotations.compared(), annotations.not_compared) == ([], 2)
