import csv
import re
import stat
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.edited_masks import find_edited
from fedannot.apps.audit.exporting import ExportOptions, export_audit, itksnap_labels
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.custom.audit.case_list import question
from fedannot.custom.audit.decisions import Decisions
from fedannot.custom.audit.findings import REFERENCE
from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.masks import read_classes
from fedannot.transforms.errors import DataError
from fedannot.transforms.printable import spreadsheet_safe


def rows_of(out):
    with (out / "findings.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_for_every_finding_with_its_decision(audit_of):
    result = audit_of("slices")
    case = result.audit.cases[0]
    finding = case.findings[0]
    decision = new_decision(finding.id, "keep", reviewer="Dr Ada", reason="fine", shown="ab")
    store_decision(result.folder, result.audit, decision)
    exported = export_audit(CaseReader(result), result.folder / "out")
    rows = rows_of(result.folder / "out")
    assert len(rows) == exported.findings == sum(len(case.findings) for case in result.audit.cases)
    first = rows[0]
    assert (first["image"], first["annotation"], first["finding"]) == (case.image, case.label, finding.id)
    assert (first["decision"], first["reviewer"], first["comment"]) == ("keep", "Dr Ada", "fine")
    assert float(first["probability"]) == pytest.approx(finding.probability)
    assert first["start"] == " ".join(map(str, finding.place.start))
    assert rows[1]["decision"] == ""


def test_a_case_that_is_asked_for_as_a_reference_is_exported_and_is_no_finding(audit_of):
    result = audit_of("slices")
    asked, *others = result.audit.cases
    reference = asked.findings[0].model_copy(update={"kind": REFERENCE, "place": None, "has_suggestion": False})
    cases = (asked.model_copy(update={"findings": (reference,)}), *others)
    result = replace(result, audit=result.audit.model_copy(update={"cases": cases}))
    exported = export_audit(CaseReader(result), result.folder / "out")
    assert len(rows_of(result.folder / "out")) == exported.findings + 1 == 1 + sum(len(one.findings) for one in others)
    assert exported.cases == len([case for case in cases if case.findings])


def test_a_decision_on_a_case_without_a_finding_has_a_row(audit_of):
    result = audit_of("slices")
    cases = tuple(case.model_copy(update={"findings": ()}) for case in result.audit.cases)
    seen, result = question(cases[1]), replace(result, audit=result.audit.model_copy(update={"cases": cases}))
    store_decision(result.folder, result.audit, new_decision(seen.id, "keep", reviewer="Dr Ada", reason="", shown="ab"))
    exported = export_audit(CaseReader(result), result.folder / "out")
    (row,) = rows_of(result.folder / "out")
    assert (row["image"], row["kind"], row["decision"]) == (cases[1].image, "nothing_found", "keep")
    assert exported.findings == 0


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\n="])
def test_cells_that_a_spreadsheet_would_compute_are_text(start):
    assert spreadsheet_safe(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


def test_other_cells_stay_as_they_are():
    assert spreadsheet_safe("images/a=b.png") == "images/a=b.png"
    assert spreadsheet_safe("") == ""


def test_hostile_names_are_text_in_the_table(audit_of):
    result = audit_of("images")
    case = result.audit.cases[0].model_copy(update={"annotator": "=HYPERLINK(1)", "unit": "@SUM(A1)"})
    audit = result.audit.model_copy(update={"cases": (case,)})
    export_audit(CaseReader(FoundAudit(result.folder, audit)), result.folder / "out")
    (row,) = rows_of(result.folder / "out")
    assert (row["annotator"], row["patient"]) == ("'=HYPERLINK(1)", "'@SUM(A1)")


@pytest.mark.parametrize("kind", ["images", "slices"])
def test_suggested_masks_have_the_folders_and_names_of_the_given_ones(audit_of, kind):
    result = audit_of(kind)
    reader = CaseReader(result)
    out = result.folder / "out"
    exported = export_audit(reader, out)
    cases = list(read_datalist(reader.datalist).section(TRAINING))
    assert exported.suggestions == len(cases)
    for case in cases:
        name = case.label.relative_to(reader.data)
        new, clean = (read_classes(file, reader.description) for file in (out / "suggested" / name, case.clean_label))
        np.testing.assert_array_equal(new.classes, clean.classes)


def test_a_segmentation_for_slicer_has_segments_and_the_place_of_the_volume(audit_of):
    result = audit_of("slices")
    reader = CaseReader(result)
    out = result.folder / "out"
    export_audit(reader, out)
    name = Path(result.audit.cases[0].label)
    written = SimpleITK.ReadImage(str(out / "slicer" / name.parent / (name.name.split(".")[0] + ".seg.nrrd")))
    mask = SimpleITK.ReadImage(str(out / "suggested" / name))
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(written), SimpleITK.GetArrayFromImage(mask))
    for item in ("GetSpacing", "GetOrigin", "GetDirection"):
        assert getattr(written, item)() == pytest.approx(getattr(mask, item)())
    assert written.GetMetaData("Segment0_Name") == "lesion"
    assert written.GetMetaData("Segment0_LabelValue") == "1"
    size = written.GetSize()
    assert written.GetMetaData("Segment0_Extent") == f"0 {size[0] - 1} 0 {size[1] - 1} 0 {size[2] - 1}"


def test_label_descriptions_name_the_values_of_the_files():
    description = ImageDescription(channels=1, size=(8, 8), labels={0: 0, 128: 1, 255: 2}, classes=('a "b"', "c"))
    lines = [line.split() for line in itksnap_labels(description).splitlines() if not line.startswith("#")]
    assert [line[0] for line in lines] == ["0", "128", "255"]
    assert [" ".join(line[7:]) for line in lines] == ['"Clear Label"', "\"a 'b'\"", '"c"']
    assert all(len(line[:7]) == 7 for line in lines)


def test_an_annotation_that_cannot_be_written_stops_no_other(audit_of):
    result = audit_of("images")
    reader = CaseReader(result)
    reader.files(result.audit.cases[0]).label.write_bytes(b"no mask")
    exported = export_audit(reader, result.folder / "out")
    assert [label for label, _ in exported.failed] == [result.audit.cases[0].label]
    assert exported.suggestions == len(result.audit.cases) - 1


def test_classified_images_have_a_table_alone(audit_of):
    result = audit_of("classes")
    export_audit(CaseReader(result), result.folder / "out")
    assert [path.name for path in (result.folder / "out").iterdir()] == ["findings.csv"]


def test_a_missing_series_is_named_and_the_rest_is_written(audit_of, tmp_path):
    pytest.importorskip("highdicom")
    result = audit_of("volumes")
    exported = export_audit(CaseReader(result), tmp_path / "out", ExportOptions(dicom=tmp_path))
    assert [
        reason.endswith(f"expected the DICOM series of {result.audit.cases[0].image}.") for _, reason in exported.failed
    ]
    assert list((tmp_path / "out" / "slicer").rglob("*.seg.nrrd"))


def test_of_an_export_the_changed_masks_alone_count(audit_of, tmp_path):
    result = audit_of("slices")
    reader, out = CaseReader(result), tmp_path / "out"
    export_audit(reader, out)
    case = result.audit.cases[1]
    file = out / "slicer" / case.label.replace(".nii.gz", ".seg.nrrd")
    image = SimpleITK.ReadImage(str(file))
    image[0:3, 0:3, 0] = 1
    # Cut to a box, and so with another origin.
    box = np.argwhere(SimpleITK.GetArrayFromImage(image)).max(0)[::-1] + 1
    cut = image[: int(box[0]), : int(box[1]), : int(box[2])]
    for key in image.GetMetaDataKeys():
        cut.SetMetaData(key, image.GetMetaData(key))
    SimpleITK.WriteImage(cut, str(file))
    (out / "slicer" / "Scene.mrml").write_text("a scene")
    applied = apply_decisions(reader, Decisions(site=result.site), tmp_path / "new", edited=out)
    (one,) = applied.record.cases
    assert (one.label, one.review.origin) == (case.label, "edited")
    written = nibabel.load(tmp_path / "new" / one.mask.file)
    np.testing.assert_array_equal(np.asarray(written.dataobj), SimpleITK.GetArrayFromImage(image).transpose())
    np.testing.assert_allclose(written.affine, nibabel.load(reader.data / case.label).affine)


def test_an_export_without_a_change_is_no_review(audit_of, tmp_path):
    result = audit_of("images")
    export_audit(CaseReader(result), tmp_path / "out")
    with pytest.raises(DataError, match=r"found 1\d files as they were exported; expected edited masks"):
        apply_decisions(CaseReader(result), Decisions(site=result.site), tmp_path / "new", edited=tmp_path / "out")


@pytest.mark.parametrize("place", ["given/{mask}", "suggested/{mask}", "{name}", "more"])
def test_a_link_that_comes_back_is_refused_by_name(audit_of, tmp_path, place):
    result = audit_of("images")
    reader, out = CaseReader(result), tmp_path / "out"
    export_audit(reader, out, ExportOptions(links=True))
    first, last = result.audit.cases[0], result.audit.cases[-1]
    changed = out / "given" / last.label
    Image.fromarray(255 - np.asarray(Image.open(changed))).save(changed)
    (tmp_path / "elsewhere").mkdir()
    changed.rename(tmp_path / "elsewhere" / changed.name)
    changed.write_bytes((tmp_path / "elsewhere" / changed.name).read_bytes())
    link = out / place.format(mask=first.label, name=Path(first.label).name)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "elsewhere" if place == "more" else tmp_path / "elsewhere" / changed.name)
    with pytest.raises(DataError, match=f"{re.escape(str(link))}: found a link"):
        find_edited(out, reader)
    link.unlink()
    assert set(find_edited(out, reader)) == {last.label}


@pytest.mark.parametrize("options", [ExportOptions(links=True), ExportOptions(all_cases=True)], ids=["links", "all"])
def test_cases_that_are_asked_for_as_a_reference_are_exported_with_the_given_files(audit_of, tmp_path, options):
    result = audit_of("images")
    first, second, third, *_ = result.audit.cases
    asked = third.findings[0].model_copy(update={"id": "r", "kind": REFERENCE, "has_suggestion": False})
    cases = (first, second.model_copy(update={"findings": ()}), third.model_copy(update={"findings": (asked,)}))
    reader = CaseReader(FoundAudit(result.folder, result.audit.model_copy(update={"cases": cases})))
    out = tmp_path / "out"
    exported = export_audit(reader, out, options)
    wanted = [case for case in cases if case.findings or options.all_cases]
    assert (exported.cases, exported.suggestions) == (len(wanted), 1)
    names = {name for case in wanted for name in (case.image, case.label)}
    assert {path.relative_to(out / "given").as_posix() for path in (out / "given").rglob("*.png")} == names
    for name in names:
        assert (out / "given" / name).read_bytes() == (reader.data / name).read_bytes()
    # A mask is never a link: editors write into what they have opened.
    assert not (out / "given" / first.label).is_symlink()
    assert (out / "given" / first.image).is_symlink() == options.links
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in out.rglob("*") if not path.is_symlink()}
    assert modes == {(True, 0o700), (False, 0o600)}
