import hashlib
import json
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.apps.audit.applying import PROVENANCE_FILE, apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.stored_decisions import new_decision
from fedannot.custom.audit.decisions import Decisions
from fedannot.custom.corrections.kinds import MasksReplaced
from fedannot.custom.corrections.model import Corrections
from fedannot.custom.data.datalist import REFERENCE, TRAINING, read_datalist
from fedannot.custom.data.json_record import read_record
from fedannot.custom.data.masks import read_classes
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError

MASKS = ["images", "slices", "volumes"]


def decided(found, choose=lambda case, index: "accept"):
    """Decisions of all findings, as a rule says by case and index."""
    reader, decisions = CaseReader(found), []
    for case in found.audit.cases:
        for index, finding in enumerate(case.findings):
            if (choice := choose(case, index)) is not None:
                shown = reader.shown(case)
                decisions.append(new_decision(finding.id, choice, reviewer="Dr Ada", reason="seen twice", shown=shown))
    return Decisions(site=found.site, decisions=tuple(decisions))


def of_first_case(found, *choices):
    """Decisions of the findings of the worst case alone."""
    first = found.audit.cases[0]
    return decided(found, lambda case, index: choices[index] if case is first and index < len(choices) else None)


def files_of(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def clean_of(found):
    """The clean annotation of every given one, which the fixture suggests."""
    reader = CaseReader(found)
    cases = read_datalist(reader.datalist).section(TRAINING)
    return {case.label.relative_to(reader.data).as_posix(): case.clean_label for case in cases}


@pytest.mark.parametrize("kind", MASKS)
def test_accepted_suggestions_are_new_annotations_in_the_form_of_the_given_ones(audit_of, kind):
    result = audit_of(kind)
    reader, data = CaseReader(result), Path(result.audit.data)
    before = files_of(data)
    out = result.folder.parents[3] / "new"
    applied = apply_decisions(reader, decided(result), out)
    assert files_of(data) == before
    clean = clean_of(result)
    for case in applied.record.cases:
        new, wanted = (read_classes(file, reader.description) for file in (out / case.mask.file, clean[case.label]))
        given = read_classes(data / case.label, reader.description)
        np.testing.assert_array_equal(new.classes, wanted.classes)
        assert case.review.changed == np.count_nonzero(wanted.classes != given.classes) > 0
        if given.affine is not None:
            np.testing.assert_array_equal(new.affine, given.affine)
            assert nibabel.load(out / case.mask.file).shape == nibabel.load(data / case.label).shape
        else:
            values = [set(np.unique(np.asarray(Image.open(f)))) for f in (out / case.mask.file, data / case.label)]
            assert values[0] == values[1] == {0, 255}


def test_provenance_says_who_decided_what_and_when(audit_of):
    result = audit_of("images")
    out = result.folder / "new"
    applied = apply_decisions(CaseReader(result), of_first_case(result, "accept"), out)
    record = read_record(out / PROVENANCE_FILE, Corrections)
    assert record == applied.record
    (one,) = record.cases
    case = result.audit.cases[0]
    assert (one.image, one.label, one.review.origin, one.review.is_reviewed) == (
        case.image,
        case.label,
        "accepted",
        True,
    )
    given = Path(result.audit.data) / case.label
    assert one.review.given_sha256 == hashlib.sha256(given.read_bytes()).hexdigest()
    (decision,) = one.review.decisions
    assert (decision.reviewer, decision.choice, decision.reason) == ("Dr Ada", "accept", "seen twice")
    assert (record.provenance.model_sha256, record.provenance.reviewer) == (result.audit.model_sha256, "Dr Ada")
    source = str(result.folder.resolve())
    assert record.corrections == (MasksReplaced(source=source, audited=result.audit.made),)


def test_two_accepted_suggestions_that_differ_are_refused_by_both_names(audit_of, monkeypatch):
    result = audit_of("slices")
    reader, case = CaseReader(result), result.audit.cases[0]
    first, second = (finding.id for finding in case.findings[:2])
    read = reader.read(case)
    read.suggestions[second][read.suggestions[first] != read.given] = 2
    monkeypatch.setattr(reader, "read", lambda case: read)
    out = result.folder / "new"
    with pytest.raises(DataError, match=f"two accepted suggestions that differ.*'{first}' and '{second}'"):
        apply_decisions(reader, of_first_case(result, "accept", "accept"), out)
    assert not out.exists()
    # The same suggestions, of which only one is accepted.
    apply_decisions(reader, of_first_case(result, "accept", "keep"), out)


def test_only_accepted_findings_change_an_annotation(audit_of):
    result = audit_of("slices")
    reader = CaseReader(result)
    case = result.audit.cases[0]
    assert len(case.findings) > 2
    out = result.folder / "new"
    (one,) = apply_decisions(reader, of_first_case(result, "keep", "accept", "later"), out).record.cases
    assert not one.review.is_reviewed
    given, new = (read_classes(f, reader.description).classes for f in (reader.data / one.label, out / one.mask.file))
    place = case.findings[1].place
    # The files of this phantom are as large as what the network sees.
    slices = slice(place.sample, place.sample + place.samples)
    region = (slice(place.start[0], place.stop[0]), slice(place.start[1], place.stop[1]), slices)
    changed = given != new
    assert changed[region].sum() == changed.sum() == one.review.changed > 0


def test_a_file_larger_than_the_networks_image_keeps_what_no_suggestion_changes(audit_of):
    """A mask of three times the size, in a corner of which is a pixel that the network does not see."""
    result = audit_of("images")
    case = result.audit.cases[0]
    data = Path(result.audit.data)
    values = np.asarray(Image.open(data / case.label))
    large = values.repeat(3, 0).repeat(3, 1)
    large[0:3, 0:3] = [[0, 0, 0], [0, 0, 255], [0, 0, 0]]
    image = np.asarray(Image.open(data / case.image)).repeat(3, 0).repeat(3, 1)
    Image.fromarray(large).save(data / case.label)
    Image.fromarray(image).save(data / case.image)
    out = result.folder / "new"
    (one,) = apply_decisions(CaseReader(result), of_first_case(result, "accept"), out).record.cases
    new = np.asarray(Image.open(out / one.mask.file))
    clean = np.asarray(Image.open(clean_of(result)[case.label])).repeat(3, 0).repeat(3, 1)
    np.testing.assert_array_equal(new[0:3, 0:3], large[0:3, 0:3])
    expected = clean.copy()
    expected[0:3, 0:3] = large[0:3, 0:3]
    np.testing.assert_array_equal(new, expected)


def test_kept_and_accepted_cases_become_the_reference_that_a_site_loads(audit_of, tmp_path):
    result = audit_of("images")
    reader = CaseReader(result)
    worst = result.audit.cases[0]
    decisions = decided(result, lambda case, _: "accept" if case is worst else "keep")
    out = reader.data / "reviewed"
    applied = apply_decisions(reader, decisions, out, update_datalist=True)
    assert applied.datalist == reader.data / "datalist.reviewed.json"
    original = json.loads(reader.datalist.read_text())
    copied = json.loads(applied.datalist.read_text())
    assert [item["image"] for item in copied["training"]] == [item["image"] for item in original["training"]]
    reference = load_site_data(reader.data, tmp_path / "cache", section=REFERENCE, site="site-1")
    assert {case.name for case in reference.cases} == {Path(case.image).name for case in result.audit.cases}
    training = load_site_data(reader.data, tmp_path / "cache", section=TRAINING, site="site-1")
    for data in (reference, training):
        (changed,) = (case for case in data.cases if case.image_name(reader.data) == worst.image)
        assert not np.array_equal(changed.label, reader.read(worst).given)
        np.testing.assert_array_equal(changed.label, reader.read(worst).prediction)


def updated(result, choose, name="reviewed"):
    """Apply decisions; the site's datalist is the updated one from then on, returned by lists and images."""
    reader = CaseReader(result)
    applied = apply_decisions(reader, decided(result, choose), reader.data / name, update_datalist=True)
    content = json.loads(applied.datalist.read_text())
    return {key: {item["image"]: item for item in content[key]} for key in (TRAINING, REFERENCE)}


def audited_again(result):
    """The audit as it would be of the masks that count now."""
    data = Path(result.audit.data)
    in_use = {
        case.image.relative_to(data).as_posix(): case.label.relative_to(data).as_posix()
        for case in read_datalist(CaseReader(result).datalist).section(TRAINING)
    }
    cases = tuple(case.model_copy(update={"label": in_use[case.image]}) for case in result.audit.cases)
    return replace(result, audit=result.audit.model_copy(update={"cases": cases}))


def test_the_datalist_names_the_mask_before_a_review_also_after_another_one(audit_of):
    result = audit_of("images")
    worst, kept, *_ = result.audit.cases
    first = updated(result, lambda case, _: {worst.image: "accept", kept.image: "keep"}.get(case.image))
    assert first[TRAINING][worst.image]["given_label"] == worst.label != first[TRAINING][worst.image]["label"]
    assert first[REFERENCE][worst.image]["given_label"] == worst.label
    # What is kept is said to be so; nothing else names another mask.
    assert first[REFERENCE][kept.image]["given_label"] == first[REFERENCE][kept.image]["label"] == kept.label
    assert [image for image, item in first[TRAINING].items() if "given_label" in item] == [worst.image]
    second = updated(audited_again(result), lambda *_: "keep", "reviewed_again")
    assert second[REFERENCE][worst.image] == first[REFERENCE][worst.image]
    assert second[TRAINING] == first[TRAINING]


@pytest.mark.parametrize("written", ["./{}", "./x/.././{}", "x//..//{}"])
def test_paths_of_the_datalist_count_however_they_are_written(audit_of, written):
    """The Medical Segmentation Decathlon writes ``./labelsTr/a.nii.gz``."""
    result = audit_of("images")
    reader, (worst, kept, *_) = CaseReader(result), result.audit.cases
    (reader.data / "x").mkdir()
    content = json.loads(reader.datalist.read_text())
    for item in content[TRAINING]:
        item.update({key: written.format(item[key]) for key in ("image", "label")})
    reader.datalist.write_text(json.dumps(content))
    applied = apply_decisions(
        reader,
        decided(result, lambda case, _: {worst.image: "accept", kept.image: "keep"}.get(case.image)),
        reader.data / "reviewed",
        update_datalist=True,
    )
    new = read_datalist(applied.datalist)
    by_image = {case.image.resolve(): case for case in new.section(TRAINING)}
    changed = by_image[(reader.data / worst.image).resolve()]
    assert changed.label.parent.parent == reader.data / "reviewed"
    assert changed.given_label.resolve() == (reader.data / worst.label).resolve()
    assert [case for case in by_image.values() if "reviewed" in case.label.parts] == [changed]
    reference = {case.image.resolve(): case for case in new.section(REFERENCE)}
    for case in (worst, kept):
        assert (
            reference[(reader.data / case.image).resolve()].given_label.resolve()
            == (reader.data / case.label).resolve()
        )


def test_a_case_is_in_the_reference_once_however_its_path_is_written(audit_of):
    result = audit_of("images")
    reader, (worst, other, *_) = CaseReader(result), result.audit.cases
    content = json.loads(reader.datalist.read_text())
    content[REFERENCE] = [{"image": f"./{case.image}", "label": f"./{case.label}"} for case in (worst, other)]
    reader.datalist.write_text(json.dumps(content))
    applied = apply_decisions(
        reader,
        decided(result, lambda case, _: "accept" if case is worst else None),
        reader.data / "reviewed",
        update_datalist=True,
    )
    reference = read_datalist(applied.datalist).section(REFERENCE)
    assert sorted(case.image.name for case in reference) == sorted(Path(case.image).name for case in (worst, other))


def test_what_was_before_a_review_of_an_earlier_version_is_not_made_up(audit_of):
    """The reviewed mask is in both lists, and nothing names the one before it."""
    result = audit_of("images")
    worst, other, *_ = result.audit.cases
    reader = CaseReader(result)
    content = json.loads(reader.datalist.read_text())
    content[REFERENCE] = [{"image": worst.image, "label": worst.label}]
    reader.datalist.write_text(json.dumps(content))
    lists = updated(result, lambda case, _: "accept" if case.image in (worst.image, other.image) else None)
    for key in (TRAINING, REFERENCE):
        assert lists[key][worst.image]["label"].startswith("reviewed/")
        assert "given_label" not in lists[key][worst.image]
        assert lists[key][other.image]["given_label"] == other.label


def test_a_case_with_an_open_finding_is_no_reference(audit_of):
    result = audit_of("slices")
    applied = apply_decisions(CaseReader(result), of_first_case(result, "keep", "later"), result.folder / "new")
    assert applied.reference is None


def test_a_list_beside_other_data_says_where_the_files_are_to_lie(audit_of):
    result = audit_of("images")
    applied = apply_decisions(CaseReader(result), of_first_case(result, "accept"), result.folder / "new")
    (item,) = json.loads(applied.reference.read_text())["reference"]
    assert item["label"] == f"new/{applied.record.cases[0].mask.file}"


def test_a_datalist_does_not_lead_out_of_its_folder(audit_of):
    result = audit_of("images")
    with pytest.raises(DataError, match="a datalist may not lead out of its folder"):
        apply_decisions(CaseReader(result), decided(result), result.folder / "new", update_datalist=True)
    assert not (result.folder / "new").exists()


def test_an_earlier_copy_of_the_datalist_stays(audit_of):
    result = audit_of("images")
    reader = CaseReader(result)
    (reader.data / "datalist.reviewed.json").write_text("{}")
    applied = apply_decisions(reader, decided(result), reader.data / "reviewed", update_datalist=True)
    assert applied.datalist.name == "datalist.reviewed-2.json"
    assert (reader.data / "datalist.reviewed.json").read_text() == "{}"


def test_an_accepted_class_is_a_new_label_in_the_datalist(audit_of):
    result = audit_of("classes")
    reader = CaseReader(result)
    before = files_of(reader.data)
    given = {case.image: case.label for case in read_datalist(reader.datalist).section(TRAINING)}
    applied = apply_decisions(reader, decided(result), reader.data / "reviewed", update_datalist=True)
    changed = {item["image"]: item["label"] for item in json.loads(applied.datalist.read_text())["training"]}
    suspect = {case.image for case in result.audit.cases if case.findings}
    for case in read_datalist(reader.datalist).section(TRAINING):
        image = case.image.relative_to(reader.data).as_posix()
        assert changed[image] == (case.clean_label if image in suspect else case.label)
    new = read_datalist(applied.datalist)
    assert {case.image.relative_to(reader.data).as_posix() for case in new.section(REFERENCE)} == suspect
    named = [case for case in new.section(TRAINING) if case.given_label is not None]
    assert {case.image.relative_to(reader.data).as_posix() for case in named} == suspect
    assert all(case.given_label == given[case.image] for case in [*named, *new.section(REFERENCE)])
    now = files_of(reader.data)
    assert {path.name for path, digest in before.items() if now[path] != digest} == {"data.yaml"}


@pytest.mark.parametrize("choice", ["accept", "keep"])
def test_an_annotation_that_has_changed_since_it_was_shown_stops_everything(audit_of, choice):
    result = audit_of("images")
    decisions = decided(result, lambda *_: choice)
    file = Path(result.audit.data) / result.audit.cases[1].label
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DataError, match=f"1 annotation changed since the reviewers saw them: {file.parent.name}"):
        apply_decisions(CaseReader(result), decisions, result.folder / "new")
    assert not (result.folder / "new").exists()


def test_a_decision_that_does_not_say_what_was_shown_is_refused(audit_of):
    result = audit_of("images")
    bare = of_first_case(result, "accept").decisions[0].model_copy(update={"shown": ""})
    with pytest.raises(DataError, match="changed since the reviewers saw them"):
        apply_decisions(CaseReader(result), Decisions(site=result.site, decisions=(bare,)), result.folder / "new")


def test_without_a_decision_there_is_nothing_to_write(audit_of):
    result = audit_of("images")
    with pytest.raises(DataError, match=r"there is nothing to write\. Decide with: fedannot audit review"):
        apply_decisions(CaseReader(result), of_first_case(result, "later"), result.folder / "new")


def edit(found, name, change):
    """A folder with the first given mask, changed."""
    case = found.audit.cases[0]
    folder = found.folder / "edited"
    folder.mkdir()
    source = Path(found.audit.data) / case.label
    target = folder / (name or Path(case.label).name)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".png":
        Image.fromarray(change(np.asarray(Image.open(source)).copy())).save(target)
    else:
        image = nibabel.load(source)
        voxels, affine = change(np.asarray(image.dataobj).copy(), image.affine.copy())
        nibabel.save(nibabel.Nifti1Image(voxels, affine), target)
    return folder


def with_corner(values):
    values[:2, :2] = 255
    return values


@pytest.mark.parametrize("by_path", [False, True])
def test_an_edited_mask_counts_in_place_of_suggestions(audit_of, by_path):
    result = audit_of("images")
    case = result.audit.cases[0]
    folder = edit(result, case.label if by_path else None, with_corner)
    out = result.folder / "new"
    decisions = of_first_case(result, "accept")
    (one,) = apply_decisions(CaseReader(result), decisions, out, edited=folder).record.cases
    assert (one.review.origin, one.review.is_reviewed) == ("edited", True)
    given, new = (np.asarray(Image.open(f)) for f in (Path(result.audit.data) / case.label, out / one.mask.file))
    np.testing.assert_array_equal(new, with_corner(given.copy()))
    assert one.review.changed == np.count_nonzero(given != new)


def test_an_edited_volume_gets_the_geometry_of_the_given_one(audit_of):
    result = audit_of("slices")
    folder = edit(result, None, lambda v, a: (np.where(np.indices(v.shape)[0] == 0, 1, v).astype(np.float32), a + 1e-4))
    out = result.folder / "new"
    (one,) = apply_decisions(CaseReader(result), Decisions(site=result.site), out, edited=folder).record.cases
    given, new = nibabel.load(Path(result.audit.data) / one.label), nibabel.load(out / one.mask.file)
    np.testing.assert_array_equal(new.affine, given.affine)
    assert np.asarray(new.dataobj)[0].all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda values: values[:-1], "found a mask of the shape"),
        (lambda values: np.where(values == 0, 7, values).astype(np.uint8), "7"),
    ],
    ids=["shape", "label"],
)
def test_an_edited_image_mask_that_does_not_fit_is_refused(audit_of, change, reason):
    result = audit_of("images")
    folder = edit(result, None, change)
    with pytest.raises(DataError, match=reason):
        apply_decisions(CaseReader(result), Decisions(site=result.site), result.folder / "new", edited=folder)
    assert not (result.folder / "new").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda voxels, affine: (voxels[..., :-1], affine), "expected the size of its image"),
        (lambda voxels, affine: (voxels, affine + shifted()), "mm off"),
        (lambda voxels, affine: (voxels + np.int16(3), affine), "3"),
    ],
    ids=["shape", "place", "label"],
)
def test_an_edited_volume_that_does_not_fit_is_refused(audit_of, change, reason):
    result = audit_of("slices")
    folder = edit(result, None, change)
    with pytest.raises(DataError, match=reason):
        apply_decisions(CaseReader(result), Decisions(site=result.site), result.folder / "new", edited=folder)


def shifted():
    shift = np.zeros((4, 4))
    shift[0, 3] = 20
    return shift


def test_an_edited_mask_of_no_case_is_refused(audit_of):
    result = audit_of("images")
    folder = edit(result, "other.png", with_corner)
    with pytest.raises(DataError, match="no audited annotation has this name"):
        apply_decisions(CaseReader(result), Decisions(site=result.site), result.folder / "new", edited=folder)
