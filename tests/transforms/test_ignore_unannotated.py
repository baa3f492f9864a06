"""Objects that an annotation misses, marked as ignored."""

import numpy as np
import pytest

from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.ignore_unannotated import IgnoreUnannotated, IgnoreUnannotatedd, IgnoreUnannotatedParams
from fedannot.transforms.ignored_label import IGNORED_LABEL


@pytest.fixture
def case():
    """One annotated object and four proposals: sure, surer, unsure, and one that touches the annotation."""
    mask, proposals = np.zeros((20, 20), dtype=np.uint8), np.zeros((20, 20))
    mask[1:4, 1:4] = 1
    proposals[3:6, 3:6] = 0.99
    proposals[10:12, 1:3] = 0.85
    proposals[10:12, 10:12] = 0.6
    proposals[10, 10] = 0.95
    proposals[16:18, 16:18] = 0.5
    return mask, proposals


def test_sure_objects_that_touch_no_annotation_are_ignored(case):
    mask, proposals = case
    marked = IgnoreUnannotated(most=10, confidence=0.8)(mask, proposals)
    assert (marked[10:12, 1:3] == IGNORED_LABEL).all()
    # All of an object whose most confident pixel is sure.
    assert (marked[10:12, 10:12] == IGNORED_LABEL).all()
    assert (marked == IGNORED_LABEL).sum() == 8
    assert np.array_equal(marked == 1, mask == 1)


def test_no_more_than_the_given_number_the_most_confident_first(case):
    mask, proposals = case
    marked = IgnoreUnannotated(most=1)(mask, proposals)
    assert (marked == IGNORED_LABEL).sum() == 4
    assert marked[10, 10] == IGNORED_LABEL
    assert (IgnoreUnannotated(most=0)(mask, proposals) == mask).all()


def test_parameters_replay_and_survive_json(case):
    mask, proposals = case
    transform = IgnoreUnannotated(most=2)
    params = IgnoreUnannotatedParams.from_dict(transform.make_params(mask, proposals).to_dict())
    assert np.array_equal(transform.apply_transform(mask, proposals, params), transform(mask, proposals))


def test_the_dictionary_version_takes_a_channel(case):
    mask, proposals = case
    marked = IgnoreUnannotatedd("label", "sureness", most=2)({"label": mask[None], "sureness": proposals})["label"]
    assert np.array_equal(marked[0], IgnoreUnannotated(most=2)(mask, proposals))


def test_proposals_of_another_shape_are_refused(case):
    with pytest.raises(ValueError, match="the mask's shape"):
        IgnoreUnannotated(most=1)(case[0], np.zeros((4, 4)))


def test_a_margin_goes_into_the_background_alone():
    mask, proposed = np.zeros((9, 9), dtype=np.uint8), np.zeros((9, 9))
    mask[4, 6] = 1
    proposed[4, 4] = 0.9
    marked = IgnoreUnannotated(most=1, margin=2)(mask, proposed)
    # All pixels at most two steps away, without the annotated one.
    rows, columns = np.indices(mask.shape)
    near = np.abs(rows - 4) + np.abs(columns - 4) <= 2
    np.testing.assert_array_equal(marked == 255, near & (mask == 0))
    assert marked[4, 6] == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_of_many_objects_those_are_chosen_that_one_finds_one_by_one(dtype):
    """Sureness in steps, so that some are equally sure: of these the first come first."""
    generator = np.random.default_rng(0)
    proposals = (generator.integers(1, 11, (60, 60)) / 10 * (generator.random((60, 60)) < 0.08)).astype(dtype)
    mask = (generator.random((60, 60)) < 0.02).astype(np.uint8)
    objects, count = label_lesions(proposals > 0)
    largest = {n: proposals[objects == n].max() for n in range(1, count + 1) if not mask[objects == n].any()}
    confident_fraction = sorted((n for n in largest if float(largest[n]) >= 0.5), key=lambda n: -largest[n])
    for most in (0, 7, len(confident_fraction) - 1, count):
        params = IgnoreUnannotated(most=most, confidence=0.5).make_params(mask, proposals)
        assert params.objects == tuple(sorted(confident_fraction[:most]))
    assert count > len(largest) > len(confident_fraction) > 20
