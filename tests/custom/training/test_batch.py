"""Places of pixels."""

import torch

from fedannot.custom.training.batch import pixel_places


def test_places_of_a_grid_by_hand():
    places = pixel_places([torch.tensor([4, 5]), torch.tensor([-1, 0, 7])])
    assert places.dtype == torch.int32
    # Beyond the border along one axis is beyond it along all.
    assert places.tolist() == [[[-1, 4, 4], [-1, 5, 5]], [[-1, 0, 7], [-1, 0, 7]]]


def test_places_of_a_volume_have_three_axes():
    places = pixel_places([torch.arange(2), torch.arange(3), torch.arange(4)])
    assert places.shape == (3, 2, 3, 4)
    assert places[:, 1, 2, 3].tolist() == [1, 2, 3]
