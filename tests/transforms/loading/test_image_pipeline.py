import numpy as np
import pytest
import torch
from PIL import Image

from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.image_pipeline import build_image_pipeline, build_picture_pipeline, decode_case


def write(file, array):
    Image.fromarray(np.asarray(array)).save(file)
    return file


def decoded(tmp_path, image, label, *, channels=1, size=None, labels=None, suffix=".png"):
    files = {"image": write(tmp_path / f"image{suffix}", image), "label": write(tmp_path / "label.png", label)}
    size = size or np.asarray(label).shape[:2]
    return decode_case(build_image_pipeline(channels=channels, size=size, labels=labels or {0: 0, 255: 1}), files)


def gradient(rows, columns):
    return (np.arange(rows)[:, None] * 3 + np.arange(columns)[None]).astype(np.uint8)


def test_rows_stay_rows_and_intensities_are_z_scores(tmp_path):
    image = gradient(20, 30)
    label = np.zeros((20, 30), np.uint8)
    label[2:5, 10:29] = 255
    case = decoded(tmp_path, image, label)
    np.testing.assert_allclose(case["image"][0].numpy(), (image - image.mean()) / image.std(), atol=1e-5)
    np.testing.assert_array_equal(case["label"].numpy(), label // 255)
    assert case["image"].dtype == torch.float32
    assert case["label"].dtype == torch.uint8
    assert type(case["image"]) is type(case["label"]) is torch.Tensor


def test_rgb_is_z_scored_jointly_and_converted_to_grey_on_demand(tmp_path):
    image = np.stack([gradient(8, 12), 2 * gradient(8, 12), np.full((8, 12), 9, np.uint8)], axis=-1)
    label = np.zeros((8, 12), np.uint8)
    colour = decoded(tmp_path, image, label, channels=3)["image"].numpy()
    np.testing.assert_allclose(colour, np.moveaxis((image - image.mean()) / image.std(), -1, 0), atol=1e-5)
    grey = decoded(tmp_path, image, label)["image"]
    weighted = np.asarray(Image.fromarray(image).convert("L"), dtype=float)
    np.testing.assert_allclose(grey[0].numpy(), (weighted - weighted.mean()) / weighted.std(), atol=1e-5)


def test_grey_becomes_three_equal_channels_and_jpeg_is_read(tmp_path):
    image = gradient(16, 24)
    case = decoded(tmp_path, image, np.zeros((16, 24), np.uint8), channels=3, suffix=".jpg")["image"].numpy()
    assert case.shape == (3, 16, 24)
    np.testing.assert_array_equal(case[0], case[1])
    assert np.abs(case[0] - (image - image.mean()) / image.std()).mean() < 0.05


def test_16_bit_intensities_are_not_cut_off(tmp_path):
    image = (gradient(10, 10).astype(np.uint16) * 400) + 1000
    case = decoded(tmp_path, image, np.zeros((10, 10), np.uint8))["image"][0].numpy()
    np.testing.assert_allclose(case, (image - image.mean()) / image.std(), atol=1e-4)


@pytest.mark.parametrize("size", [(10, 10), (5, 7), (23, 31)])
def test_constant_image_becomes_zeros_at_every_size(tmp_path, size):
    case = decoded(tmp_path, np.full((10, 10), 77, np.uint8), np.zeros((10, 10), np.uint8), size=size)
    assert case["image"].shape == (1, *size)
    assert not case["image"].any()


def test_shrunk_image_is_smooth_and_keeps_its_frame(tmp_path):
    # A checkerboard's average everywhere: aliasing or a darkened frame would show as something else.
    image = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    image[:, 32:] = 255
    case = decoded(tmp_path, image, np.zeros((64, 64), np.uint8), size=(16, 16))["image"][0]
    left, right = case[:, :6], case[:, 10:]
    assert left.std() < 0.05
    assert right.std() < 0.05
    assert right.mean() - left.mean() == pytest.approx(2.0, abs=0.2)


def test_shrunk_mask_takes_the_class_with_the_largest_area(tmp_path):
    # Blocks of 2 x 2: half lesion, quarter lesion, three classes with the third in front, all background.
    label = np.array([[1, 1, 1, 0, 2, 2, 0, 0], [0, 0, 0, 0, 2, 1, 0, 0]], np.uint8)
    case = decoded(tmp_path, gradient(2, 8), label, size=(1, 4), labels={0: 0, 1: 1, 2: 2})
    np.testing.assert_array_equal(case["label"].numpy(), [[1, 0, 2, 0]])


def test_enlarged_mask_repeats_pixels(tmp_path):
    label = np.array([[0, 255], [255, 0]], np.uint8)
    case = decoded(tmp_path, gradient(2, 2), label, size=(4, 6))
    np.testing.assert_array_equal(case["label"].numpy(), np.kron(label // 255, np.ones((2, 3))))


def test_palette_masks_give_their_indices(tmp_path):
    picture = Image.fromarray(np.array([[0, 1], [2, 0]], np.uint8), mode="P")
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    picture.save(tmp_path / "label.png")
    write(tmp_path / "image.png", gradient(2, 2))
    pipeline = build_image_pipeline(channels=1, size=(2, 2), labels={0: 0, 1: 1, 2: 2})
    case = decode_case(pipeline, {"image": tmp_path / "image.png", "label": tmp_path / "label.png"})
    np.testing.assert_array_equal(case["label"].numpy(), [[0, 1], [2, 0]])


def test_255_masks_with_a_01_map_say_what_to_write(tmp_path):
    label = np.array([[0, 255]], np.uint8)
    with pytest.raises(
        DataError, match=r"label\.png: found the label values 0, 255, expected only 0, 1.*\{0: 0, 255: 1\}"
    ):
        decoded(tmp_path, gradient(1, 2), label, labels={0: 0, 1: 1})
    with pytest.raises(DataError, match=r"found the label values 0, 1, expected only 0, 255.*\{0: 0, 1: 1\}"):
        decoded(tmp_path, gradient(1, 2), label // 255)


def test_mask_of_another_size_is_refused_with_both_sizes(tmp_path):
    with pytest.raises(DataError, match=r"label\.png.*mask of 6 × 4 .*, 4 × 6\."):
        decoded(tmp_path, gradient(4, 6), np.zeros((6, 4), np.uint8))


def test_unreadable_missing_and_coloured_files_are_named(tmp_path):
    image, label = write(tmp_path / "image.png", gradient(4, 4)), tmp_path / "label.png"
    pipeline = build_image_pipeline(channels=1, size=(4, 4), labels={0: 0, 255: 1})
    with pytest.raises(DataError, match=r"label\.png: found no such file"):
        decode_case(pipeline, {"image": image, "label": label})
    label.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"label\.png: cannot be read as an image"):
        decode_case(pipeline, {"image": image, "label": label})
    write(label, np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    with pytest.raises(DataError, match=r"label\.png: found a mask in colours"):
        decode_case(pipeline, {"image": image, "label": label})
    write(label, np.zeros((4, 4), np.uint8))


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_an_image_cut_short_is_refused(tmp_path, suffix):
    image = write(tmp_path / f"image{suffix}", np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8))
    image.write_bytes(image.read_bytes()[: image.stat().st_size // 2])
    label = write(tmp_path / "label.png", np.zeros((64, 64), np.uint8))
    pipeline = build_image_pipeline(channels=1, size=(64, 64), labels={0: 0, 255: 1})
    with pytest.raises(DataError, match=rf"image\{suffix}: cannot be read as an image"):
        decode_case(pipeline, {"image": image, "label": label})


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(20, 30), (10, 15), (33, 41)])
def test_a_picture_without_masks_becomes_what_it_becomes_with_masks(tmp_path, channels, size):
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    expected = decoded(tmp_path, image, np.zeros((20, 30), np.uint8), channels=channels, size=size)["image"]
    case = decode_case(build_picture_pipeline(channels=channels, size=size), {"image": tmp_path / "image.png"})
    assert list(case) == ["image"]
    assert torch.equal(case["image"], expected)
    assert type(case["image"]) is torch.Tensor


def test_a_constant_picture_becomes_zeros(tmp_path):
    write(tmp_path / "image.png", np.full((6, 7, 3), 90, np.uint8))
    case = decode_case(build_picture_pipeline(channels=3, size=(4, 4)), {"image": tmp_path / "image.png"})
    assert case["image"].shape == (3, 4, 4)
    assert not case["image"].any()


def test_a_file_with_several_pictures_is_refused(tmp_path):
    first, second = (Image.fromarray(gradient(4, 4) + value) for value in (0, 9))
    for name in ("image.tif", "image.png"):
        first.save(tmp_path / name, save_all=True, append_images=[second])
        with pytest.raises(DataError, match=rf"{name}: found 2 pictures in the file; expected one"):
            decode_case(build_picture_pipeline(channels=1, size=(4, 4)), {"image": tmp_path / name})


@pytest.mark.parametrize("kind", ["gif", "ppm", "eps"])
def test_other_formats_are_not_opened_whatever_their_name(tmp_path, kind):
    # For EPS Pillow would start a program.
    Image.fromarray(gradient(4, 4)).save(tmp_path / f"image.{kind}")
    (tmp_path / f"image.{kind}").rename(tmp_path / "image.png")
    with pytest.raises(DataError, match=r"image\.png: cannot be read as an image .*expected PNG, JPEG, BMP or TIFF"):
        decode_case(build_picture_pipeline(channels=1, size=(4, 4)), {"image": tmp_path / "image.png"})


@pytest.mark.parametrize("value", [np.nan, -np.inf, 3e38])
def test_intensities_that_cannot_be_computed_with_are_refused(tmp_path, value):
    image = gradient(4, 4).astype(np.float32)
    image[0, 0] = value
    write(tmp_path / "image.tif", image)
    with pytest.raises(DataError, match=r"image\.tif: found 1 intensities that are not finite or beyond ±1e\+12"):
        decode_case(build_picture_pipeline(channels=1, size=(4, 4)), {"image": tmp_path / "image.tif"})
