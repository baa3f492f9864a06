import pytest
import yaml

from fedannot.custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
    write_site_description,
)
from fedannot.transforms.errors import DataError

IMAGE = ImageDescription(channels=3, size=(64, 48), labels={0: 0, 85: 1, 170: 2}, classes=("lesion", "cyst"))
SLICES = SliceDescription(
    classes=("tumour",),
    labels={0: 0, 4: 1},
    orientation="SAR",
    spacing=(1, 0.5, 2),
    crop="foreground",
    intensity="window",
    window=(-1000, 400),
    slice_axis=0,
    size=(32, 40),
    datalist="lists/a.json",
)
VOLUME = VolumeDescription(classes=("a", "b"), labels={0: 0, 1: 1, 2: 2, -1: 0}, size=(16, 24, 32))
FOUR = VolumeDescription(labels={0: 0, 1: 1}, classes=("a",), channels=("T1", "T1c", "T2", "FLAIR"))
CLASSES = ClassificationDescription(channels=1, size=(8, 9), classes=("no", "yes", "1"))
TWO = "channels: 1\nsize: [8, 8]\nclasses: [a, b]\nlabels: {0: 0, 1: 1, 2: 2}\n"
FULL = "pipeline: volume_slices\nclasses: [a]\nlabels: {0: 0, 1: 1}\nsize: [8, 8]\n"


@pytest.mark.parametrize(
    "description",
    [IMAGE, SLICES, VOLUME, VOLUME.model_copy(update={"size": None}), CLASSES],
    ids=lambda description: description.pipeline,
)
def test_descriptions_read_back_as_written(tmp_path, description):
    write_site_description(tmp_path, description)
    result = read_site_description(tmp_path)
    assert result == description
    assert type(result) is type(description)


def test_a_description_without_pipeline_is_of_2d_images(tmp_path):
    (tmp_path / "data.yaml").write_text("channels: 3\nsize: [64, 48]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]\n")
    assert read_site_description(tmp_path) == ImageDescription(
        channels=3, size=(64, 48), labels={0: 0, 255: 1}, classes=("lesion",)
    )


@pytest.mark.parametrize(
    ("description", "spatial_dims", "channels"),
    [(IMAGE, 2, 3), (SLICES, 2, 1), (VOLUME, 3, 1), (CLASSES, 2, 1), (FOUR, 3, 4)],
)
def test_axes_and_channels_of_a_sample(description, spatial_dims, channels):
    assert (description.spatial_dims, description.in_channels) == (spatial_dims, channels)


def test_the_size_of_a_resampled_pixel_is_known_without_any_image():
    # Slices across the first axis of 1 × 0.5 × 2 mm.
    assert SLICES.resampled_pixel == 1.25
    assert VOLUME.model_copy(update={"spacing": (1, 2, 3)}).resampled_pixel == 2
    assert VOLUME.resampled_pixel is None
    assert SLICES.model_copy(update={"spacing": None}).resampled_pixel is None
    assert IMAGE.resampled_pixel is None


def test_a_grid_is_fixed_where_no_file_decides_it():
    stretched = SLICES.model_copy(update={"fit": "resize"})
    assert [of.has_fixed_grid for of in (IMAGE, SLICES, stretched, CLASSES)] == [True, True, False, False]
    resampled = VOLUME.model_copy(update={"spacing": (1, 1, 1)})
    assert [of.has_fixed_grid for of in (VOLUME, resampled)] == [False, True]
    assert not resampled.model_copy(update={"size": None}).has_fixed_grid


def test_what_a_site_does_not_annotate_is_read_by_name_or_number_and_written(tmp_path):
    first = "channels: 1\nsize: [8, 8]\nclasses: [a, b, c]\nlabels: {0: 0, 7: 1, 9: 3}\nignore: [255, 254]\n"
    for entries in ("[c, a]", "[1, c]", "[3, 1]"):
        (tmp_path / "data.yaml").write_text(f"{first}annotated_classes: {entries}")
        result = read_site_description(tmp_path)
        assert (result.annotated_labels, result.unannotated_classes) == ((1, 3), ("b",))
        assert result.labels_of_values == {0: 0, 7: 1, 9: 3, 255: 255, 254: 255}
        write_site_description(tmp_path, result)
        assert read_site_description(tmp_path) == result


def test_descriptions_of_complete_annotations_have_no_key_for_gaps(tmp_path):
    write_site_description(tmp_path, IMAGE)
    assert not {"ignore", "annotated_classes"} & set((tmp_path / "data.yaml").read_text().replace(":", "").split())
    assert IMAGE.unannotated_classes == ()
    assert IMAGE.labels_of_values == IMAGE.labels


def test_volumes_have_these_defaults(tmp_path):
    (tmp_path / "data.yaml").write_text("pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\n")
    result = read_site_description(tmp_path)
    assert result == VolumeDescription(
        classes=("a",),
        labels={0: 0, 1: 1},
        orientation="RAS",
        spacing=None,
        crop="centre",
        intensity="zscore",
        window=None,
        size=None,
        datalist="datalist.json",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            r"data\.yaml: found nothing; expected the keys pipeline, classes, datalist, labels, ignore",
        ),
        ("[1, 2]", r"data\.yaml: found \[1, 2\]; expected the keys pipeline"),
        ("channels: [1", r"data\.yaml: is not YAML"),
        ("a: 2001-99-99", r"data\.yaml: is not YAML"),
        ("a: !!python/object/apply:os.system [true]", r"data\.yaml: is not YAML"),
        ("[" * 600 + "]" * 600, r"data\.yaml: found values nested more than 64 deep"),
        ("1: 2", r"data\.yaml: "),
        ("chanels: 1", r"data\.yaml: unknown key 'chanels' = 1; did you mean 'channels'"),
        ("channels: 17", r"data\.yaml: key 'channels' is 17: expected a number from 1 to 16, or a list of names"),
        ("channels: true", r"data\.yaml: key 'channels' is True: expected a number from 1 to 16"),
        ("channels: [T1, T1]", r"data\.yaml: key 'channels' is \['T1', 'T1'\]: expected names that differ"),
        ("channels: []", r"data\.yaml: key 'channels' is \[\]: expected 1 to 16 names, or a number"),
        (FULL + "missing_channels: fill", r"data\.yaml: key 'missing_channels' is 'fill': .*'refuse' or 'zeros'"),
        (
            FULL + "channels: [CT, PET]\nintensity: window\nchannel_windows: [[0, 1]]",
            r"data\.yaml: key 'channel_windows' has 1 windows; expected one for each of 2 channels: CT, PET",
        ),
        ("channels: 1", r"data\.yaml: missing key 'size'"),
        (
            "pipeline: image3d",
            r"data\.yaml: key 'pipeline' is 'image3d'; allowed: image2d, volume_slices, volume, class",
        ),
        ("pipeline: [volume]", r"data\.yaml: key 'pipeline' is \['volume'\]; allowed: image2d"),
        ("pipeline:", r"data\.yaml: key 'pipeline' is None; allowed: image2d"),
        (
            "channels: 1\nsize: [8, 8]\nlabels: {255: 1}\nclasses: [lesion]",
            r"data\.yaml: .*'labels' leads to the classes \[1\], expected 0 .*\[0, 1\]",
        ),
        (
            "channels: 1\nsize: [8, 8]\nlabels: {0: 0, 1: 1, 2: 3}\nclasses: [a, b]",
            r"data\.yaml: .*'labels' leads to the classes \[0, 1, 3\], expected .*\['a', 'b'\]: \[0, 1, 2\]",
        ),
        ("channels: 1\nsize: [8, 8]\nlabels: {0: 0, x: 1}\nclasses: [a]", r"data\.yaml: key 'labels\.x.*valid integer"),
        ("channels: 1\nsize: [8, 8]\nlabels: {0: 0, 1: 300}\nclasses: [a]", r"key 'labels\.1' is 300: .*255"),
        ("channels: 1\nsize: [8, 8]\nlabels: {0: 0, 1: 1, 2: 2}\nclasses: [a, a]", r"data\.yaml: .*'classes' .*differ"),
        ("channels: 1\nsize: [0, 8]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]", r"key 'size\.0' is 0: .*greater than"),
        ("channels: 1\nsize: [8]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]", r"data\.yaml: missing key 'size\.1'"),
        (
            "channels: 1\nsize: [8, 8, 8]\nlabels: {0: 0, 1: 1}\nclasses: [a]",
            r"data\.yaml: key 'size' is \[8, 8, 8\]: .*2",
        ),
        (FULL + "chanels: 1", r"data\.yaml: unknown key 'chanels' = 1"),
        (FULL + "orientation: RAR", r"data\.yaml: key 'orientation' is 'RAR', expected one letter of R/L, A/P and S/I"),
        (FULL + "orientation: ras", r"data\.yaml: key 'orientation' is 'ras': .*pattern"),
        (FULL + "orientation: RASL", r"data\.yaml: key 'orientation' is 'RASL': .*pattern"),
        (FULL + "window: [0, 1]", r"data\.yaml: key 'window' goes with intensity: window"),
        (FULL + "intensity: window", r"data\.yaml: key 'window' goes with intensity: window"),
        (
            FULL + "intensity: window\nwindow: [400, -1000]",
            r"data\.yaml: key 'window' is \[400\.0, -1000\.0\], .*lower end",
        ),
        (FULL + "intensity: window\nwindow: [5, 5]", r"data\.yaml: key 'window' is \[5\.0, 5\.0\], .*lower end"),
        (FULL + "intensity: window\nwindow: [.nan, 5]", r"data\.yaml: key 'window\.0' is nan: .*finite"),
        (FULL + "intensity: window\nwindow: [-.inf, 5]", r"data\.yaml: key 'window\.0' is -inf: .*finite"),
        (FULL + "intensity: max", r"data\.yaml: key 'intensity' is 'max': .*'zscore' or 'window'"),
        (FULL + "crop: left", r"data\.yaml: key 'crop' is 'left': .*'centre' or 'foreground'"),
        (FULL + "spacing: [1, 0, 1]", r"data\.yaml: key 'spacing\.1' is 0: .*greater than 0"),
        (FULL + "spacing: [1, 1]", r"data\.yaml: missing key 'spacing\.2'"),
        (FULL + "slice_axis: 3", r"data\.yaml: key 'slice_axis' is 3: .*less than or equal to 2"),
        (FULL.replace("_slices", ""), r"data\.yaml: missing key 'size\.2'"),
        (
            FULL.replace("_slices", "").replace("8, 8", "8, 8, 8") + "slice_axis: 2",
            r"data\.yaml: unknown key 'slice_axis'",
        ),
        (TWO + "ignore: [255, 255]", r"data\.yaml: key 'ignore' is \[255, 255\], expected each value once"),
        (
            TWO + "ignore: [2]",
            r"data\.yaml: key 'ignore' has 2, which 'labels' leads to the class 2; expected a value in",
        ),
        (TWO + "ignore: [edge]", r"data\.yaml: key 'ignore\.0' is 'edge': .*valid integer"),
        (TWO + "annotated_classes: []", r"data\.yaml: key 'annotated_classes' is \[\]: .*at least 1"),
        (
            TWO + "annotated_classes: [c]",
            r"data\.yaml: key 'annotated_classes' has 'c', expected one of 'classes' \[.*, or its number from 1 to 2",
        ),
        (TWO + "annotated_classes: [true]", r"data\.yaml: key 'annotated_classes"),
        (TWO + "annotated_classes: [3]", r"data\.yaml: key 'annotated_classes' has 3, expected one of 'classes'"),
        (TWO + "annotated_classes: [b, 2]", r"data\.yaml: key 'annotated_classes' is \['b', 2\], expected each class"),
        (
            TWO + "annotated_classes: [a]",
            r"data\.yaml: key 'labels' leads to the classes \[0, 1, 2\], expected 0 \(background\) and one for each of "
            r"'annotated_classes' \['a'\]: \[0, 1\]",
        ),
        (
            "pipeline: classification\nchannels: 1\nsize: [8, 8]\nclasses: [a, b]\nignore: [255]",
            r"data\.yaml: unknown key 'ignore'",
        ),
        (
            "pipeline: classification\nchannels: 1\nsize: [8, 8]\nclasses: [a, b]\nannotated_classes: [a]",
            r"data\.yaml: unknown key 'annotated_classes'",
        ),
        (
            "pipeline: classification\nchannels: 1\nsize: [8, 8]\nclasses: [a]",
            r"data\.yaml: key 'classes' .*at least 2",
        ),
        (
            f"pipeline: classification\nchannels: 1\nsize: [8, 8]\nclasses: {[f'c{n}' for n in range(256)]}",
            r"data\.yaml: key 'classes' .*at most 255",
        ),
        (
            "pipeline: classification\nchannels: 1\nsize: [8, 8]\nclasses: [a, b]\nlabels: {0: 0}",
            r"data\.yaml: unknown key 'labels'",
        ),
    ],
)
def test_wrong_descriptions_name_file_key_found_and_allowed(tmp_path, text, message):
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_site_description(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "data.yaml"))


def test_a_missing_or_foreign_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.yaml: found no such file; expected one with the keys pipeline"):
        read_site_description(tmp_path)
    (tmp_path / "data.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"data\.yaml: is not YAML"):
        read_site_description(tmp_path)


def test_what_is_written_is_what_a_person_would_write(tmp_path):
    write_site_description(tmp_path, SLICES)
    values = yaml.safe_load((tmp_path / "data.yaml").read_text(encoding="utf-8"))
    assert values["labels"] == {0: 0, 4: 1}
    assert values["window"] == [-1000, 400]
    write_site_description(tmp_path, VOLUME)
    assert "window" not in (tmp_path / "data.yaml").read_text(encoding="utf-8")


def test_a_bomb_of_aliases_is_refused_before_it_is_built(tmp_path):
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 9)]
    (tmp_path / "data.yaml").write_text("\n".join(["l0: &l0 [x, x, x, x, x, x, x, x, x]", *levels]))
    with pytest.raises(DataError, match=r"data\.yaml: found the alias '\*l0' in line 2"):
        read_site_description(tmp_path)
