"""Damaged, strange and hostile files: excluded by name, without a crash; nothing outside the folder is opened."""

import gzip
import io
import json
import os
import resource
import struct
import tempfile
import zlib
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading import image_files, volume_files

SHAPE = (6, 5, 4)
AFFINE = np.array([[1.9, -0.3, 0.2, 7], [0.4, 0.9, -0.5, -3], [-0.1, 0.2, 4, 11], [0, 0, 0, 1]])
IMAGE = np.random.default_rng(0).integers(1, 100, SHAPE)
MASK = (IMAGE > 50).astype("u1")
PICTURE = np.random.default_rng(1).integers(0, 255, (8, 10), dtype=np.uint8)
PICTURE_MASK = (PICTURE > 128).astype(np.uint8)

DESCRIPTIONS = {
    "image2d": "pipeline: image2d\nchannels: 1\nsize: [6, 6]\nlabels: {0: 0, 1: 1}\nclasses: [a]\n",
    "classification": "pipeline: classification\nchannels: 3\nsize: [6, 6]\nclasses: [a, b]\n",
    "volume_slices": "pipeline: volume_slices\nclasses: [a]\nlabels: {0: 0, 1: 1}\nsize: [6, 6]\nspacing: [2, 2, 2]\n",
    "volume": "pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\ncrop: foreground\nsize: [4, 4, 4]\n",
}


def nifti(voxels, affine=AFFINE, *, kind=nibabel.Nifti1Image, change=None, **options):
    """The bytes of an uncompressed volume, whose header may be changed behind nibabel's back."""
    content = bytearray(kind(voxels, affine, **options).to_bytes())
    if change is not None:
        header = nibabel.Nifti1Header(bytes(content[:348]))
        change(header)
        content[:348] = header.binaryblock
    return bytes(content)


def picture(array, kind="PNG", **options):
    buffer = io.BytesIO()
    image = array if isinstance(array, Image.Image) else Image.fromarray(array)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def affine_rows(value):
    def change(header):
        header["sform_code"], header["qform_code"] = 1, 0
        for row in ("srow_x", "srow_y", "srow_z"):
            header[row] = value

    return change


def scaling(slope, intercept):
    def change(header):
        header["scl_slope"], header["scl_inter"] = slope, intercept

    return change


def claims(*shape):
    return lambda header: header["dim"].__setitem__(slice(None), [3, *shape, 1, 1, 1, 1])


def png_that_claims(width, height):
    content = bytearray(picture(PICTURE))
    content[16:24] = struct.pack(">II", width, height)
    # A matching checksum, so that the size is believed.
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    return bytes(content)


def tiff_that_claims(height):
    """Pillow would make black rows of those that are not there."""
    content = bytearray(picture(PICTURE_MASK, "TIFF"))
    # The tag of the height: its number, the type of its value, how many there are, and the value.
    place = content.index(struct.pack("<HHI", 257, 4, 1))
    content[place + 8 : place + 12] = struct.pack("<I", height)
    return bytes(content)


def nan_voxels():
    voxels = IMAGE.astype("f4")
    voxels[2, 2, 2] = np.nan
    return voxels


BAD_VOLUMES = {
    "zero bytes.nii": b"",
    "zero bytes.nii.gz": b"",
    "cut.nii": nifti(MASK)[:-9],
    "cut.nii.gz": gzip.compress(nifti(MASK))[:-30],
    "cut in header.nii": nifti(MASK)[:200],
    "noise.nii": bytes(range(256)) * 8,
    "noise.nii.gz": bytes(range(256)) * 8,
    "picture.nii.gz": picture(PICTURE),
    "picture.nii": picture(PICTURE),
    "really gzip.nii": gzip.compress(nifti(MASK)),
    "really not gzip.nii.gz": nifti(MASK),
    "surface.nii": nibabel.MGHImage(MASK, AFFINE).to_bytes(),
    "nan.nii.gz": nifti(nan_voxels()),
    "infinite.nii": nifti(np.full(SHAPE, np.inf)),
    "4d.nii.gz": gzip.compress(nifti(np.repeat(MASK[..., None], 2, axis=-1))),
    "2d.nii": nifti(MASK[..., 0]),
    "complex.nii": nifti(MASK.astype("c8")),
    "rgb.nii": nifti(np.zeros(SHAPE, [("R", "u1"), ("G", "u1"), ("B", "u1")])),
    "huge header.nii": nifti(MASK, change=claims(1000, 1000, 500)),
    "huger header.nii": nifti(MASK, change=claims(32767, 32767, 32767)),
    "huge header.nii.gz": gzip.compress(nifti(MASK, change=claims(1000, 1000, 500))),
    "negative header.nii": nifti(MASK, change=claims(-6, -5, 4)),
    "bomb.nii.gz": gzip.compress(nifti(MASK, change=claims(30000, 30000, 1)) + bytes(10**7)),
    "nan affine.nii": nifti(MASK, change=affine_rows(np.nan)),
    "zero affine.nii": nifti(MASK, change=affine_rows(0)),
    "endless offset.nii": nifti(MASK, change=lambda header: header.__setitem__("vox_offset", np.inf)),
    "far offset.nii.gz": gzip.compress(nifti(MASK, change=lambda header: header.__setitem__("vox_offset", 1e9))),
    "nan intercept.nii": nifti(MASK, change=scaling(2, np.nan)),
    "pair.hdr": bytes(nibabel.Nifti1Pair(MASK, AFFINE).header.binaryblock),
    "no volume.png": picture(PICTURE),
    "no suffix": nifti(MASK),
}
ODD_VOLUMES = {
    "uint16.nii.gz": gzip.compress(nifti(MASK.astype("u2"))),
    "int64.nii": nifti(MASK.astype("i8"), dtype="i8"),
    "float64.nii": nifti(MASK.astype("f8")),
    "big-endian.nii": nifti(MASK.astype(">i2")),
    "big-endian header.nii.gz": gzip.compress(
        nibabel.Nifti1Image(MASK, AFFINE, nibabel.Nifti1Header(endianness=">")).to_bytes()
    ),
    "scaled.nii": nifti(MASK.astype("i2"), change=scaling(1, 0)),
    "slope.nii": nifti(MASK * 4, change=scaling(0.25, 0)),
    "nifti-2.nii": nibabel.Nifti2Image(MASK, AFFINE).to_bytes(),
    "one time point.nii": nifti(MASK[..., None]),
    "UPPER.NII": nifti(MASK),
}
BAD_PICTURES = {
    "zero bytes.png": b"",
    "cut.png": picture(np.random.default_rng(2).integers(0, 2, (64, 64), dtype=np.uint8))[:-60],
    "cut in header.png": picture(PICTURE_MASK)[:20],
    "noise.tif": b"II*\0" + bytes(range(256)),
    "text.png": b"<html>not found</html>",
    "volume.png": nifti(MASK),
    "volume.jpg": gzip.compress(nifti(MASK)),
    "nan.tif": picture(np.full((8, 10), np.nan, "f4"), "TIFF"),
    "pages.tif": picture(PICTURE_MASK, "TIFF", save_all=True, append_images=[Image.fromarray(PICTURE_MASK)]),
    "animated.png": picture(PICTURE_MASK, save_all=True, append_images=[Image.fromarray(PICTURE_MASK + 3)]),
    "other format.png": picture(PICTURE_MASK, "GIF"),
    "huge header.png": png_that_claims(60000, 60000),
    "large header.png": png_that_claims(9000, 9000),
    "tall header.tif": tiff_that_claims(8_000_000),
    "negative header.png": png_that_claims(2**32 - 1, 8),
}
ODD_PICTURES = {
    "palette.png": picture(Image.fromarray(PICTURE_MASK).convert("P")),
    "16 bit.png": picture(PICTURE_MASK.astype(np.uint16)),
    "1 bit.png": picture(Image.fromarray(PICTURE_MASK > 0)),
    "alpha.png": picture(np.stack([PICTURE_MASK] * 3 + [np.full_like(PICTURE, 255)], axis=-1)),
    "grey alpha.png": picture(Image.fromarray(np.stack([PICTURE_MASK, np.zeros_like(PICTURE)], axis=-1))),
    "float.tif": picture(PICTURE_MASK.astype("f4"), "TIFF"),
    "32 bit.tif": picture(PICTURE_MASK.astype("i4"), "TIFF"),
    "bitmap.bmp": picture(PICTURE_MASK, "BMP"),
    "png.jpg": picture(PICTURE_MASK),
}


def make_folder(path):
    path.mkdir()


SPECIAL_FILES = {
    "folder": make_folder,
    # Opening it would wait for somebody who writes.
    "pipe": os.mkfifo,
    "dangling link": lambda path: path.symlink_to("nothing"),
    "missing": lambda path: None,
}


def is_of_volumes(pipeline):
    return pipeline.startswith("volume")


def write_all(folder, files):
    """Write files whose content is given as bytes, or by what makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            content(folder / name)


def make_site(folder, pipeline, role, names):
    """Describe a site with a case for each of these files, in their role among good files, and a good case at last."""
    if is_of_volumes(pipeline):
        suffix, image, mask = ".nii", nifti(IMAGE.astype("f4")), nifti(MASK)
    else:
        suffix, image, mask = ".png", picture(PICTURE), picture(PICTURE_MASK)
    write_all(folder, {f"image{suffix}": image, f"label{suffix}": mask})
    item = {"image": f"image{suffix}", "label": f"label{suffix}", "clean_label": f"label{suffix}"}
    if pipeline == "classification":
        item = {"image": f"image{suffix}", "label": 1, "clean_label": 0}
    (folder / "data.yaml").write_text(DESCRIPTIONS[pipeline])
    write_items(folder, [*(item | {role: name} for name in names), item])


def write_items(folder, items):
    (folder / "datalist.json").write_text(json.dumps({"training": items}))


def load(folder):
    return load_site_data(folder, folder.parent / "cache", site="x")


def roles(pipeline):
    return ("image",) if pipeline == "classification" else ("image", "label", "clean_label")


def check_excluded(folder, role, names):
    """The good case is there, the others are excluded by name, or kept without a clean label where that is bad."""
    data = load(folder)
    assert all(case.image.isfinite().all() for case in data.cases)
    if role == "clean_label":
        assert data.excluded == ()
        assert [case.clean_label is None for case in data.cases] == [True] * len(names) + [False]
        return
    assert len(data.cases) == 1
    for name, excluded in zip(names, data.excluded, strict=True):
        assert f"{folder / name}: " in excluded.reason
        assert len(excluded.reason) < 1000


ALL_ROLES = [(pipeline, role) for pipeline in DESCRIPTIONS for role in roles(pipeline)]


@pytest.mark.parametrize(("pipeline", "role"), ALL_ROLES)
def test_bad_files_are_excluded_by_name(tmp_path, pipeline, role):
    files = BAD_VOLUMES if is_of_volumes(pipeline) else BAD_PICTURES
    write_all(tmp_path / "site", files)
    make_site(tmp_path / "site", pipeline, role, files)
    check_excluded(tmp_path / "site", role, files)


@pytest.mark.parametrize(("pipeline", "role"), ALL_ROLES)
def test_what_is_no_regular_file_is_excluded_by_name(tmp_path, pipeline, role):
    suffix = ".nii.gz" if is_of_volumes(pipeline) else ".png"
    files = {f"{name}{suffix}": make for name, make in SPECIAL_FILES.items()}
    write_all(tmp_path / "site", files)
    make_site(tmp_path / "site", pipeline, role, files)
    check_excluded(tmp_path / "site", role, files)


@pytest.mark.parametrize(("pipeline", "role"), ALL_ROLES)
def test_a_link_that_leads_to_itself_is_excluded_by_name(tmp_path, pipeline, role):
    name = f"loop{'.nii' if is_of_volumes(pipeline) else '.png'}"
    write_all(tmp_path / "site", {name: lambda path: path.symlink_to(path.name)})
    make_site(tmp_path / "site", pipeline, role, [name])
    data = load(tmp_path / "site")
    assert len(data.cases) == 1
    assert name in data.excluded[0].reason


@pytest.mark.parametrize(("pipeline", "role"), ALL_ROLES)
def test_odd_but_sound_files_are_used(tmp_path, pipeline, role):
    files = ODD_VOLUMES if is_of_volumes(pipeline) else ODD_PICTURES
    write_all(tmp_path / "site", files)
    make_site(tmp_path / "site", pipeline, role, files)
    data = load(tmp_path / "site")
    assert data.excluded == ()
    for name, case in zip(files, data.cases, strict=False):
        # Each holds the good mask in another form.
        if role != "image":
            assert getattr(case, role).equal(getattr(data.cases[-1], role)), name
        assert case.image.isfinite().all(), name
        assert bool(case.image.any()), name


@pytest.mark.parametrize("role", ["label", "clean_label"])
def test_colours_are_no_mask(tmp_path, role):
    coloured = np.stack([PICTURE_MASK, PICTURE_MASK * 0, PICTURE_MASK], axis=-1)
    write_all(tmp_path / "site", {"colours.png": picture(coloured)})
    make_site(tmp_path / "site", "image2d", role, ["colours.png"])
    check_excluded(tmp_path / "site", role, ["colours.png"])


@pytest.mark.parametrize(("pipeline", "role"), ALL_ROLES)
def test_files_outside_the_folder_are_never_opened(tmp_path, pipeline, role, monkeypatch):
    suffix = ".nii" if is_of_volumes(pipeline) else ".png"
    outside = tmp_path / f"outside{suffix}"
    outside.write_bytes(nifti(MASK) if is_of_volumes(pipeline) else picture(PICTURE_MASK))
    site = tmp_path / "site"
    site.mkdir()
    (site / f"link{suffix}").symlink_to(outside)
    (site / "folder").symlink_to(tmp_path)
    names = [f"../outside{suffix}", str(outside), f"link{suffix}", f"folder/outside{suffix}"]
    make_site(site, pipeline, role, names)
    opened = []

    def watched(original):
        return lambda file, *args, **options: opened.append(Path(file).resolve()) or original(file, *args, **options)

    monkeypatch.setattr(image_files.Image, "open", watched(image_files.Image.open))
    monkeypatch.setattr(volume_files.nibabel, "load", watched(volume_files.nibabel.load))
    data = load(site)
    assert len(data.cases) == 1
    for name, excluded in zip(names, data.excluded, strict=True):
        assert f"{name!r}, which leads out of {site}" in excluded.reason
    assert opened
    assert outside not in opened


@pytest.mark.parametrize("pipeline", DESCRIPTIONS)
@given(
    items=st.lists(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(max_size=9)
            | st.sampled_from(["image.png", "image.nii"]),
            lambda values: (
                st.lists(values, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["image", "label", "clean_label", "group", "source", "x"]), values, max_size=5
                )
            ),
            max_leaves=6,
        ),
        max_size=5,
    )
)
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_stands_in_a_datalist_the_good_case_is_loaded(pipeline, items):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "site"
        make_site(folder, pipeline, "image", [])
        (good,) = json.loads((folder / "datalist.json").read_text(encoding="utf-8"))["training"]
        write_items(folder, [*items, good])
        data = load(folder)
        assert len(data.cases) + len(data.excluded) == len(items) + 1
        assert data.cases[-1].label.any()


GOOD_FILES = {
    "image.nii": nifti(IMAGE.astype("f4")),
    "image.nii.gz": gzip.compress(nifti(IMAGE.astype("i2")), mtime=0),
    "label.nii": nifti(MASK),
    "label.nii.gz": gzip.compress(nifti(MASK.astype("f4")), mtime=0),
    "image.png": picture(PICTURE),
    "image.tif": picture(PICTURE, "TIFF"),
    "image.jpg": picture(PICTURE, "JPEG"),
    "image.bmp": picture(PICTURE, "BMP"),
    "label.png": picture(PICTURE_MASK),
}
# Half of the changes hit the header, where they do most.
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "write", "cut", "remove", "insert"]),
        st.integers(0, 351) | st.integers(0, 2000),
        st.binary(min_size=1, max_size=4)
        | st.sampled_from([b"\xff\xff", b"\xff\x7f", b"\0\0\x80\x7f", b"\0\0\xc0\x7f"]),
    ),
    min_size=1,
    max_size=6,
)


def changed(content, changes):
    content = bytearray(content)
    for kind, wanted_place, values in changes:
        place = wanted_place % max(len(content), 1)
        if kind == "flip" and content:
            content[place] ^= values[0]
        elif kind == "write":
            content[place : place + len(values)] = values
        elif kind == "cut":
            del content[place:]
        elif kind == "remove":
            del content[place : place + len(values)]
        else:
            content[place:place] = values
    return bytes(content)


@pytest.mark.parametrize("name", GOOD_FILES)
@given(changes=CHANGES, inside=st.booleans(), which=st.integers(0, 1))
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_flipped_and_cut_bytes_give_a_case_or_an_exclusion_by_name(name, changes, inside, which):
    volume = ".nii" in name
    pipeline = (("volume_slices", "volume") if volume else ("image2d", "classification"))[which]
    role = name.split(".")[0]
    if pipeline == "classification" and role == "label":
        pipeline = "image2d"
    good = GOOD_FILES[name]
    if inside and name.endswith(".gz"):
        # Sound compression of something damaged.
        content = gzip.compress(changed(gzip.decompress(good), changes), mtime=0)
    else:
        content = changed(good, changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "site"
        write_all(folder, {f"changed_{name}": content})
        make_site(folder, pipeline, role, [f"changed_{name}"])
        data = load(folder)
        assert len(data.cases) + len(data.excluded) == 2
        for case in data.cases:
            assert case.image.isfinite().all()
            assert int(case.label.max()) <= 1
        for excluded in data.excluded:
            assert f"changed_{name}" in excluded.reason or f"{folder}/label" in excluded.reason
    # Kilobytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 * 10**6


@pytest.mark.parametrize("pipeline", DESCRIPTIONS)
@given(text=st.text(alphabet="{}[]:,-\n 'az01&*!#|>%@", max_size=60))
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_damaged_description_is_an_error_that_names_it(pipeline, text):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "site"
        make_site(folder, pipeline, "image", [])
        with (folder / "data.yaml").open("a") as file:
            file.write(text)
        try:
            cases = load(folder).cases
        except DataError as error:
            message = str(error)
        else:
            assert len(cases) == 1
            return
        assert message.startswith(f"Site x: {folder}/")
