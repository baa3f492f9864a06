"""Pictures are read as a viewer shows them, or refused with the reason; expected values by hand and by tifffile."""

import struct

import numpy as np
import pytest
import tifffile
from PIL import Image

from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.image_files import (
    ColouredMaskError,
    read_colours,
    read_image,
    read_mask,
    read_picture,
)

# A mark in the upper left corner tells all eight orientations apart.
SHOWN = np.zeros((6, 9), dtype=np.uint8)
SHOWN[0:2, 0:4], SHOWN[2, 0] = 200, 120
# How a picture is stored whose viewer turns it upright, by the tag of EXIF.
STORED = {
    1: SHOWN,
    2: SHOWN[:, ::-1],
    3: SHOWN[::-1, ::-1],
    4: SHOWN[::-1],
    5: SHOWN.T,
    6: np.rot90(SHOWN),
    7: SHOWN[::-1, ::-1].T,
    8: np.rot90(SHOWN, -1),
}


def tagged(array, file, tag, **options):
    exif = Image.Exif()
    exif[0x0112] = tag
    Image.fromarray(np.ascontiguousarray(array)).save(file, exif=exif, **options)
    return file


@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
@pytest.mark.parametrize("tag", sorted(STORED))
def test_a_turned_picture_is_read_upright(tmp_path, tag, suffix):
    file = tagged(STORED[tag], tmp_path / f"a.{suffix}", tag, **({"quality": 100} if suffix == "jpg" else {}))
    tolerance = 3 if suffix == "jpg" else 0
    assert np.abs(read_image(file, 1)[0] - SHOWN).max() <= tolerance
    assert np.abs(read_image(file, 3)[2] - SHOWN).max() <= tolerance
    assert np.abs(read_mask(file) - SHOWN).max() <= tolerance
    assert read_picture(file).orientation == tag


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_turn_and_stay_sixteen_bits(tmp_path, suffix):
    deep = STORED[6].astype(np.uint16) * 300
    file = tagged(deep, tmp_path / f"a.{suffix}", 6)
    assert np.array_equal(read_image(file, 1)[0], SHOWN.astype(np.float32) * 300)


def test_a_damaged_exif_block_is_passed_over(tmp_path):
    file = tmp_path / "a.jpg"
    Image.fromarray(SHOWN).save(file, exif=b"Exif\0\0MM\0\x2a\0\0\xff\xff garbage")
    assert read_image(file, 1).shape == (1, 6, 9)


def sixteen(shape, kind, file):
    """A PNG of 16 bits in colours or with alpha, which Pillow cannot write, byte by byte."""
    import struct
    import zlib

    channels = {2: 3, 4: 2, 6: 4}[kind]
    rows = b"".join(b"\0" + bytes(range(1, 1 + 2 * channels)) * shape[1] for _ in range(shape[0]))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", shape[1], shape[0], 16, kind, 0, 0, 0))]
    parts += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data)) for tag, data in parts
    )
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return file


@pytest.mark.parametrize("kind", [2, 4, 6], ids=["RGB", "LA", "RGBA"])
def test_several_channels_of_sixteen_bits_are_refused_by_name(tmp_path, kind):
    file = sixteen((3, 4), kind, tmp_path / "deep.png")
    for read in (lambda: read_image(file, 1), lambda: read_image(file, 3), lambda: read_mask(file)):
        with pytest.raises(DataError, match=r"deep\.png: found 16 bits in each of several channels"):
            read()


@pytest.mark.parametrize("planes", ["contig", "separate"])
def test_colour_tiffs_of_sixteen_bits_are_refused_by_name(tmp_path, planes):
    pixels = np.arange(36, dtype=np.uint16).reshape(3, 4, 3) * 500
    stored = pixels if planes == "contig" else np.moveaxis(pixels, -1, 0)
    tifffile.imwrite(tmp_path / "deep.tif", stored, photometric="rgb", planarconfig=planes)
    with pytest.raises(DataError, match=r"deep\.tif: found 16 bits in each of several channels"):
        read_image(tmp_path / "deep.tif", 3)


@pytest.mark.parametrize("depth", [np.uint8, np.uint16])
def test_white_is_zero_is_read_as_brightness(tmp_path, depth):
    stored = np.arange(12, dtype=depth).reshape(3, 4) * 20
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="miniswhite")
    assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), stored), "the independent reader gives what is stored"
    assert np.array_equal(read_image(tmp_path / "a.tif", 1)[0], (np.iinfo(depth).max - stored).astype(np.float32))
    assert np.array_equal(read_mask(tmp_path / "a.tif"), np.iinfo(depth).max - stored.astype(np.int64))


def test_white_is_zero_without_a_known_black_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.ones((3, 4), np.float32), photometric="miniswhite")
    with pytest.raises(DataError, match=r"a\.tif: found a TIFF in which 0 is white .* 32 bits"):
        read_image(tmp_path / "a.tif", 1)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_images_are_refused_and_alpha_without_meaning_is_left_out(tmp_path, mode):
    shown = Image.fromarray(SHOWN).convert(mode[:-1])
    for alpha in (255, 0):
        shown.putalpha(Image.new("L", shown.size, alpha))
        shown.save(tmp_path / "a.png")
        assert np.array_equal(read_image(tmp_path / "a.png", 1)[0], SHOWN)
        assert np.array_equal(read_mask(tmp_path / "a.png"), SHOWN)
    shown.putalpha(Image.fromarray(SHOWN))
    shown.save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: found transparent pixels, 100\.00% of all"):
        read_image(tmp_path / "a.png", 1)


@pytest.mark.parametrize("colour", [0, 255])
def test_a_mask_in_the_alpha_channel_is_refused(tmp_path, colour):
    picture = Image.new("RGB", (9, 6), (colour,) * 3)
    picture.putalpha(Image.fromarray((SHOWN > 0).astype(np.uint8) * 255))
    picture.save(tmp_path / "a.png")
    for read in (read_mask, read_colours):
        with pytest.raises(
            DataError, match=r"a\.png: found a mask with an alpha channel that carries what is annotated"
        ):
            read(tmp_path / "a.png")


def test_a_transparent_background_that_is_black_is_background(tmp_path):
    picture = Image.fromarray(np.stack([(SHOWN > 0) * np.uint8(255)] * 4, axis=-1))
    picture.save(tmp_path / "a.png")
    assert np.array_equal(read_mask(tmp_path / "a.png"), (SHOWN > 0) * 255)


def palette_mask(indices, colours, file, **options):
    picture = Image.fromarray(np.asarray(indices, dtype=np.uint8)).convert("P")
    picture.putdata(np.asarray(indices).ravel().tolist())
    picture.putpalette([value for colour in colours for value in colour])
    picture.save(file, **options)
    return file


BLACK, GREY, WHITE, RED, GREEN = (0, 0, 0), (128, 128, 128), (255, 255, 255), (255, 0, 0), (0, 255, 0)
INDICES = [[0, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("colours", "values"),
    [
        ((BLACK, RED, GREEN), INDICES),
        ((BLACK, GREY, WHITE), INDICES),
        # Turned around, as a quantisation of colours writes it.
        ((WHITE, BLACK, GREY), [[255, 255, 0], [128, 0, 255]]),
        ((WHITE, GREY, BLACK), [[255, 255, 128], [0, 128, 255]]),
        # Black stands twice, and index 1 is no lesion.
        ((BLACK, BLACK, WHITE), [[0, 0, 0], [255, 0, 0]]),
    ],
)
def test_indices_of_a_palette_count_where_they_agree_with_what_is_shown(tmp_path, colours, values):
    assert read_mask(palette_mask(INDICES, colours, tmp_path / "a.png")).tolist() == values


def test_one_index_alone_is_what_its_colour_says(tmp_path):
    """An empty mask whose only index is 1, black, is empty."""
    assert not read_mask(palette_mask([[1, 1]], (WHITE, BLACK), tmp_path / "a.png")).any()


def test_a_coloured_palette_without_a_black_background_asks_for_colours(tmp_path):
    file = palette_mask(INDICES, (RED, BLACK, GREEN), tmp_path / "a.png")
    with pytest.raises(ColouredMaskError, match=r"a\.png: found a mask in colours"):
        read_mask(file)
    assert read_colours(file).tolist() == [[0xFF0000, 0xFF0000, 0], [0x00FF00, 0, 0xFF0000]]


def test_colours_beyond_a_marker_make_a_picture_coloured(tmp_path):
    rgb = np.repeat(SHOWN[..., None], 3, axis=-1).repeat(10, axis=0).repeat(10, axis=1)
    rgb[..., 0] += 6
    Image.fromarray(rgb).save(tmp_path / "grey.png")
    rgb[:3, :10, 1] += 50
    Image.fromarray(rgb).save(tmp_path / "marker.png")
    rgb[:, :30, 1] += 50
    Image.fromarray(rgb).save(tmp_path / "colour.png")
    Image.fromarray(rgb[..., 0]).save(tmp_path / "one.png")
    pictures = [read_picture(tmp_path / f"{name}.png") for name in ("grey", "marker", "colour", "one")]
    assert [picture.has_colours for picture in pictures] == [False, False, True, False]
    assert [len(picture.intensities) for picture in pictures] == [1, 1, 3, 1]


def test_pages_and_numbers_that_are_not_finite_are_refused(tmp_path):
    pages = [Image.fromarray(SHOWN)] * 2
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DataError, match=r"pages\.tif: found 2 pictures in the file; expected one"):
        read_image(tmp_path / "pages.tif", 1)
    values = np.ones((3, 4), np.float32)
    values[1, 1:3] = np.nan, np.inf
    Image.fromarray(values).save(tmp_path / "nan.tif")
    with pytest.raises(DataError, match=r"nan\.tif: found 2 intensities that are not finite"):
        read_image(tmp_path / "nan.tif", 1)


def _tiff(file, values, sample_format):
    """An uncompressed grey TIFF, by hand: Pillow writes neither 8 bits with a sign nor 32 without."""
    data, (height, width) = values.tobytes(), values.shape
    long, short = 4, 3
    tags = [(256, short, width), (257, short, height), (258, short, 8 * values.itemsize), (259, short, 1)]
    tags += [(262, short, 1), (273, long, 8), (277, short, 1), (278, short, height), (279, long, len(data))]
    tags += [] if sample_format is None else [(339, short, sample_format)]
    entries = b"".join(
        struct.pack("<HHI", tag, kind, 1) + struct.pack("<I" if kind == long else "<HH", *(value, 0)[: 5 - kind])
        for tag, kind, value in tags
    )
    head = b"II*\0" + struct.pack("<I", 8 + len(data))
    file.write_bytes(head + data + struct.pack("<H", len(tags)) + entries + bytes(4))
    return file


@pytest.mark.parametrize("sample_format", [None, 1])
def test_tiffs_of_32_bits_without_a_sign_keep_large_values(tmp_path, sample_format):
    values = np.random.default_rng(0).integers(0, 2**32, (6, 8), dtype=np.uint32)
    assert values.max() > 2**31
    np.testing.assert_array_equal(
        read_image(_tiff(tmp_path / "a.tif", values, sample_format), 1)[0], values.astype(np.float32)
    )


def test_tiffs_of_32_bits_with_a_sign_keep_it(tmp_path):
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (6, 8)).astype(np.int32)
    np.testing.assert_array_equal(read_image(_tiff(tmp_path / "a.tif", values, 2), 1)[0], values.astype(np.float32))


def test_tiffs_of_8_bits_with_a_sign_are_refused(tmp_path):
    file = _tiff(tmp_path / "a.tif", np.arange(-24, 24, dtype=np.int8).reshape(6, 8), 2)
    for read in (lambda: read_image(file, 1), lambda: read_mask(file)):
        with pytest.raises(DataError, match=r"a\.tif: found values of 8 bits with a sign"):
            read()
