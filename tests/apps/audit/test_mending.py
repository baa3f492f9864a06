"""Masks that are drawn in the page of a review: on the disk they are what the page showed, or they are not stored."""

import json
import os
import stat
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image
from scipy import ndimage
from support.audits import audited_images
from support.served_reviews import serving
from test_review import ask, posted, stored

from fedannot.apps.audit import mending
from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.mask_planes import MaskPlanes, plane_of_runs, runs_of
from fedannot.apps.audit.review_requests import MAX_MASK_BYTES
from fedannot.custom.audit.decisions import Decisions, read_decisions
from fedannot.custom.audit.drawn_masks import DRAWN_FOLDER, read_drawn
from fedannot.custom.data.masks import Mask, read_classes
from fedannot.transforms.errors import DataError


def get(server, path):
    status, _, content = ask(server, path)
    assert status == 200, content
    return json.loads(content)


def post(server, path, body, **headers):
    status, _, content = ask(server, path, "POST", json.dumps(body).encode(), **headers)
    return status, json.loads(content)


def planes_of(content):
    shape = (content["height"], content["width"])
    return np.stack([plane_of_runs(runs, shape, range(256), "plane") for runs in content["planes"]])


def mask_body(server, planes, case=0, **changes):
    """A mask as the page posts it: the planes by number; all else as it was shown."""
    content = get(server, f"/annotation/{case}")
    values = {"case": case, "finding": server.cases[case].findings[0].id, "shown": content["shown"]}
    values |= {name: content[name] for name in ("count", "height", "width")}
    values |= {"planes": {str(number): runs_of(plane) for number, plane in planes.items()}, "tools": ["brush"]}
    return values | changes


def drawn_plane(server, case=0, number=None):
    """A plane with a further square, and its number."""
    planes = planes_of(get(server, f"/annotation/{case}"))
    number = len(planes) // 2 if number is None else number
    planes[number, 2:5, 3:9] = 1
    return number, planes[number]


def store(server, case=0):
    number, plane = drawn_plane(server, case)
    status, answer = post(server, "/mask", mask_body(server, {number: plane}, case))
    assert status == 200, answer
    return answer["mask"]


def edit(server, case=0, **changes):
    return {"choice": "edit", "mask": store(server, case)} | changes


def decide(server, case=0, **changes):
    return post(server, "/decisions", json.loads(posted(server, case)) | changes)


def drawn_folders(server):
    folder = server.reader.folder / DRAWN_FOLDER
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def server(audit_of):
    with serving(audit_of("images")) as running:
        yield running


@pytest.mark.parametrize("kind", ["images", "slices", "volumes"])
def test_a_mask_on_the_disk_is_what_the_page_showed_for_every_reader(audit_of, kind):
    result = audit_of(kind)
    with serving(result) as server:
        content = get(server, "/annotation/0")
        shown = planes_of(content)
        number, shown[number] = drawn_plane(server)
        given = server.reader.files(server.cases[0]).label
        before = given.read_bytes()
        mask = store(server)
        status, answer = decide(server, choice="edit", mask=mask)
        assert status == 200, answer
        assert given.read_bytes() == before
        record = read_drawn(result.folder, mask)
        file = result.folder / DRAWN_FOLDER / mask / record.file
        assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
        assert (record.reviewer, record.tools, record.given_sha256) == ("Dr Ada", ("brush",), content["shown"])
        again = get(server, "/annotation/0")["drawn"]
        assert again["id"] == mask
        np.testing.assert_array_equal(
            plane_of_runs(again["planes"][str(number)], shown.shape[1:], (0, 1), ""), shown[number]
        )
    reader = CaseReader(result)
    applied = apply_decisions(reader, read_decisions(result.folder, result.site), result.folder / "new")
    (case,) = applied.record.cases
    assert (case.review.origin, case.review.is_reviewed, case.review.changed) == ("edited", True, record.changed)
    assert case.review.decisions[0].drawn_mask == mask
    for written in (file, result.folder / "new" / case.mask.file):
        check_file(written, given, shown, kind)


def check_file(written, given, shown, kind):
    """Whether a file holds the shown planes, by PIL, or by nibabel and SimpleITK."""
    if kind == "images":
        np.testing.assert_array_equal(np.asarray(Image.open(written)) != 0, shown[0] != 0)
        assert set(np.unique(np.asarray(Image.open(written)))) == {0, 255}
        return
    image, like = nibabel.load(written), nibabel.load(given)
    assert image.header["pixdim"].tolist() == like.header["pixdim"].tolist()
    np.testing.assert_array_equal(image.affine, like.affine)
    ours, theirs = SimpleITK.ReadImage(str(written)), SimpleITK.ReadImage(str(given))
    for name in ("GetOrigin", "GetSpacing", "GetDirection", "GetSize"):
        assert getattr(ours, name)() == getattr(theirs, name)()
    assert shown.sum() == np.count_nonzero(image.dataobj) == np.count_nonzero(SimpleITK.GetArrayFromImage(ours))
    # The phantom's axes run to the right, the front and the top; a page shows the right on its left, the front on top.
    np.testing.assert_array_equal(np.asarray(image.dataobj)[::-1, ::-1].T, shown)


@pytest.mark.parametrize("axes", ["RAS", "LPS", "PIR", "SAL", "IPR"])
def test_planes_lie_where_simpleitk_says_that_they_do(tmp_path, made_audits, axes):
    """To the right on a plane is to the patient's left, down is to the back, and further planes lie higher."""
    from nibabel.orientations import axcodes2ornt, inv_ornt_aff, io_orientation, ornt_transform

    base = np.diag([2.0, 3.0, 5.0, 1.0])
    shape = (4, 5, 6)
    turn = ornt_transform(io_orientation(base), axcodes2ornt(axes))
    affine = base @ inv_ornt_aff(turn, shape)
    shape = tuple(shape[int(axis)] for axis in np.argsort(turn[:, 0]))
    file = tmp_path / "mask.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.zeros(shape, np.uint8), affine), file)
    description = CaseReader(made_audits["volumes"]).description
    planes = MaskPlanes.of(file, read_classes(file, description), description)
    assert planes.shape == (6, 5, 4)
    assert planes.spacing == (3.0, 2.0, 5.0)
    image, numbers = SimpleITK.ReadImage(str(file)), np.arange(120).reshape(planes.shape)
    in_file = planes.to_file(numbers)
    np.testing.assert_array_equal(planes.of_file(in_file), numbers)

    def point(*place):
        index = np.argwhere(in_file == numbers[place])[0].tolist()
        return np.array(image.TransformIndexToPhysicalPoint(index))

    origin = point(0, 0, 0)
    np.testing.assert_allclose(point(0, 0, 1) - origin, (2, 0, 0))
    np.testing.assert_allclose(point(0, 1, 0) - origin, (0, 3, 0))
    np.testing.assert_allclose(point(1, 0, 0) - origin, (0, 0, 5))


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """One review for all that is refused, since nothing of it is stored."""
    with serving(audited_images(tmp_path_factory.mktemp("refusing"), 1)) as running:
        yield running


SIZE = 64 * 64


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"count": 2}, 409),
        ({"height": 63}, 409),
        ({"width": 65}, 409),
        ({"height": "64"}, 400),
        ({"planes": {"0": [2, SIZE]}}, 409),
        ({"planes": {"0": [255, SIZE]}}, 409),
        ({"planes": {"0": [-1, SIZE]}}, 409),
        ({"planes": {"0": [1, SIZE - 1]}}, 409),
        ({"planes": {"0": [1, SIZE, 0, 1]}}, 409),
        ({"planes": {"0": [1, SIZE + 1, 0, -1]}}, 409),
        ({"planes": {"0": [1, 0, 0, SIZE]}}, 409),
        ({"planes": {"0": [1, 2**63 - 1, 0, 2**63 - 1, 0, SIZE + 2]}}, 409),
        ({"planes": {"0": [1, 10**30]}}, 409),
        ({"planes": {"0": [1]}}, 409),
        ({"planes": {"0": []}}, 409),
        ({"planes": {"0": [1.0, SIZE]}}, 400),
        ({"planes": {"0": ["1", SIZE]}}, 400),
        ({"planes": {"0": [True, SIZE]}}, 400),
        ({"planes": {"1": [1, SIZE]}}, 409),
        ({"planes": {"00": [1, SIZE]}}, 400),
        ({"planes": {"-1": [1, SIZE]}}, 400),
        ({"planes": {"../../x": [1, SIZE]}}, 400),
        ({"planes": {}}, 409),
        ({"finding": "../../etc/passwd"}, 409),
        ({"shown": "ab"}, 409),
        ({"shown": "ä"}, 409),
        ({"case": 99}, 409),
        ({"tools": ["/bin/sh"]}, 400),
        ({"file": "mask.png"}, 400),
        ({"reviewer": "somebody else"}, 400),
    ],
)
def test_what_is_no_mask_of_the_case_is_refused_and_nothing_is_stored(refusing, changes, status):
    _, plane = drawn_plane(refusing)
    answered, answer = post(refusing, "/mask", mask_body(refusing, {0: plane}) | changes)
    assert answered == status, answer
    assert drawn_folders(refusing) == []


def test_another_origin_and_whoever_has_no_token_store_and_move_nothing(server):
    body = mask_body(server, {0: drawn_plane(server)[1]})
    for path in ("/mask", "/move", "/undo"):
        assert post(server, path, body, X_Review_Token=None)[0] == 403
        assert post(server, path, body, Origin="http://evil.example")[0] == 403
    for path in ("/annotation/0", "/suggestion/0/0"):
        assert ask(server, path, X_Review_Token="wrong")[0] == 403
    for path in ("/annotation/4", "/annotation/..", "/suggestion/0", "/suggestion/0/1", "/suggestion/0/-1"):
        assert ask(server, path)[0] == 404
    assert drawn_folders(server) == []


def test_a_mask_above_the_limit_is_refused_by_its_size_and_one_of_4000_pixels_fits(server):
    rows, columns = np.mgrid[:80, :80] - 40
    cells = np.tile(rows**2 + columns**2 < 30**2, (50, 50)).astype(np.uint8)
    assert cells.shape == (4000, 4000)
    assert 10 * len(json.dumps(runs_of(cells), separators=(",", ":"))) < MAX_MASK_BYTES
    status, _, content = ask(server, "/mask", "POST", b"", Content_Length=str(MAX_MASK_BYTES + 1))
    assert status == 413
    assert f"Found {MAX_MASK_BYTES + 1} bytes; expected at most {MAX_MASK_BYTES}." in json.loads(content)["problem"]


def test_who_sends_more_than_the_limit_to_the_end_is_told_so(server):
    status, _, content = ask(server, "/mask", "POST", b" " * (MAX_MASK_BYTES + 2**20))
    assert status == 413
    assert "expected at most" in json.loads(content)["problem"]


def test_links_among_drawn_masks_are_never_followed(server, tmp_path):
    mask, folder = store(server), server.reader.folder / DRAWN_FOLDER
    file = folder / mask / "mask.png"
    file.rename(tmp_path / "mask.png")
    file.symlink_to(tmp_path / "mask.png")
    status, answer = decide(server, choice="edit", mask=mask)
    assert status == 409
    assert "found a link, or no file" in answer["problem"]
    file.unlink()
    # Whoever opened it would wait for somebody to write.
    os.mkfifo(file)
    assert decide(server, choice="edit", mask=mask)[0] == 409
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    status, answer = post(server, "/mask", mask_body(server, {0: drawn_plane(server)[1]}))
    assert status == 409
    assert "is a link to" in answer["problem"]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [mask]


def test_nothing_half_written_stays_where_a_disk_or_the_given_file_fails(server, monkeypatch):
    given = server.reader.files(server.cases[0]).label
    body = mask_body(server, {0: drawn_plane(server)[1]})

    def full(file, record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mending, "write_record", full)
    assert post(server, "/mask", body) == (500, {"problem": "the mask cannot be written (No space left on device)."})
    assert drawn_folders(server) == []
    monkeypatch.setattr(mending, "write_record", lambda file, record: given.write_bytes(given.read_bytes() + b" "))
    status, answer = post(server, "/mask", body)
    assert status == 409
    assert "is no longer the annotation that was shown" in answer["problem"]
    assert drawn_folders(server) == []


def test_a_contour_is_moved_as_the_distance_transform_says_and_nothing_is_stored(server):
    square = np.zeros((64, 64), np.uint8)
    square[20:30, 20:30] = 1
    body = mask_body(server, {0: square})
    status, answer = post(server, "/move", body | {"distance": -2.0})
    assert status == 200, answer
    smaller = plane_of_runs(answer["planes"]["0"], square.shape, (0, 1), "")
    np.testing.assert_array_equal(smaller, ndimage.distance_transform_cdt(square, "chessboard") > 2)
    _, answer = post(server, "/move", body | {"shift": [3.0, -4.0]})
    shifted = plane_of_runs(answer["planes"]["0"], square.shape, (0, 1), "")
    np.testing.assert_array_equal(shifted, np.roll(square, (3, -4), (0, 1)))
    for wrong in ({"distance": 1e9}, {"distance": float(51)}, {"shift": [0.0]}, {"label": "1"}):
        assert post(server, "/move", body | wrong)[0] == 400
    assert post(server, "/move", body | {"distance": 1.0, "label": 7})[0] == 409
    assert drawn_folders(server) == []


def test_an_offset_of_a_volume_is_in_millimetres_of_its_file(audit_of):
    with serving(audit_of("volumes")) as server:
        content = get(server, "/annotation/0")
        rows, columns, between = content["spacing"]
        volume = np.zeros((content["count"], content["height"], content["width"]), np.uint8)
        middle = [length // 2 for length in volume.shape]
        volume[tuple(middle)] = 1
        distance = 2.6 * max(rows, columns, between)
        planes = dict(enumerate(volume))
        _, answer = post(server, "/move", mask_body(server, planes) | {"distance": distance})
        for number, runs in answer["planes"].items():
            volume[int(number)] = plane_of_runs(runs, volume.shape[1:], (0, 1), "")
        place = np.argwhere(volume) - middle
        reached = np.abs(place).max(axis=0) * (between, rows, columns)
        # A voxel's own surface lies half of it outside its middle.
        np.testing.assert_array_less(np.abs(reached - distance), 1.01 * np.array([between, rows, columns]))


def test_objects_of_a_suggestion_are_those_that_differ_in_the_file(audit_of):
    result = audit_of("slices")
    with serving(result) as server:
        content = get(server, "/suggestion/0/0")
        shape = get(server, "/annotation/0")
        before = planes_of(shape)
        after, numbers = before.copy(), np.zeros(before.shape, np.int64)
        for number, runs in content["suggested"].items():
            after[int(number)] = plane_of_runs(runs, before.shape[1:], (0, 1), "")
            flat = content["numbers"][number]
            numbers[int(number)] = np.repeat(flat[::2], flat[1::2]).reshape(before.shape[1:])
        labelled, count = ndimage.label(before != after, np.ones((3, 3, 3)))
        assert count == len(content["objects"]) > 0
        np.testing.assert_array_equal(numbers, labelled)
        for one in content["objects"]:
            assert numbers[one["plane"], one["row"], one["column"]] == one["number"]
            assert one["pixels"] == np.count_nonzero(labelled == one["number"])
            assert one["becomes"] == 1


def test_a_drawn_mask_decides_about_all_findings_of_its_case_but_those_that_were_kept(audit_of):
    result = audit_of("slices")
    with serving(result) as server:
        first, second, third = (finding.id for finding in server.cases[0].findings[:3])
        decide(server, choice="keep", finding=first)
        assert decide(server, finding=second, **edit(server))[0] == 200
        counting = read_decisions(result.folder, result.site).counting
        assert [counting[name].choice for name in (first, second, third)] == ["keep", "edit", "edit"]


def test_what_contradicts_is_asked_about_and_goes_only_if_that_is_confirmed(server):
    name = server.cases[0].findings[0].id
    assert decide(server, choice="accept")[0] == 200
    drawn = edit(server)
    status, answer = decide(server, **drawn)
    assert (status, answer["contradicts"]) == (409, [name])
    assert decide(server, **drawn, confirmed=["another"])[0] == 409
    assert [decision.choice for decision in stored(server)] == ["accept"]
    assert decide(server, **drawn, confirmed=[name])[0] == 200
    assert decide(server, choice="keep")[1]["contradicts"] == [name]
    assert decide(server, choice="keep", confirmed=[name])[0] == 200
    assert [decision.choice for decision in stored(server)] == ["accept", "edit", "keep"]


def test_two_suggestions_contradict_where_both_change_a_pixel_to_another_class(audit_of, monkeypatch):
    result = audit_of("slices")
    with serving(result) as server:
        case = server.cases[0]
        first, second = (finding.id for finding in case.findings[:2])
        assert decide(server, finding=first)[0] == 200
        assert decide(server, finding=second)[0] == 200
        assert post(server, "/undo", {"action": stored(server)[-1].action})[0] == 200
        read = server.reader.read(case)
        read.suggestions[second][read.suggestions[first] != read.given] = 2
        monkeypatch.setattr(server.reader, "read", lambda case: read)
        assert decide(server, finding=second)[1]["contradicts"] == [first]
        assert decide(server, finding=second, confirmed=[first])[0] == 200
        counting = read_decisions(result.folder, result.site).counting
        assert [counting[name].choice for name in (first, second)] == ["later", "accept"]


def test_an_undo_is_a_record_and_what_was_before_counts_again(server):
    decide(server, choice="keep")
    _, answer = decide(server, choice="accept")
    action = answer["decision"]["action"]
    status, undone = post(server, "/undo", {"action": action})
    assert status == 200
    (values,) = undone["decisions"].values()
    assert values["choice"] == "keep"
    assert [decision.choice for decision in stored(server)] == ["keep", "accept", "undo"]
    assert post(server, "/undo", {"action": action})[0] == 409
    _, undone = post(server, "/undo", {"action": values["action"]})
    assert [*undone["decisions"].values()] == [None]
    assert read_decisions(server.reader.folder, server.reader.audit.site).counting == {}
    # An undo that is undone itself.
    (again,) = [decision.action for decision in stored(server) if decision.undoes == action]
    log = Decisions(site="site-1", decisions=stored(server))
    redone = log.with_decision(stored(server)[-1].model_copy(update={"undoes": again, "action": "a" * 32}))
    assert [decision.choice for decision in redone.counting.values()] == ["accept"]


def test_of_two_reviewers_each_undoes_the_own_and_is_asked_before_the_others_mask_goes(server):
    name = server.cases[0].findings[0].id
    _, answer = decide(server, **edit(server))
    server.reviewer = "Dr Bo"
    assert post(server, "/undo", {"action": answer["decision"]["action"]})[0] == 409
    other = edit(server)
    assert decide(server, **other)[1]["contradicts"] == [name]
    assert decide(server, **other, confirmed=[name])[0] == 200
    server.reviewer = "Dr Ada"
    status, problem = post(server, "/undo", {"action": answer["decision"]["action"]})
    assert (status, "Somebody has decided" in problem["problem"]) == (409, True)
    counting = read_decisions(server.reader.folder, server.reader.audit.site).counting
    assert (counting[name].reviewer, counting[name].mask) == ("Dr Bo", other["mask"])


@pytest.mark.parametrize("mask", ["", "../../../etc/passwd", "a" * 32, "A" * 32, "a" * 31, "a" * 32 + "\n"])
def test_a_decision_for_a_mask_that_is_not_there_is_refused(server, mask):
    assert decide(server, choice="edit", mask=mask)[0] in (400, 409)
    assert decide(server, choice="keep", mask=store(server))[0] == 400
    assert stored(server) == ()


def test_a_mask_of_another_case_or_that_has_changed_since_is_no_annotation(server):
    mask = store(server)
    status, answer = decide(server, 1, choice="edit", mask=mask)
    assert (status, "was drawn for" in answer["problem"]) == (409, True)
    assert decide(server, choice="edit", mask=mask)[0] == 200
    file = server.reader.folder / DRAWN_FOLDER / mask / "mask.png"
    other = np.asarray(Image.open(file)).copy()
    other[0, 0] = 255
    Image.fromarray(other).save(file)
    decisions = read_decisions(server.reader.folder, server.reader.audit.site)
    with pytest.raises(DataError, match="is not the mask that the review has stored"):
        apply_decisions(server.reader, decisions, server.reader.folder / "new")
    assert not (server.reader.folder / "new").exists()


def test_a_drawn_mask_and_a_suggestion_are_never_applied_together(audit_of):
    result = audit_of("slices")
    with serving(result) as server:
        decide(server, **edit(server))
        log = read_decisions(result.folder, result.site)
        last = log.decisions[-1]
        both = log.with_decision(last.model_copy(update={"choice": "accept", "mask": "", "action": ""}))
        with pytest.raises(DataError, match="found a drawn mask, and another one or a suggestion"):
            apply_decisions(server.reader, both, Path(result.folder / "new"))


def test_an_image_with_a_class_has_no_mask_to_draw_on(audit_of):
    with serving(audit_of("classes")) as server:
        status, _, content = ask(server, "/annotation/0")
        assert status == 409
        assert "its images have classes" in json.loads(content)["problem"]


def test_planes_of_a_picture_are_its_rows_and_columns(tmp_path, made_audits):
    mask = np.arange(6, dtype=np.uint8).reshape(2, 3) % 2
    planes = MaskPlanes.of(tmp_path / "absent.png", Mask(mask), CaseReader(made_audits["images"]).description)
    assert (planes.shape, planes.spacing) == ((1, 2, 3), None)
    np.testing.assert_array_equal(planes.of_file(mask), mask[None])
    np.testing.assert_array_equal(planes.to_file(mask[None]), mask)


def test_a_case_in_which_nothing_was_found_can_be_drawn_on_and_is_applied(audit_of):
    found = audit_of("images")
    bare = tuple(case.model_copy(update={"findings": ()}) for case in found.audit.cases)
    result = FoundAudit(found.folder, found.audit.model_copy(update={"cases": bare}))
    with serving(result) as server:
        assert decide(server, 1, **edit(server, 1))[0] == 200
        label = server.cases[1].label
    decisions = read_decisions(result.folder, result.site)
    (case,) = apply_decisions(CaseReader(result), decisions, result.folder / "new").record.cases
    assert (case.label, case.review.origin, case.review.is_reviewed) == (label, "edited", True)


def test_who_decides_blind_is_asked_about_the_own_decisions_alone(server):
    name = server.cases[0].findings[0].id
    assert decide(server, choice="accept")[0] == 200
    server.reviewer, server.is_blind = "Dr Bo", True
    drawn = edit(server)
    assert decide(server, **drawn)[0] == 200
    assert get(server, "/annotation/0")["drawn"]["id"] == drawn["mask"]
    log = read_decisions(server.reader.folder, server.reader.audit.site)
    assert (log.counting, {one.choice for one in log.contested[name]}) == ({}, {"accept", "edit"})
    assert decide(server, choice="accept")[1]["contradicts"] == [name]
