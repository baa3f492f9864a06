"""Segmentations of 3D Slicer lie where they are drawn, with one layer or several, cropped or whole."""

import nibabel
import numpy as np
import SimpleITK

from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist

SIZE = (7, 6, 5)
VOXELS = np.random.default_rng(0).integers(0, 200, SIZE).astype(np.uint8)
FIRST = np.zeros(SIZE, np.uint8)
FIRST[2:5, 1:4, 2:4], FIRST[5, 2, 3] = 1, 1
SECOND = np.zeros(SIZE, np.uint8)
SECOND[1, 4:6, 1:3] = 1
# Columns run to the right and front, so that the file's axes run against those of nibabel.
STEPS, ORIGIN = (-1.5, -1.5, 3.0), (30.0, 20.0, 10.0)


def write(file, values, segments=(), start=(0, 0, 0), *, is_ras=False):
    """An NRRD file by hand; values ``(I, J, K)``, or ``(L, I, J, K)`` of layers."""
    layers = values.ndim == 4
    # The same places, in a file whose space runs to the right and front.
    signs = (-1, -1, 1) if is_ras else (1, 1, 1)
    steps = [step * sign for step, sign in zip(STEPS, signs, strict=True)]
    origin = [
        (place + step * index) * sign for place, step, index, sign in zip(ORIGIN, STEPS, start, signs, strict=True)
    ]
    directions = " ".join(f"({','.join(str(steps[a] if a == b else 0) for b in range(3))})" for a in range(3))
    lines = [
        "NRRD0004",
        "type: uchar",
        f"dimension: {values.ndim}",
        f"space: {'right-anterior' if is_ras else 'left-posterior'}-superior",
        f"sizes: {' '.join(map(str, values.shape))}",
        f"space directions: {'none ' if layers else ''}{directions}",
        f"kinds: {'list ' if layers else ''}domain domain domain",
        "encoding: raw",
        f"space origin: ({','.join(map(str, origin))})",
    ]
    for number, (name, layer, value) in enumerate(segments):
        lines += [f"Segment{number}_{key}:={text}" for key, text in (("Name", name), ("Layer", layer))]
        lines += [f"Segment{number}_ID:=S{number}", f"Segment{number}_LabelValue:={value}"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("\n".join([*lines, "", ""]).encode() + values.astype(np.uint8).tobytes(order="F"))


def imported(tmp_path, label_map, classes=("a",)):
    dataset = read_folders(tmp_path / "images", tmp_path / "labels", label_suffix=".seg")
    options = ImportOptions(labels=label_map, classes=classes)
    report = write_imported_federation([dataset], tmp_path / "out", SiteChoice(1), options, test_share=0.0)
    cases = read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training")
    return report, {case.image.name.partition(".")[0]: case for case in cases}


def test_whole_and_cropped_segmentations_lie_on_their_images(tmp_path):
    for name in ("whole", "value3", "cropped", "outside", "ras"):
        write(tmp_path / "images" / f"{name}.nrrd", VOXELS, is_ras=name == "ras")
    labels = tmp_path / "labels"
    write(labels / "ras.seg.nrrd", FIRST, [("lesion", 0, 1)], is_ras=True)
    write(labels / "whole.seg.nrrd", FIRST, [("lesion", 0, 1)])
    write(labels / "value3.seg.nrrd", FIRST * 3, [("lesion", 0, 3)])
    write(labels / "cropped.seg.nrrd", FIRST[2:6, 1:4, 2:4], [("lesion", 0, 1)], start=(2, 1, 2))
    write(labels / "outside.seg.nrrd", FIRST[2:6, 1:4, 2:4], [("lesion", 0, 1)], start=(5, 1, 2))
    report, cases = imported(tmp_path, {1: 1, 3: 1})
    assert set(cases) == {"whole", "value3", "cropped", "ras"}
    assert "outside.seg.nrrd: found 7 of 19 annotated voxels outside of its image" in str(report.excluded[0])
    for name, case in cases.items():
        image, label = nibabel.load(case.image), nibabel.load(case.label)
        np.testing.assert_allclose(label.affine, image.affine)
        assert np.array_equal(np.asarray(label.dataobj) > 0, FIRST > 0), name
        # The independent reader of the given file, at a place in millimetres.
        given = SimpleITK.ReadImage(str(tmp_path / "labels" / f"{name}.seg.nrrd"))
        place = np.array(ORIGIN) + np.array(STEPS) * (5, 2, 3)
        written = SimpleITK.ReadImage(str(case.label))
        for read in (given, written):
            assert read[read.TransformPhysicalPointToIndex(place)] > 0


def test_layers_become_one_mask_where_segments_do_not_overlap(tmp_path):
    pairs = {
        "values": (np.stack([FIRST, SECOND * 2]), [("a", 0, 1), ("b", 1, 2)]),
        "numbers": (np.stack([FIRST, SECOND]), [("a", 0, 1), ("b", 1, 1)]),
        "overlap": (np.stack([FIRST, FIRST]), [("a", 0, 1), ("b", 1, 1)]),
        "unnamed": (np.stack([FIRST, SECOND]), [("a", 0, 1)]),
    }
    for name, (layers, segments) in pairs.items():
        write(tmp_path / "images" / f"{name}.nrrd", VOXELS)
        write(tmp_path / "labels" / f"{name}.seg.nrrd", layers, segments)
    report, cases = imported(tmp_path, {1: 1, 2: 2}, ("a", "b"))
    assert set(cases) == {"values", "numbers"}
    for case in cases.values():
        assert np.array_equal(nibabel.load(case.label).dataobj, FIRST + 2 * SECOND)
    text = " ".join(map(str, report.excluded))
    assert "overlap.seg.nrrd: found 19 voxels of the segment 'b' in other segments, too" in text
    assert "unnamed.seg.nrrd: found 4 voxels in 2 layers that belong to none of its 1 segments" in text


def test_segments_whose_value_or_layer_is_no_number_are_left_out_by_name(tmp_path):
    both = np.stack([FIRST, SECOND])
    for name, segments in {
        "good": [("a", 0, 1), ("b", 1, 1)],
        "layer": [("a", "x", 1), ("b", 1, 1)],
        "value": [("a", 0, "1.5"), ("b", 1, 1)],
        "below": [("a", 0, 1), ("b", -1, 1)],
    }.items():
        write(tmp_path / "images" / f"{name}.nrrd", VOXELS)
        write(tmp_path / "labels" / f"{name}.seg.nrrd", both, segments)
    report, cases = imported(tmp_path, {1: 1, 2: 1})
    assert set(cases) == {"good"}
    text = " ".join(map(str, report.excluded))
    assert "layer.seg.nrrd: found a segment whose value or layer is no number" in text
    assert "below.seg.nrrd: found 4 voxels in 2 layers that belong to none" in text


def test_segments_that_are_named_as_classes_are_these_whatever_their_values(tmp_path):
    """Annotators create segments in the order that they like."""
    files = {
        "first": (FIRST + 2 * SECOND, [("tumour", 0, 1), ("oedema", 0, 2)]),
        "second": (2 * FIRST + SECOND, [("Oedema ", 0, 1), ("TUMOUR", 0, 2)]),
        "layers": (np.stack([SECOND, FIRST]), [("oedema", 0, 1), ("tumour", 1, 1)]),
        "alone": (FIRST, [("oedema", 0, 2), ("tumour", 0, 1)]),
        "other": (2 * FIRST + 3 * SECOND, [("tumour", 0, 2), ("vessel", 0, 3)]),
        "unclear": (2 * FIRST + SECOND, [("vessel", 0, 1), ("tumour", 0, 2)]),
    }
    for name, (values, segments) in files.items():
        write(tmp_path / "images" / f"{name}.nrrd", VOXELS)
        write(tmp_path / "labels" / f"{name}.seg.nrrd", values, segments)
    report, cases = imported(tmp_path, {1: 1, 2: 2, 3: 0}, ("tumour", "oedema"))
    assert set(cases) == set(files) - {"unclear"}
    for name, case in cases.items():
        label = np.asarray(nibabel.load(case.label).dataobj)
        assert np.array_equal(label == 1, FIRST > 0), name
        assert np.array_equal(label == 2, (SECOND > 0) & (name not in ("alone", "other"))), name
    text = str(report.excluded[0])
    assert "unclear.seg.nrrd: found the segment 'tumour' with the value 2, which is not its class's" in text
    assert "the segment 'vessel' with the value 1 of a class" in text
    (note,) = (note for note in report.notes if note.startswith("Segments:"))
    assert note.startswith("Segments: in 3 of 5 cases (layers.seg.nrrd for one) segments have other values")


def test_segments_of_other_names_whose_values_differ_between_files_are_told(tmp_path):
    for name, segments in {"one": [("gtv", 0, 1), ("rim", 0, 2)], "two": [("rim", 0, 1), ("gtv", 0, 2)]}.items():
        write(tmp_path / "images" / f"{name}.nrrd", VOXELS)
        write(tmp_path / "labels" / f"{name}.seg.nrrd", FIRST + 2 * SECOND, segments)
    report, cases = imported(tmp_path, {1: 1, 2: 2}, ("tumour", "oedema"))
    assert all(np.array_equal(nibabel.load(case.label).dataobj, FIRST + 2 * SECOND) for case in cases.values())
    (note,) = (note for note in report.notes if note.startswith("Segments:"))
    assert "'gtv' has 1, 2. Values count, so that classes may be exchanged" in note
