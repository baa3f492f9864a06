"""What the data manager sees of a site's corrections, draws, reverts and writes."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.corrected_runs import corrections_of, made_corrections, stored, write_corrected_run
from support.several_annotators import random_masks, write_site
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.reports.correction_changes import count, in_words, read_changes
from fedannot.apps.reports.corrections import find_corrections
from fedannot.custom.corrections.export import PROVENANCE_FILE, export_corrections
from fedannot.custom.corrections.kinds import BoundaryShift, CasesRelabelled, LesionsAdded, MaskShift, PixelsReplaced
from fedannot.custom.corrections.model import CORRECTIONS_FILE, CaseCorrection, NewClass
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_site
from fedannot.transforms.move_contour import MoveContour

NAMES = [f"labels/lesion_{index:03d}.png" for index in range(1, 5)]
CORNER = np.zeros((1, 64, 64), bool)
CORNER[0, 1:5, 1:9] = True


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of four images in folder ``data`` that corrected something before rounds 3 and 5 of a run in ``run``."""
    folder = tmp_path_factory.mktemp("undone")
    data = folder / "data"
    write_phantom_site(data, 0, LesionImages(), num_sites=1, num_images=4)
    run = folder / "run"
    write_corrected_run(run, corrections_of(data, bias={1: 1.0}, round_number=3))
    corrections = corrections_of(data, bias={1: 2.14}, missed={1: 0.25}, ignored_objects={NAMES[2]: 1})
    write_corrected_run(run, corrections, {NAMES[2]: CORNER})
    return folder


def moved_pixels(data: Path, name: str, distance: float = -2.14) -> int:
    given = (np.asarray(Image.open(data / name)) > 0).astype(np.uint8)
    return int(np.count_nonzero(MoveContour(distance)(given) != given))


def invoke(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["corrections", *map(str, arguments)], env={"COLUMNS": "240"})
    assert result.exit_code == code, result.output
    return result.output


def rows(text: str) -> dict[str, list[str]]:
    """The lines of the table, by annotation."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip().startswith("labels/")}


def test_list_says_what_was_corrected_in_which_annotation(made: Path) -> None:
    text = invoke("list", made / "run")
    assert "site-1: 4 of 4 cases count otherwise than given" in text
    assert "contours of class 'lesion' moved by -2.1 px" in text
    assert "1 of 4 annotations: 1 object is ignored as missed objects" in text
    assert "before round 5, by model abababababababab" in text
    earlier = [line.strip() for line in text.splitlines() if "round 3" in line]
    assert earlier == ["earlier, no longer in use: before round 3 (contours of class 'lesion' moved by -1.0 px)"]
    assert rows(text) == {
        name: [str(moved_pixels(made / "data", name)), "1" if name == NAMES[2] else "0", "corrected"] for name in NAMES
    }


def test_volumes_move_by_millimetres(tmp_path: Path) -> None:
    write_phantom_site(tmp_path / "data", 0, LesionVolumes(), num_sites=1, num_images=1)
    write_corrected_run(tmp_path / "run", corrections_of(tmp_path / "data", bias={1: -1.5}))
    text = invoke("list", tmp_path / "run")
    assert "contours of class 'lesion' moved by +1.5 mm" in text
    assert "1 of 1 case counts otherwise than given" in text


def test_objects_of_another_class_are_counted_as_they_are_now(made: Path, tmp_path: Path) -> None:
    """Of two lesions of class 1 that were to become class 2 one has been made class 3 by hand."""
    data = shutil.copytree(made / "data", tmp_path / "data")
    labels = {0: 0, 255: 1, 128: 2, 64: 3}
    write_site_description(
        data, ImageDescription(channels=1, size=(64, 64), labels=labels, classes=("lesion", "cyst", "scar"))
    )
    corrections = corrections_of(data, bias={}, relabelled=0.5)
    cases = [case.model_copy(update={"relabelled_objects": int(case.label in NAMES[:2])}) for case in corrections.cases]
    given = {name: (np.asarray(Image.open(data / name)) > 0).astype(np.uint8)[None] for name in NAMES[:2]}
    pixels = {name: CasePixels(relabelled=OtherClasses(mask, 2 * mask)) for name, mask in given.items()}
    stored(tmp_path / "run", corrections.model_copy(update={"cases": tuple(cases)}), pixels)
    sizes = [str(int(given[name].sum())) for name in NAMES[:2]]
    result = rows(invoke("list", tmp_path / "run"))
    assert [result[name] for name in NAMES[:3]] == [
        [sizes[0], "1", "corrected"],
        [sizes[1], "1", "corrected"],
        ["0", "0", "unchanged"],
    ]
    Image.fromarray(64 * given[NAMES[1]][0]).save(data / NAMES[1])
    result = rows(invoke("list", tmp_path / "run"))
    assert result[NAMES[0]] == [sizes[0], "1", "corrected"]
    assert result[NAMES[1]][:2] == ["0", "0"]
    state = " ".join(result[NAMES[1]][2:])
    assert state == "unchanged: 1 object changed since objects were chosen: the given class counts"
    invoke("show", tmp_path / "run", "--out", tmp_path / "pictures")
    assert [file.name for file in (tmp_path / "pictures" / "site-1").iterdir()] == ["0001_lesion_001.png"]
    # A class that the site does not have any more is named, and nothing of the record is used.
    write_site_description(
        data, ImageDescription(channels=1, size=(64, 64), labels={0: 0, 255: 1}, classes=("lesion",))
    )
    text = " ".join(invoke("list", tmp_path / "run").split())
    assert "pixels are not counted" in text
    assert f"it has the value 2 for '{NAMES[0]}', where the largest is 1" in text
    assert "it has the value 2" in " ".join(
        invoke("write", tmp_path / "run", "--out", tmp_path / "out", code=1).split()
    )


def test_a_record_that_corrects_nothing_says_so(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    write_corrected_run(run, corrections_of(made / "data", bias={}, round_number=7))
    text = invoke("list", run)
    assert "0 of 4 cases count otherwise than given" in text
    assert "nothing is corrected any more" in text
    assert rows(text)[NAMES[0]] == ["unchanged"]


def test_where_the_data_are_gone_the_record_is_listed(made: Path, tmp_path: Path) -> None:
    corrections = corrections_of(made / "data").model_copy(update={"data": str(tmp_path / "gone")})
    write_corrected_run(tmp_path / "run", corrections)
    text = invoke("list", tmp_path / "run")
    assert "contours of class 1 moved by -2.0\n" in text
    assert "pixels are not counted: Site site-1: " in text
    assert rows(text)[NAMES[0]] == ["unknown"]


def test_a_case_that_cannot_be_read_or_has_another_size_does_not_hide_the_others(made: Path, tmp_path: Path) -> None:
    data = shutil.copytree(made / "data", tmp_path / "data")
    (data / NAMES[0]).write_bytes(b"no picture")
    corrections = corrections_of(data, missed={1: 0.25}, ignored_objects={NAMES[1]: 1})
    write_corrected_run(tmp_path / "run", corrections, {NAMES[1]: CORNER[:, :32]})
    result = rows(invoke("list", tmp_path / "run"))
    assert " ".join(result[NAMES[0]]) == "- 0 unknown: no usable training case any more"
    assert "corrected: another size than when objects were chosen: none is ignored or of another class" in " ".join(
        result[NAMES[1]]
    )
    assert result[NAMES[2]][2] == "corrected"
    files = tmp_path / "pictures" / "site-1"
    invoke("show", tmp_path / "run", "--out", files.parent)
    assert len(list(files.iterdir())) == 3
    output = invoke("show", tmp_path / "run", "--case", NAMES[0], "--out", files.parent, code=1)
    assert "is no usable training case" in " ".join(output.split())


def coloured(file: Path, red: int, green: int, blue: int, within: int = 12) -> int:
    """Pixels of a colour in a picture."""
    pixels = np.asarray(Image.open(file).convert("RGB")).astype(int)
    return int((np.abs(pixels - (red, green, blue)).max(axis=-1) <= within).sum())


CYAN, ORANGE, RED = (86, 180, 233), (230, 159, 0), (213, 94, 0)


def test_show_draws_what_changes_most_first(made: Path, tmp_path: Path) -> None:
    invoke("show", made / "run", "--out", tmp_path)
    changed = {name: moved_pixels(made / "data", name) for name in NAMES}
    changed[NAMES[2]] += int(CORNER.sum())
    ranked = [Path(name).stem for name in sorted(NAMES, key=lambda name: -changed[name])]
    files = sorted((tmp_path / "site-1").iterdir())
    assert [file.name for file in files] == [f"{rank:04d}_{name}.png" for rank, name in enumerate(ranked, start=1)]
    for file in files:
        assert coloured(file, *CYAN) > 200
        assert coloured(file, *ORANGE) > 100
    # Where nothing is ignored there is the legend alone.
    outlines = {file.stem.split("_", 1)[1]: coloured(file, *RED) for file in files}
    assert max(outlines, key=outlines.__getitem__) == "lesion_003"
    assert outlines["lesion_003"] > min(outlines.values()) + 50
    # A picture alone has the same name as among all.
    invoke("show", made / "run", "--case", "lesion_002.png", "--out", tmp_path / "one")
    (alone,) = (tmp_path / "one" / "site-1").iterdir()
    assert alone.name == next(file.name for file in files if "lesion_002" in file.name)


def test_without_moved_contours_none_are_drawn(made: Path, tmp_path: Path) -> None:
    corrections = corrections_of(made / "data", bias={}, missed={1: 0.25}, ignored_objects={NAMES[2]: 1})
    write_corrected_run(tmp_path / "run", corrections, {NAMES[2]: CORNER})
    invoke("show", tmp_path / "run", "--out", tmp_path)
    (file,) = (tmp_path / "site-1").iterdir()
    assert file.name == "0001_lesion_003.png"
    assert coloured(file, *ORANGE) == 0


def test_slices_that_change_most_are_drawn(tmp_path: Path) -> None:
    """Above and below for each of four slices: twice as high as a single one, and four times as wide as half of it."""
    write_phantom_site(tmp_path / "data", 0, LesionVolumes(), num_sites=1, num_images=1)
    write_corrected_run(tmp_path / "run", corrections_of(tmp_path / "data", bias={1: -2.0}))
    invoke("show", tmp_path / "run", "--out", tmp_path)
    with Image.open(tmp_path / "site-1" / "0001_volume_001.png") as picture:
        assert picture.size == (1280, 720)


def test_revert_and_restore_change_the_latest_record_alone(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    files = [file for file in [*run.rglob("*"), *(made / "data").rglob("*")] if file.is_file()]
    before = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    text = invoke("revert", run, "--case", "lesion_002.png", "--case", NAMES[3])
    assert "site-1: 2 cases count as they were given, 2 in corrected form, from the site's next" in text
    result = rows(invoke("list", run))
    assert [result[name][2] for name in NAMES] == ["corrected", "reverted", "corrected", "reverted"]
    changed = [file for file, digest in before.items() if hashlib.sha256(file.read_bytes()).hexdigest() != digest]
    assert [(file.parent.name, file.name) for file in changed] == [("round_5", CORRECTIONS_FILE)]
    assert "site-1: 1 cases count" in invoke("restore", run, "--case", "lesion_002.png")
    invoke("revert", run)
    assert "site-1: 0 cases count as they were given, 4 in" in invoke("restore", run)
    assert {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == before


def test_write_makes_a_folder_for_each_site(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    write_corrected_run(run, corrections_of(made / "data", site="site-2", bias={1: 1.0}))
    invoke("revert", run, "--site", "site-1", "--case", "lesion_001.png")
    text = invoke("write", run, "--out", tmp_path / "out")
    assert f"site-1: 3 new annotations in {tmp_path / 'out' / 'site-1'}, 1 count as given" in text
    assert f"site-2: 4 new annotations in {tmp_path / 'out' / 'site-2'}, 0 count as given" in text
    content = json.loads((tmp_path / "out" / "site-1" / PROVENANCE_FILE).read_text())
    assert content["moved"] == {"lesion": -2.14}
    ignored = [annotation["ignored"] for annotation in content["annotations"]]
    assert ignored == [[], [{"pixels": 32, "centre": [2.5, 4.5]}], []]
    given = (np.asarray(Image.open(made / "data" / NAMES[1])) > 0).astype(np.uint8)
    values = np.asarray(Image.open(tmp_path / "out" / "site-1" / "labels" / "0002_lesion_002.png"))
    np.testing.assert_array_equal(values, MoveContour(-2.14)(given) * 255)
    invoke("write", run, "--out", tmp_path / "one", "--site", "site-2")
    assert [folder.name for folder in (tmp_path / "one").iterdir()] == ["site-2"]
    assert "expected an empty or absent output folder" in invoke("write", run, "--out", tmp_path / "out", code=1)


def test_write_says_what_it_could_not_write_and_keeps_the_rest(made: Path, tmp_path: Path) -> None:
    data = shutil.copytree(made / "data", tmp_path / "data")
    (data / NAMES[0]).write_bytes(b"no picture")
    write_corrected_run(tmp_path / "run", corrections_of(data))
    output = " ".join(invoke("write", tmp_path / "run", "--out", tmp_path / "out", code=1).split())
    assert f"{NAMES[0]}: not written: Site site-1: {data / NAMES[0]}" in output
    assert "site-1: 3 new annotations" in output
    assert len(list((tmp_path / "out" / "site-1" / "labels").iterdir())) == 3


def test_nothing_is_written_where_a_site_s_data_are_gone(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    gone = corrections_of(made / "data", site="site-2").model_copy(update={"data": str(tmp_path / "gone")})
    write_corrected_run(run, gone)
    assert "Site site-2: " in invoke("write", run, "--out", tmp_path / "out", code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_records_of_several_runs_of_a_site_are_distinguished(made: Path, tmp_path: Path) -> None:
    """As in a site's workspace after two jobs."""
    workspace = shutil.copytree(made / "run", tmp_path / "workspace")
    later = write_corrected_run(workspace, corrections_of(made / "data", bias={1: 1.0}), job="job-2")
    assert invoke("list", workspace).count("site-1: 4 of 4") == 2
    for arguments in (["revert"], ["restore"], ["write", "--out", tmp_path / "out"]):
        output = " ".join(invoke(arguments[0], workspace, *arguments[1:], code=1).split())
        assert "found corrections of several runs of site-1; name the folder of one of them" in output
        assert str(later) in output
    assert "0 in corrected form" in invoke("revert", later)


def test_corrections_of_all_kinds_are_found_side_by_side(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    unchanged = CaseCorrection(label=NAMES[0], image="images/lesion_001.png")
    added = (LesionsAdded(threshold=0.8),)
    write_corrected_run(run, made_corrections(made / "data", [unchanged], site="site-2", corrections=added))
    new_class = NewClass(given="a", becomes="b", predicted="b", confidence=0.9)
    relabelled = CaseCorrection(image="images/lesion_002.png", new_class=new_class)
    doubted = (CasesRelabelled(noise_level=0.25),)
    write_corrected_run(run, made_corrections(made / "data", [relabelled], site="site-3", corrections=doubted))
    assert [item.site for item in find_corrections(run)] == ["site-1", "site-2", "site-3"]
    assert "say which with --site" in invoke("revert", run, code=1)
    text = invoke("list", run)
    assert "site-1: 4 of 4 cases count otherwise" in text
    assert "site-2: 0 of 1 case count otherwise" in text
    assert "site-3: 1 of 1 case counts otherwise" in text
    assert "25.0 % of the labels are wrong by the estimate" in text
    assert "images/lesion_002.png a b corrected" in " ".join(text.split())
    assert "site-3: 1 cases count as they were given" in invoke("revert", run, "--site", "site-3")
    listed = " ".join(invoke("list", run, "--site", "site-3").split())
    assert "images/lesion_002.png a as given reverted" in listed
    assert "draw them with: fedannot suspects" in " ".join(invoke("show", run, "--site", "site-3", code=1).split())


@pytest.mark.parametrize("command", ["show", "revert", "restore"])
def test_a_name_that_is_none_is_an_error_that_says_which_there_are(made: Path, command: str) -> None:
    output = " ".join(invoke(command, made / "run", "--case", "x.png", code=1).split())
    assert "found no corrected case 'x.png'; expected one of: labels/lesion_001.png" in output


def test_a_site_that_corrected_something_did_not_correct_nothing(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    for site in ("site-1", "site-2"):
        (run / site / "simulate_job" / f"app_{site}").mkdir(parents=True)
    assert "site-2 corrected none of its annotations" in " ".join(invoke("list", run, "--site", "site-2").split())
    assert "4 of 4 cases" in invoke("list", run)


def test_replaced_pixels_are_counted_in_words_and_in_pixels(made: Path, tmp_path: Path) -> None:
    """Of cases whose label a rule makes, too; these cannot be written."""
    kind = PixelsReplaced(rounds={1: 4}, foreground_threshold=0.8, background_threshold=0.9)
    decided = np.zeros((1, 1, 64, 64), np.uint8)
    decided[0, 0, 0, :3] = 2
    pixels = {NAMES[0]: CasePixels(replaced=decided)}
    stored(tmp_path / "run", corrections_of(made / "data", corrections=(kind,)), pixels)
    text = invoke("list", tmp_path / "run")
    assert "background becomes class 'lesion' with a probability above 0.8, and its pixels become background" in text
    assert (rows(text)[NAMES[0]], rows(text)[NAMES[1]]) == (["3", "corrected"], ["0", "unchanged"])
    assert "1 of 4 cases" in text

    write_site(tmp_path / "several")
    case = CaseCorrection(image="0.png")
    kind = kind.model_copy(update={"background_threshold": None})
    of_several = made_corrections(tmp_path / "several", [case], corrections=(kind,), consensus="majority")
    decided = np.full((1, 1, 16, 16), 2, np.uint8)
    record = stored(tmp_path / "several-run", of_several, {"0.png": CasePixels(replaced=decided)})
    (change,) = read_changes(record).cases()
    assert change.moved_pixels == 256 - int((random_masks(0).sum(axis=0) >= 2).sum())
    invoke("show", tmp_path / "several-run", "--out", tmp_path / "pictures")
    assert [file.name for file in (tmp_path / "pictures" / "site-1").iterdir()] == ["0001_0.png"]
    out = tmp_path / "written"
    out.mkdir()
    (failed,) = export_corrections(out, record).failed
    assert "0.png: found several annotations, of which the rule 'majority' makes a label" in failed[1]


def test_changes_are_counted_whether_a_case_is_reverted_or_not(made: Path, tmp_path: Path) -> None:
    run = shutil.copytree(made / "run", tmp_path / "run")
    invoke("revert", run)
    (site,) = find_corrections(run)
    result = read_changes(site).cases()
    assert [change.moved_pixels for change in result] == [moved_pixels(made / "data", name) for name in NAMES]
    assert [change.ignored_pixels for change in result] == [0, 0, 32, 0]


def test_words_are_for_people(made: Path) -> None:
    description = ImageDescription(channels=1, size=(4, 4), labels={0: 0, 1: 1, 2: 2}, classes=("a", "b"))
    corrections = corrections_of(made / "data", bias={2: -0.55, 1: 3.0}, missed={1: 0.5})
    assert in_words(corrections, description) == [
        "contours of class 'b' moved by +0.6 px",
        "contours of class 'a' moved by -3.0 px",
        "0 of 4 annotations: 0 objects are ignored as missed objects",
    ]
    assert in_words(corrections, None)[1] == "contours of class 1 moved by -3.0"
    shifted = corrections_of(made / "data", corrections=(MaskShift(shift=(2.0, -1.5)),))
    assert in_words(shifted, description) == ["all masks moved by −2.0 px along axis 1 and +1.5 px along axis 2"]
    assert in_words(shifted, None) == ["all masks moved by −2.0 along axis 1 and +1.5 along axis 2"]
    assert in_words(corrections.only(BoundaryShift), None) == in_words(corrections, None)[:2]
    assert [count(number, "object") for number in (0, 1, 2)] == ["0 objects", "1 object", "2 objects"]
