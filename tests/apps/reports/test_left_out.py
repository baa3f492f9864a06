"""Which lesions a site left out, counted by hand."""

import pytest
import torch

from fedannot.apps.reports.left_out import lacks_lesions, left_out_lesions
from fedannot.custom.data.site_data import LoadedCase


def case(label, clean):
    return LoadedCase("case", "case", torch.zeros(len(label), 1, *label.shape[1:]), label, clean, None)


def masks(*shape):
    return torch.zeros(shape, dtype=torch.uint8), torch.zeros(shape, dtype=torch.uint8)


def test_lesions_without_any_annotated_voxel_are_left_out():
    given, clean = masks(1, 12, 12)
    clean[0, :3, :3] = clean[0, 6:9, :3] = clean[0, 6:9, 6:9] = 1
    given[0, 0, 0] = given[0, 11, 11] = 1
    result = left_out_lesions(case(given, clean))
    assert (result.num_lesions, result.num_left_out) == (3, 2)
    expected = clean.clone()
    expected[0, :3, :3] = 0
    assert torch.equal(result.mask, expected)
    assert lacks_lesions(case(given, clean))


def test_slices_are_put_together_to_a_volume():
    """The lesion goes through three slices and is annotated in one of them."""
    given, clean = masks(3, 8, 8)
    clean[:, 2:4, 2:4] = 1
    given[1, 2, 2] = 1
    result = left_out_lesions(case(given, clean))
    assert (result.num_lesions, result.num_left_out) == (1, 0)
    assert not lacks_lesions(case(given, clean))


def test_a_lesion_annotated_as_another_class_is_not_left_out():
    given, clean = masks(1, 8, 8, 4)
    clean[0, :2, :2, 0], clean[0, 5:, 5:, 3] = 1, 2
    given[0, 0, 0, 0] = 2
    result = left_out_lesions(case(given, clean))
    assert (result.num_lesions, result.num_left_out) == (2, 1)
    assert result.mask.unique().tolist() == [0, 2]


@pytest.mark.parametrize("known", [True, False])
def test_nothing_is_left_out_of_what_is_empty_or_not_known(known):
    given, clean = masks(1, 8, 8)
    result = left_out_lesions(case(given, clean if known else None))
    assert (result is None) != known
    assert result is None or (result.num_lesions, result.num_left_out, int(result.mask.sum())) == (0, 0, 0)
    assert not lacks_lesions(case(given, clean if known else None))


def test_ignored_pixels_are_no_lesion():
    given, clean = masks(1, 12, 12)
    clean[0, :3, :3], clean[0, 6:, :] = 1, 255
    given[0, 6:, :] = 255
    result = left_out_lesions(case(given, clean))
    assert (result.num_lesions, result.num_left_out, int(result.mask.max())) == (1, 1, 1)
    given[0, :3, :3] = 255
    assert not lacks_lesions(case(given, clean))
