"""What masks hold as they are published, and the option that each message names: it has to do what it says."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.commands.data_options import parse_colour_map, parse_label_map
from fedannot.apps.importing.label_values import as_option
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError


def save(file, pixels):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file)
    return file


@pytest.fixture
def dataset(tmp_path):
    """A data set of pictures with these masks."""

    def make(*masks, names=None):
        cases = []
        for index, mask in enumerate(masks):
            name = f"{index}.png" if names is None else names[index]
            image = np.random.default_rng(index).integers(0, 255, np.shape(mask)[:2])
            label = mask if not isinstance(mask, np.ndarray) else save(tmp_path / "masks" / name, mask)
            cases.append(SourceCase(save(tmp_path / "images" / f"{index}.png", image), label))
        return SourceDataset("any", "segmentation", volumes=False, cases=tuple(cases))

    return make


def import_to(out, dataset, label_map=None, **options):
    if label_map is not None:
        options["labels"] = parse_label_map(label_map)
    return write_imported_federation([dataset], out, SiteChoice(1), ImportOptions(**options), test_share=0.0)


def option_in(message):
    """The value of --label-map that a message names."""
    (result,) = re.findall(r"--label-map (\S+?)[.,;]*(?:\s|$)", message)
    return result


def square(value, *, rows=slice(2, 5), columns=slice(2, 6), size=(8, 10)):
    mask = np.zeros(size, np.uint8)
    mask[rows, columns] = value
    return mask


def lossy(mask):
    """A mask as JPEG leaves it."""
    stream = io.BytesIO()
    Image.fromarray(np.kron(mask, np.ones((5, 5), np.uint8))).save(stream, "JPEG", quality=60)
    return np.asarray(Image.open(stream))


def test_lossy_masks_are_reported_with_the_fraction_of_grey_pixels_and_the_limit_that_parts_them(dataset, tmp_path):
    masks = [lossy(square(255)), lossy(square(255, rows=slice(1, 7))), np.kron(square(255), np.ones((5, 5), np.uint8))]
    grey = [float(np.mean((mask != 0) & (mask != 255))) for mask in masks]
    assert grey[2] == 0 < min(grey[:2])
    with pytest.raises(DataError, match=r"Found masks in grey values from 0 to 255: .* in 2 of 3 masks \(most in") as e:
        import_to(tmp_path / "out", dataset(*masks))
    assert f"{np.mean(grey):.2%} of the pixels" in str(e.value)
    assert option_in(str(e.value)) == "128-255:1"
    report = import_to(tmp_path / "out", dataset(*masks), option_in(str(e.value)))
    assert report.excluded == ()
    assert report.notes == (
        f"Grey values: {np.mean(grey):.2%} of the pixels, in 2 of 3 masks (most in {int(np.argmax(grey))}.png: "
        f"{max(grey):.2%}), have other values than 0, 255.",
    )
    description = read_site_description(tmp_path / "out" / "site-1")
    assert description.labels == {value: int(value >= 128) for value in range(256)}
    data = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1")
    assert data.excluded == ()
    assert len(data.cases) == 3


@pytest.mark.parametrize("accept", ["background", "lesion"])
def test_one_stray_value_is_named_with_the_option_that_accepts_it(dataset, tmp_path, accept):
    stray = square(255)
    stray[0, :3] = 254
    masks = [square(255, rows=slice(1, 2 + index)) for index in range(10)] + [stray]
    with pytest.raises(DataError, match=r"a stray label value besides 0 and 255: 254 in 3 pixels of \S+10\.png\.") as e:
        import_to(tmp_path / "out", dataset(*masks))
    option = option_in(str(e.value))
    assert option == "255:1,254:0"
    if accept == "lesion":
        assert "or as lesion with 254:1 there" in str(e.value)
        option = option.replace("254:0", "254:1")
    report = import_to(tmp_path / "out", dataset(*masks), option)
    assert (report.excluded, report.labels[254]) == ((), int(accept == "lesion"))


def test_a_value_beside_a_map_is_named_with_the_whole_option(dataset, tmp_path):
    other = square(3)
    other[0, 0] = 7
    said = {"labels": parse_label_map("3:1,5:2"), "classes": ("a", "b")}
    report = import_to(tmp_path / "out", dataset(square(3), square(5), other), **said)
    (reason,) = map(str, report.excluded)
    assert "2.png: found the label values 7 (1 of 80 pixels) besides those of the label map (3:1,5:2)." in reason
    option = option_in(reason)
    assert option == "3:1,5:2,7:0"
    said["labels"] = parse_label_map(option)
    assert import_to(tmp_path / "again", dataset(square(3), square(5), other), **said).excluded == ()


def test_no_message_points_to_a_file_that_is_not_there_yet(dataset, tmp_path):
    texts = []
    for masks, options in (
        ((square(255), square(9)), {"label_map": "255:1"}),
        ((square(255), square(9)), {}),
        ((lossy(square(255)), lossy(square(200))), {}),
        ((square(1), square(255)), {}),
        ((np.dstack([square(255)] * 2 + [square(0)]),), {}),
    ):
        try:
            report = import_to(tmp_path / f"out{len(texts)}", dataset(*masks), **options)
            texts += map(str, report.excluded)
        except DataError as error:
            texts.append(str(error))
    assert len(texts) == 5
    for text in texts:
        assert "--label-map" in text
        assert "data.yaml" not in text
        for file in re.findall(r"/\S+?\.\w+", text):
            assert not file.startswith(str(tmp_path / "out"))


def test_values_of_clean_masks_alone_are_reported_too(dataset, tmp_path):
    made = dataset(square(0), square(0))
    clean = save(tmp_path / "clean.png", square(7))
    cases = (made.cases[0], replace(made.cases[1], clean_label=clean))
    with pytest.raises(DataError, match=r"1\.png: found the label values 0, 7, .* --label-map 7:1"):
        import_to(tmp_path / "out", replace(made, cases=cases))


def test_numbers_of_objects_become_one_class(dataset, tmp_path):
    masks = [square(1) + square(2, rows=slice(6, 8)), square(1) + square(300 % 256, rows=slice(0, 1))]
    with pytest.raises(DataError, match=r"found the label values 0, 1, 2"):
        import_to(tmp_path / "out", dataset(masks[0], square(1) + square(2, rows=slice(6, 7))))
    report = import_to(tmp_path / "out", dataset(*masks), numbered=True)
    assert (report.excluded, report.notes) == ((), ())
    assert "  1-65535: 1\n" in (tmp_path / "out" / "site-1" / "data.yaml").read_text(encoding="utf-8")
    data = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1")
    assert sorted(data.labels.unique().tolist()) == [0, 1]


def test_masks_in_colours_by_a_table(dataset, tmp_path):
    coloured = np.zeros((8, 10, 3), np.uint8)
    coloured[1:3], coloured[5:8, :4] = (255, 0, 0), (0, 128, 255)
    other = coloured.copy()
    other[0, 0] = (1, 2, 3)
    with pytest.raises(
        DataError, match=r'colours #0080ff \(15\.00% .*, #ff0000 \(25.* --label-map "#0080ff:1,#ff0000:2" --classes "l'
    ):
        import_to(tmp_path / "out", dataset(coloured, other))
    colours = parse_colour_map("#ff0000:1, #0080FF:2")
    report = import_to(tmp_path / "out", dataset(coloured, other), colours=colours, classes=("red", "blue"))
    (reason,) = map(str, report.excluded)
    assert "1.png: found the colours #010203 (1.25% of the pixels); expected only #000000, #ff0000, #0080ff" in reason
    assert '"#010203:0" for background' in reason
    site = tmp_path / "out" / "site-1"
    assert read_site_description(site).labels == {0: 0, 1: 1, 2: 2}
    data = load_site_data(site, tmp_path / "cache", site="site-1")
    expected = np.zeros((8, 10), np.uint8)
    expected[1:3], expected[5:8, :4] = 1, 2
    written = np.asarray(Image.open(next((site / "labels").iterdir())))
    np.testing.assert_array_equal(written, expected)
    assert data.labels.unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("255:1", {255: 1}),
        ("85:1, 170:2", {85: 1, 170: 2}),
        ("3-5:1", {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1}),
        # Above the lowest range nothing is taken for granted.
        ("2-3:1,6-7:2", {0: 0, 1: 0, 2: 1, 3: 1, 6: 2, 7: 2}),
        ("1:2,3-4:1", {0: 0, 1: 2, 2: 0, 3: 1, 4: 1}),
        ("0-2:1,9:0", {0: 1, 1: 1, 2: 1, 9: 0}),
    ],
)
def test_label_maps_with_ranges(text, expected):
    assert parse_label_map(text) == expected


@pytest.mark.parametrize("text", ["5-3:1", "1-2", "#ff0000:1", "1-:1"])
def test_other_label_maps_are_refused(text):
    with pytest.raises(DataError, match="expected VALUE:CLASS"):
        parse_label_map(text)
    with pytest.raises(DataError, match="found the value 4 twice"):
        parse_label_map("1-5:1,4:0")


@pytest.mark.parametrize("text", ["#ff000:1", "red:1", "ff0000:1", "#gg0000:2"])
def test_colours_are_written_in_one_way(text):
    with pytest.raises(DataError, match="expected #RRGGBB:CLASS"):
        parse_colour_map(text)
    assert parse_colour_map("#0000ff:1,#000100:2") == {255: 1, 256: 2}


def test_a_map_is_written_as_its_option():
    for option in ("255:1", "85:1,170:2", "0-127:0,128-255:1", "255:1,254:0"):
        assert as_option({0: 0} | parse_label_map(option) if "-" not in option else parse_label_map(option)) == option


def test_ignored_values_are_asked_for_and_stand_in_data_yaml(dataset, tmp_path):
    """Masks of two values explain themselves also beside ignored pixels; these are no foreground of any note."""
    masks = [square(1), np.maximum(square(1), square(255, columns=slice(7, 10))), np.full((8, 10), 255)]
    report = import_to(tmp_path / "out", dataset(*masks), ignore=[255])
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.labels, description.ignore) == ({0: 0, 1: 1}, (255,))
    data = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1")
    assert len(data.cases) == 3
    assert any(note.startswith("Ignored pixels: 37.08% of the pixels, in 2 of 3 masks") for note in report.notes)
    assert not any("Foreground everywhere" in note or "Grey" in note for note in report.notes)


def test_a_value_without_a_class_names_the_option_for_ignored_pixels(dataset, tmp_path):
    with pytest.raises(DataError, match=r"found the label values 9 .*If such pixels count nowhere: --ignore 9\. To"):
        import_to(tmp_path / "out", dataset(square(9)), label_map="1:1")


def test_ignored_values_of_images_with_classes_are_refused(tmp_path):
    file = save(tmp_path / "a.png", square(9))
    dataset = SourceDataset("any", "classification", False, (SourceCase(file, 0), SourceCase(file, 1)), ("a", "b"))
    with pytest.raises(DataError, match="--ignore: says what values in masks mean, but any has no masks"):
        import_to(tmp_path / "out", dataset, ignore=[255])
