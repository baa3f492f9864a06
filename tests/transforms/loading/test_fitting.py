import numpy as np
import pytest
import torch

from fedannot.transforms.loading.fitting import labels_at, padded, resize_image, resize_mask, scaled_extents


@pytest.mark.parametrize(
    ("extents", "size", "fit", "expected"),
    [
        # Stretched, whatever the proportions; an axis without a size keeps its own length.
        ((512, 400), (256, 256), "resize", (256, 256)),
        ((512, 400, 30), (256, None, 60), "resize", (256, 400, 60)),
        # Half as large: 400 becomes 200 and is padded to 256 afterwards.
        ((512, 400), (256, 256), "pad", (256, 200)),
        ((100, 50), (256, 256), "pad", (256, 128)),
        # The slice axis keeps its own, and decides nothing: 3 / 30 would shrink the slices ten times.
        ((512, 30, 400), (256, None, 256), "pad", (256, 30, 200)),
        ((20, 3, 10), (40, None, 40), "pad", (40, 3, 20)),
        # Never nothing.
        ((1000, 1), (64, 64), "pad", (64, 1)),
        ((512, 400), (256, 256), "crop", (512, 400)),
    ],
)
def test_extents_before_padding(extents, size, fit, expected):
    assert scaled_extents(extents, size, fit) == expected


@pytest.mark.parametrize("own", range(1, 70))
@pytest.mark.parametrize("wanted", [7, 32, 63])
def test_padding_is_never_negative_and_one_side_fits(own, wanted):
    for other in (1, 9, 33, 70):
        scaled = scaled_extents((own, other), (wanted, wanted + 5), "pad")
        assert scaled[0] == wanted or scaled[1] == wanted + 5
        assert scaled[0] <= wanted
        assert scaled[1] <= wanted + 5


def test_a_volume_is_resized_like_its_slices_one_by_one():
    volume = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 40, 30, 5)).astype("f4"))
    resized = resize_image(volume, (16, 44, 5))
    for index in range(5):
        expected = resize_image(volume[..., index], (16, 44))
        torch.testing.assert_close(resized[..., index], expected, rtol=0, atol=1e-5)


def test_half_the_size_is_the_mean_of_neighbours_in_a_smooth_volume():
    # Of a plane the triangle filter gives the plane itself, at the centres of the larger voxels.
    i, j, k = np.meshgrid(np.arange(24.0), np.arange(16.0), np.arange(12.0), indexing="ij")
    volume = torch.from_numpy((3 * i - 2 * j + k)[None])
    resized = resize_image(volume, (12, 8, 6))[0, 2:-2, 2:-2, 2:-2]
    centres = [np.arange(length) * 2 + 0.5 for length in (12, 8, 6)]
    i, j, k = np.meshgrid(*centres, indexing="ij")
    torch.testing.assert_close(resized, torch.from_numpy((3 * i - 2 * j + k)[2:-2, 2:-2, 2:-2]))


@pytest.mark.parametrize("extents", [(9, 7), (14, 20), (5, 7, 3), (9, 3, 8)])
def test_a_pixel_gets_the_class_with_the_largest_fraction_of_its_area(extents):
    shape = (18, 14, 6)[: len(extents)]
    mask = torch.from_numpy(np.random.default_rng(1).integers(0, 3, shape).astype("u1"))[None]
    resized = resize_mask(mask, extents, 3)[0]
    for place in np.ndindex(*extents):
        # Every pixel that the new one touches counts whole, as adaptive pooling has it.
        part = mask[0][
            tuple(
                slice(at * own // new, -((at + 1) * own // -new))
                for at, own, new in zip(place, shape, extents, strict=True)
            )
        ]
        counts = [int((part == label).sum()) for label in range(3)]
        assert int(resized[place]) == max(range(3), key=lambda label: (counts[label], label))


def test_images_are_padded_with_their_border_and_masks_with_background():
    image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert padded(image, (2, 5), border=True).tolist() == [[[1, 1, 2, 2, 2], [3, 3, 4, 4, 4]]]
    assert padded(image, (3, 4), border=False).tolist() == [[[0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0]]]
    volume = torch.ones(1, 2, 3, 4)
    assert padded(volume, (4, 3, 5), border=False)[0].nonzero().amin(0).tolist() == [1, 0, 0]
    assert padded(volume, (4, 3, 5), border=True).tolist() == torch.ones(1, 4, 3, 5).tolist()


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize(
    ("extents", "size"), [((20, 13), (40, 52)), ((20, 5, 13), (40, None, 52)), ((8, 5, 7), (24, 15, 35))]
)
def test_labels_of_an_enlarged_image_come_back_pixel_for_pixel(extents, size, fit):
    mask = torch.from_numpy(np.random.default_rng(2).integers(0, 3, extents).astype("u1"))[None]
    wanted = [own if length is None else length for own, length in zip(extents, size, strict=True)]
    enlarged = padded(resize_mask(mask, scaled_extents(extents, size, fit), 3), wanted, border=False)
    assert list(enlarged.shape[1:]) == wanted
    assert torch.equal(labels_at(enlarged, extents, size, fit), mask)


def test_labels_of_a_halved_image_come_back_as_blocks():
    labels = torch.tensor([[[1, 2], [0, 1]]], dtype=torch.uint8)
    assert labels_at(labels, (4, 4), (2, 2), "resize")[0].tolist() == [[1, 1, 2, 2]] * 2 + [[0, 0, 1, 1]] * 2
    # 4 × 2 pixels became 2 × 1, and a column was added behind.
    padded_labels = torch.tensor([[[1, 0], [2, 0]]], dtype=torch.uint8)
    assert labels_at(padded_labels, (4, 2), (2, 2), "pad")[0].tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]


@pytest.mark.parametrize(("own", "new", "shift"), [(200, 256, 0.3), (384, 256, 0.2), (256, 128, 0.1), (640, 256, 0.0)])
def test_contours_move_outwards_by_a_part_of_a_new_pixel(own, new, shift):
    """In the mean of discs, by the radius of their area, as the documentation has it."""
    generator, shifts = np.random.default_rng(0), []
    rows, columns = np.mgrid[:own, :own] + 0.5
    for _ in range(40):
        (row, column), radius = generator.uniform(0.35, 0.65, 2) * own, generator.uniform(0.03, 0.1) * own
        disc = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
        resized = resize_mask(torch.from_numpy(disc.astype("u1"))[None], (new, new), 2)
        shifts.append(np.sqrt(int(resized.sum()) / np.pi) - np.sqrt(disc.sum() / np.pi) * new / own)
    assert np.mean(shifts) == pytest.approx(shift, abs=0.05)
