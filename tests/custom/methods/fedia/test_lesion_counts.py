"""Lesions are counted per case, in volumes that slices are put together to, in evaluation mode."""

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedia.lesion_counts import LesionCounts, count_lesions, count_site_lesions
from fedannot.transforms.ignored_label import IGNORED_LABEL


class Given(nn.Module):
    """Predicts foreground where the image is above 0.5, and everywhere in training mode."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        foreground = self.scale * (images - 0.5) + (100.0 if self.training else 0.0)
        return torch.cat([-foreground, foreground], dim=1)


def boxes(shape, *places):
    volume = np.zeros(shape, dtype=np.uint8)
    for place in places:
        volume[tuple(slice(start, stop) for start, stop in place)] = 1
    return volume


def test_counts_by_hand():
    annotated = boxes((12, 12), ((0, 2), (0, 2)), ((8, 10), (8, 10)))
    # One covers an annotated lesion, two are elsewhere, of which one touches the first by a corner only.
    predicted = boxes((12, 12), ((1, 3), (1, 3)), ((3, 4), (3, 4)), ((6, 7), (0, 2)), ((0, 2), (9, 11)))
    assert count_lesions(annotated, predicted) == LesionCounts(annotated=2, predicted=3, matched=1)


def test_a_lesion_of_one_class_does_not_match_another_class():
    annotated, predicted = (np.zeros((8, 8), dtype=np.uint8) for _ in range(2))
    annotated[1:3, 1:3], predicted[1:3, 1:3] = 1, 2
    annotated[5:7, 5:7] = predicted[5:7, 5:7] = 2
    assert count_lesions(annotated, predicted, 2) == LesionCounts(annotated=2, predicted=2, matched=1)


def case(label, image, unit, whole=False):
    """A case of slices along the first axis, or of one whole volume."""
    label, image = torch.from_numpy(label), torch.from_numpy(image.astype(np.float32))
    if whole:
        return LoadedCase(unit, unit, image[None, None], label[None], None, (1.0, 1.0, 1.0))
    return LoadedCase(unit, unit, image[:, None], label, None, (1.0, 1.0), slice_spacing=2.0)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_slices_of_a_volume_are_one_volume_and_volumes_are_apart(whole, batch_size):
    shape = (6, 32, 32)
    # A lesion over four slices, at the last ones of the first volume; the next volume begins at the same place.
    first = boxes(shape, ((2, 6), (4, 8), (4, 8)))
    second = boxes(shape, ((0, 2), (4, 8), (4, 8)), ((3, 5), (20, 24), (20, 24)))
    cases = [case(first, first, "a", whole), case(second, second, "b", whole)]
    network = Given().train()
    inference = Inference(batch_size, (32, 32, 32) if whole else None)
    assert count_site_lesions(network, cases, 1, inference) == LesionCounts(3, 3, 3)
    assert network.training, "the network's mode is put back"


def test_no_prediction_and_no_annotation():
    empty, one = boxes((4, 8, 8)), boxes((4, 8, 8), ((0, 2), (1, 3), (1, 3)))
    assert count_site_lesions(Given(), [case(one, empty, "a")], 1, Inference(2)) == LesionCounts(1, 0, 0)
    assert count_site_lesions(Given(), [case(empty, one, "a")], 1, Inference(2)) == LesionCounts(0, 1, 0)


def test_ignored_places_are_no_lesions_and_what_is_found_there_is_not_counted():
    annotated = boxes((16, 16), ((0, 3), (0, 3)))
    annotated[8:11, 8:11] = IGNORED_LABEL
    annotated[0:3, 4:6] = IGNORED_LABEL
    # One is around an ignored place, one lies on the annotated lesion and on an ignored place, one is elsewhere.
    predicted = boxes((16, 16), ((7, 12), (7, 12)), ((0, 2), (1, 6)), ((13, 15), (1, 3)))
    assert count_lesions(annotated, predicted) == LesionCounts(annotated=1, predicted=2, matched=1)


def test_a_case_of_which_all_is_ignored_has_no_lesion():
    everything = np.full((8, 8, 4), IGNORED_LABEL, dtype=np.uint8)
    assert count_lesions(everything, boxes((8, 8, 4), ((1, 3), (1, 3), (1, 3)))) == LesionCounts()
