"""What a site has corrected: which record counts, replaced in one step, and what is damaged or was put there by
others.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.corrected_runs import made_corrections

from fedannot.custom.corrections import store as module
from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.kinds import BoundaryShift, PixelsReplaced
from fedannot.custom.corrections.model import (
    CORRECTIONS_FILE,
    CORRECTIONS_FOLDER,
    CaseCorrection,
    Corrections,
    CorrectionState,
)
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.corrections.store import CorrectionStore, StoredCorrections, read_corrections, record_folders
from fedannot.transforms.errors import DataError

LABELS = ("labels/a.png", "labels/b.png")
PIXELS = np.eye(4, dtype=bool)[None]


def record(number: int = 5, labels: tuple[str, ...] = LABELS, **changes: object) -> Corrections:
    cases = tuple(CaseCorrection(label=label, image=label.replace("label", "image")) for label in labels)
    return made_corrections("/data/site-1", changes.pop("cases", cases), round_number=number, **changes)


def write(run: Path, corrections: Corrections, pixels: dict[str, CasePixels] | None = None) -> None:
    CorrectionStore(run, corrections.round_number).write(corrections, pixels)


def pixels_of(folder: Path, num_classes: int) -> dict[str, CasePixels]:
    return StoredCorrections(folder, read_corrections(folder)).pixels(num_classes)


def folder_of(run: Path, number: int = 5) -> Path:
    return run / CORRECTIONS_FOLDER / f"round_{number}"


def round_found(run: Path, last_round: int) -> int | None:
    result = CorrectionStore(run, last_round).latest()
    if result is None:
        return None
    assert result.folder.name == f"round_{result.corrections.round_number}"
    return result.corrections.round_number


def test_the_latest_round_counts_as_a_number(tmp_path: Path) -> None:
    for number in (2, 10, 9):
        write(tmp_path, record(number))
    assert [folder.name for _, folder in record_folders(tmp_path)] == ["round_10", "round_9", "round_2"]
    assert [round_found(tmp_path, last) for last in (11, 10, 9, 8, 1)] == [10, 10, 9, 2, None]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    names = ("labels/a.png", "../b.png", "file", "annotations", "pixels_0", "c.npy", "d\udcff.png")
    ignored = {name: np.roll(PIXELS, shift, axis=2) for shift, name in enumerate(names)}
    pixels = {name: CasePixels(ignored=of) for name, of in ignored.items()}
    classes = OtherClasses(PIXELS.astype(np.uint8), 2 * PIXELS.astype(np.uint8))
    pixels |= {"file": CasePixels(ignored["file"], classes), "labels/z.png": CasePixels(relabelled=classes)}
    write(tmp_path, record(), pixels)
    result = pixels_of(folder_of(tmp_path), 2)
    assert list(result) == [*names, "labels/z.png"]
    assert all(np.array_equal(result[name].ignored, ignored[name]) for name in names)
    assert result["file"].ignored.dtype == np.bool_
    assert result["file"].relabelled.becomes.dtype == np.uint8
    assert [name for name in result if result[name].relabelled is not None] == ["file", "labels/z.png"]
    assert np.array_equal(np.stack(result["labels/z.png"].relabelled), np.stack(classes))
    assert result["labels/z.png"].ignored is None
    write(tmp_path, record(6))
    assert pixels_of(folder_of(tmp_path, 6), 2) == {}
    assert read_corrections(folder_of(tmp_path, 6)) == record(6)


def test_a_second_record_of_a_round_takes_the_place_of_the_first(tmp_path: Path) -> None:
    write(tmp_path, record(), {LABELS[0]: CasePixels(PIXELS)})
    write(tmp_path, record(bias={1: -1.0}), {LABELS[1]: CasePixels(~PIXELS)})
    stored = CorrectionStore(tmp_path, 5).latest()
    assert stored is not None
    folder, result = stored.folder, stored.corrections
    assert result.of(BoundaryShift) == BoundaryShift(bias={1: -1.0})
    assert np.array_equal(pixels_of(folder, 2)[LABELS[1]].ignored, ~PIXELS)
    assert sorted(file.name for file in folder.iterdir()) == [CORRECTIONS_FILE, result.ignored_file]


def test_until_the_second_record_is_there_the_first_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that is killed while it writes goes on with what it had."""
    write(tmp_path, record(), {LABELS[0]: CasePixels(PIXELS)})
    before = read_corrections(folder_of(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_record", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            write(tmp_path, record(bias={}), {LABELS[1]: CasePixels(~PIXELS)})
    assert read_corrections(folder_of(tmp_path)) == before
    assert np.array_equal(pixels_of(folder_of(tmp_path), 2)[LABELS[0]].ignored, PIXELS)
    write(tmp_path, record(bias={}))
    assert [file.name for file in (folder_of(tmp_path)).iterdir()] == [CORRECTIONS_FILE]


@pytest.mark.parametrize("text", ["", "{", '{"site": "site-1"}', '{"site": 1, "site": 2}'])
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path, record(4))
    write(tmp_path, record(5))
    file = folder_of(tmp_path) / CORRECTIONS_FILE
    file.write_text(text)
    with pytest.raises(DataError, match=r"round_5.corrections\.json"):
        CorrectionStore(tmp_path, 9).latest()
    # One that does not count yet is not even read.
    assert round_found(tmp_path, 4) == 4


@pytest.mark.parametrize(
    "name", ["round_007", "round_005", "round_٥", "round_-9", "round_+9", "round_9 ", "round_9.0", "round_", "Round_9"]
)
def test_folders_of_other_names_are_none_of_rounds(tmp_path: Path, name: str) -> None:
    write(tmp_path, record(5))
    shutil.copytree(folder_of(tmp_path), tmp_path / CORRECTIONS_FOLDER / name)
    assert record_folders(tmp_path) == [(5, folder_of(tmp_path))]
    assert round_found(tmp_path, 99) == 5


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, record(5))
    (folder_of(tmp_path, 6)).mkdir()
    (folder_of(tmp_path, 7)).write_text("a file")
    (folder_of(tmp_path, 8) / CORRECTIONS_FILE).mkdir(parents=True)
    (folder_of(tmp_path, 9)).symlink_to(tmp_path / "absent")
    assert round_found(tmp_path, 99) == 5


def test_a_record_in_the_folder_of_another_round_is_refused(tmp_path: Path) -> None:
    write(tmp_path, record(5))
    (folder_of(tmp_path)).rename(folder_of(tmp_path, 9))
    with pytest.raises(DataError, match=r"before round 5; expected them in a folder round_5"):
        CorrectionStore(tmp_path, 99).latest()


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _other(file: Path) -> None:
    np.savez_compressed(file, annotations=np.array(["labels/a.png"]), pixels_0=~PIXELS)


@pytest.mark.parametrize("damage", [_cut, _empty, _other, Path.unlink])
def test_ignored_pixels_that_cannot_be_read_are_named(tmp_path: Path, damage: object) -> None:
    write(tmp_path, record(), {LABELS[0]: CasePixels(PIXELS)})
    folder = folder_of(tmp_path)
    damage(folder / read_corrections(folder).ignored_file)
    with pytest.raises(DataError, match=r"ignored-[0-9a-f]{16}\.npz: cannot be read .*pixels that a site ignores"):
        pixels_of(folder, 2)


def forged(key: str, tmp_path: Path, **arrays: np.ndarray) -> Path:
    """A record whose pixels are these arrays, under the name that fits them."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return named(key, tmp_path, content.getvalue())


def named(key: str, tmp_path: Path, content: bytes) -> Path:
    write(tmp_path, record(corrections=(REPLACED,)))
    what, folder = key.removesuffix("_file"), folder_of(tmp_path)
    name = f"{what}-{hashlib.sha256(content).hexdigest()[:16]}.npz"
    (folder / name).write_bytes(content)
    file = folder / CORRECTIONS_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: name}))
    return folder


NAMES = np.array(["a.png"])
KINDS = {
    "ignored_file": PIXELS,
    "relabelled_file": np.stack(2 * [PIXELS.astype(np.uint8)]),
    "replaced_file": np.stack(2 * [PIXELS.astype(np.uint8)]),
}
REPLACED = PixelsReplaced(rounds={1: 5, 2: 5}, foreground_threshold=0.8, background_threshold=0.8)


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"pixels_0": np.zeros((1, 4, 4), bool)},
        {"annotations": NAMES},
        {"annotations": np.array("a.png")},
        {"annotations": np.array([1, 2])},
        {"annotations": np.array([None])},
        {"annotations": NAMES, "pixels_0": np.zeros((1, 4, 4))},
        {"annotations": NAMES, "pixels_0": np.zeros((1, 4, 4), np.int64)},
        {"annotations": NAMES, "pixels_0": np.array(True)},
        {"annotations": NAMES, "pixels_0": np.zeros((1,) * 6, np.uint8)},
        {"annotations": NAMES, "pixels_0": np.zeros((3, 1, 4, 4), np.uint8)},
        {"annotations": NAMES, "pixels_0": np.array([[["x"]]], dtype=object)},
    ],
    ids=range(12),
)
def test_arrays_of_another_kind_are_named_and_not_used(tmp_path: Path, key: str, wrong: dict[str, np.ndarray]) -> None:
    with pytest.raises(DataError, match=rf"{key.removesuffix('_file')}-[0-9a-f]{{16}}\.npz: cannot be read"):
        pixels_of(forged(key, tmp_path, **wrong), 2)
    # The same with what is expected.
    assert list(pixels_of(forged(key, tmp_path, annotations=NAMES, pixels_0=KINDS[key]), 2)) == ["a.png"]


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    ("names", "count"), [(["a.png"], 2), (["a.png", "b.png"], 1), (["a.png", "a.png"], 2), ([], 1)]
)
def test_every_annotation_has_its_one_array(tmp_path: Path, key: str, names: list[str], count: int) -> None:
    arrays = {f"pixels_{index}": KINDS[key] for index in range(count)}
    folder = forged(key, tmp_path, annotations=np.array(names, dtype="<U5"), **arrays)
    with pytest.raises(DataError, match=f"cannot be read .it has {count} arrays for {len(names)} annotations"):
        pixels_of(folder, 2)


@pytest.mark.parametrize("place", [0, 1], ids=["given", "becomes"])
@pytest.mark.parametrize("value", [3, 254, 255])
def test_classes_that_the_site_does_not_have_are_named(tmp_path: Path, place: int, value: int) -> None:
    """They would be beyond the network's classes, and 255 would say that pixels are ignored."""
    classes = KINDS["relabelled_file"].copy()
    classes[place, 0, 1, 1] = value
    folder = forged("relabelled_file", tmp_path, annotations=NAMES, pixels_0=classes)
    text = rf"it has the value {value} for 'a\.png', where the largest is 2"
    with pytest.raises(DataError, match=rf"relabelled-[0-9a-f]{{16}}\.npz: cannot be read .{text}"):
        pixels_of(folder, 2)
    assert pixels_of(folder, value)["a.png"].relabelled[place][0, 1, 1] == value


def test_replaced_pixels_are_of_the_classes_of_the_record(tmp_path: Path) -> None:
    """Decisions are background or the class, and there are as many as classes."""
    for wrong in (np.full((2, 1, 4, 4), 3, np.uint8), np.zeros((1, 1, 4, 4), np.uint8)):
        folder = forged("replaced_file", tmp_path, annotations=NAMES, pixels_0=wrong)
        with pytest.raises(DataError, match=r"replaced-[0-9a-f]{16}\.npz: cannot be read .*replaces by predictions"):
            pixels_of(folder, 9)
    pixels = pixels_of(forged("replaced_file", tmp_path, annotations=NAMES, pixels_0=KINDS["replaced_file"]), 9)[
        "a.png"
    ]
    assert pixels.replaced is not None
    assert pixels.of_sample(0).replaced.tolist() == KINDS["replaced_file"][:, 0].tolist()


def test_truth_values_are_zero_and_one(tmp_path: Path) -> None:
    """Any byte can stand in a file, and 2 & 1 is false."""
    pixels = (2 * PIXELS.astype(np.uint8)).view(bool)
    folder = forged("ignored_file", tmp_path, annotations=NAMES, pixels_0=pixels)
    with pytest.raises(DataError, match=r"ignored-[0-9a-f]{16}\.npz: cannot be read .it has the value 2 for 'a\.png'"):
        pixels_of(folder, 2)


@pytest.mark.parametrize("key", KINDS)
def test_names_without_letters_are_not_counted_one_by_one(tmp_path: Path, key: str) -> None:
    """They take no bytes, however many there are."""
    header = "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(118).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("annotations.npy", b"\x93NUMPY\x01\x00" + bytes([118, 0]) + header)
        archive.writestr("pixels_0.npy", npy(KINDS[key]))
    with pytest.raises(DataError, match="cannot be read"):
        pixels_of(named(key, tmp_path, content.getvalue()), 2)


@pytest.mark.parametrize("key", KINDS)
def test_what_is_no_file_is_not_opened(tmp_path: Path, key: str) -> None:
    """Opening a pipe would wait for ever."""
    folder = forged(key, tmp_path, annotations=NAMES, pixels_0=KINDS[key])
    (file,) = folder.glob("*.npz")
    for make in (os.mkfifo, os.mkdir):
        file.unlink()
        make(file)
        with pytest.raises(DataError, match="cannot be read"):
            pixels_of(folder, 2)


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    "header", ["{'descr': '|b1', 'fortran_order': False, 'shape': (9999999, 9999, 9999)}", "{", "0"]
)
def test_an_array_that_claims_more_than_there_is_is_named(tmp_path: Path, key: str, header: str) -> None:
    content, length = io.BytesIO(), 128 - 10
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("annotations.npy", npy(NAMES))
        archive.writestr("pixels_0.npy", b"\x93NUMPY\x01\x00" + bytes([length, 0]) + header.ljust(length).encode())
    with pytest.raises(DataError, match="cannot be read"):
        pixels_of(named(key, tmp_path, content.getvalue()), 2)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("key", ["ignored_file", "relabelled_file"])
def test_every_damaged_byte_is_found_or_tolerated(tmp_path: Path, key: str) -> None:
    """Whoever can write the file can name it by its hash, too: nothing but a DataError may come of it."""
    whole = io.BytesIO()
    np.savez(whole, annotations=NAMES, pixels_0=KINDS[key])
    generator = np.random.default_rng(100)
    for _ in range(300):
        damaged = bytearray(whole.getvalue())
        for place in generator.integers(0, len(damaged), 3):
            damaged[place] = generator.integers(0, 256)
        with contextlib.suppress(DataError):
            pixels_of(named(key, tmp_path, bytes(damaged)), 2)


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize("name", ["../../secret.npz", "ignored.npz", "/etc/passwd"])
def test_a_record_names_no_file_elsewhere(tmp_path: Path, name: str, key: str) -> None:
    write(tmp_path, record())
    file = folder_of(tmp_path) / CORRECTIONS_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: name}))
    with pytest.raises(DataError, match=key):
        pixels_of(folder_of(tmp_path), 2)


def test_a_record_says_how_contours_move_and_whether_anything_changes() -> None:
    shift = record(bias={1: 2.0, 3: -0.5}).of(BoundaryShift)
    assert shift is not None
    assert shift.moves == {1: -2.0, 3: 0.5}
    reverted = tuple(CaseCorrection(label=label, image="i", state=CorrectionState.REVERTED) for label in LABELS)
    assert record(cases=reverted).reverted == set(LABELS)
    changes = [
        record(**values).changes_labels
        for values in (
            {},
            {"bias": {}},
            {"bias": {}, "missed": {1: 0.5}},
            {"cases": reverted},
            {"cases": (reverted[0], record().cases[1])},
        )
    ]
    assert changes == [True, False, True, False, True]


def test_a_revert_and_its_taking_back_change_the_record_alone(tmp_path: Path) -> None:
    write(tmp_path, record(), {LABELS[0]: CasePixels(PIXELS)})
    folder = folder_of(tmp_path)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert revert(folder, ["b.png"]).reverted == {LABELS[1]}
    assert read_corrections(folder).reverted == {LABELS[1]}
    assert revert(folder).reverted == set(LABELS)
    assert restore(folder, list(LABELS[:1])).reverted == {LABELS[1]}
    assert restore(folder).reverted == set()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_name_is_that_of_exactly_one_annotation(tmp_path: Path) -> None:
    write(tmp_path, record(labels=("a.png", "x/a.png", "x/b.png", "y/b.png")))
    folder = folder_of(tmp_path)
    assert revert(folder, ["a.png"]).reverted == {"a.png"}
    with pytest.raises(DataError, match=r"found 2 corrected cases 'b.png'; expected one of: a.png, x/a.png, x/b"):
        revert(folder, ["x/a.png", "b.png"])
    with pytest.raises(DataError, match=r"found no corrected case 'c.png'"):
        revert(folder, ["c.png"])
    # None of the named ones is changed where one is wrong.
    assert read_corrections(folder).reverted == {"a.png"}
    with pytest.raises(DataError, match=r"round_6.corrections\.json: found no such file"):
        revert(folder_of(tmp_path, 6))
