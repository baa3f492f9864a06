"""Pictures: what their header may claim, and label values however far apart they lie."""

import numpy as np
import pytest
from PIL import Image

from fedannot.transforms.errors import DataError
from fedannot.transforms.loading import picture_display
from fedannot.transforms.loading.image_files import distinct_values, map_mask, read_image, read_mask


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(tmp_path, monkeypatch):
    """A blank one of 11,000 × 11,000 pixels is a file of 350 KB and takes gigabytes as an array."""
    file = tmp_path / "blank.png"
    Image.new("L", (11000, 11000)).save(file)
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("was decoded"))
    for read in (lambda: read_image(file, 3), lambda: read_mask(file)):
        with pytest.raises(
            DataError, match=r"blank\.png: its header claims 11000 × 11000 pixels .*expected at most 67108864 .*smaller"
        ):
            read()


def test_the_largest_picture_is_one_that_pillow_does_not_warn_of():
    assert (Image.MAX_IMAGE_PIXELS or 0) > picture_display.MAX_PIXELS


@pytest.mark.parametrize(
    "values",
    [
        [[0, 255], [255, 0]],
        [[7, 7], [9, 8]],
        [[-5, 0], [3, -5]],
        [[0, 2**16 - 1], [1, 0]],
        [[0, 2**16], [1, 0]],
        [[-(2**62), 2**62], [1, 0]],
    ],
)
def test_values_become_classes_however_far_apart_they_lie(values, tmp_path):
    array = np.array(values, dtype=np.int64)
    known = sorted({int(value) for row in values for value in row})
    labels = {value: label for label, value in enumerate(known)}
    assert distinct_values(array).tolist() == known
    expected = [[labels[value] for value in row] for row in values]
    for order in ("C", "F"):
        classes = map_mask(np.asarray(array, order=order), labels, tmp_path / "a.png")
        assert classes.dtype == np.uint8
        assert classes.tolist() == expected


def test_no_values_are_no_classes(tmp_path):
    empty = np.empty((0, 3), dtype=np.int64)
    assert distinct_values(empty).tolist() == []
    assert map_mask(empty, {0: 0, 1: 1}, tmp_path / "a.png").shape == (0, 3)


def test_few_distinct_values_are_found_without_sorting(monkeypatch):
    monkeypatch.setattr(np, "unique", lambda *_: pytest.fail("was sorted"))
    assert distinct_values(np.array([[0, 255], [3, 0]])).tolist() == [0, 3, 255]
