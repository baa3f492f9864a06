"""The copy of a page that is given away holds nothing that names a patient, a person, a file or a place."""

import base64
import json
import os
import re
import stat
import struct

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from support.chromium import asked_addresses, chromium
from test_pages_in_a_browser import colours_on, open_page, press, text_of, wait_for
from typer.testing import CliRunner

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.shared_page import write_shared_page
from fedannot.apps.audit.site_page import write_site_page
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.apps.commands.audit import audit_app
from fedannot.custom.annotation_bias.estimate_record import ReferenceLevelRecord
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.statuses import Status
from fedannot.custom.annotation_bias.version_1 import text_evidence
from fedannot.custom.audit.findings import Conclusion, ReferenceModelKind, write_audit

# A name that stands in every text, and in the metadata of the images.
TELLTALE = "Telltale-Jane"
DATA_ADDRESS = re.compile(r"data:image/(\w+);base64,([A-Za-z0-9+/=]+)")


@pytest.fixture(params=["images", "slices", "classes"])
def telling(request, audit_of):
    """An audit that has the name in every text that a site, a person or a server writes, and in its folders."""
    result = audit_of(request.param)
    audit = result.audit
    moved = result.folder.parents[2] / TELLTALE
    (moved.parent / "data").rename(moved)
    data = moved / "site-1"
    renamed = {}
    for case in audit.cases:
        for name in {case.image, case.label} - set(audit.classes):
            old = data / name
            new = old.with_name(f"{TELLTALE}-{old.name}")
            with_metadata(old, new)
            renamed[name] = str(new.relative_to(data))
    file = data / "datalist.json"
    content = file.read_text()
    for old, new in renamed.items():
        content = content.replace(f'"{old}"', f'"{new}"')
    file.write_text(content)
    cases = tuple(
        case.model_copy(
            update={
                "image": renamed[case.image],
                "label": renamed.get(case.label, case.label),
                "unit": f"{TELLTALE} {number}",
                "annotator": None if number else f"Dr {TELLTALE}",
                "several_annotators": (f"Dr {TELLTALE}",),
                "findings": tuple(
                    item.model_copy(update={"text": f"Same as {TELLTALE}.png."}) for item in case.findings
                ),
            }
        )
        for number, case in enumerate(audit.cases)
    )
    changes = {
        "site": TELLTALE,
        "data": str(data),
        "method": TELLTALE,
        "made": "2031-07-09T11:12:13+00:00",
        "model_sha256": "feedbeef" * 8,
        "predicted_by": ReferenceModelKind(folds=1, text=TELLTALE),
        "left_out": ((f"{TELLTALE}.png", f"no image {TELLTALE}"),),
        "reference_levels": {audit.classes[0]: ReferenceLevelRecord.model_validate(f"Reviewed by {TELLTALE}.")},
        "conclusions": (conclusion(audit.classes[0]),),
        "kinds": tuple(kind.model_copy(update={"shows": (text_evidence(f"in {TELLTALE}"),)}) for kind in audit.kinds),
        "cases": cases,
    }
    telling = audit.model_copy(update=changes)
    write_audit(result.folder, telling)
    finding = next(case for case in cases if case.findings).findings[0]
    decided = new_decision(
        finding.id, "keep", reviewer=f"Prof {TELLTALE}", reason=f"as {TELLTALE} said", shown="ab" * 32
    )
    store_decision(result.folder, telling, decided)
    return FoundAudit(result.folder, telling)


def conclusion(class_name):
    return Conclusion(
        parameter=ParameterKey(ParameterKind.OFFSET, 1),
        class_name=class_name,
        unit="px",
        status=Status.CONFIRMED,
        estimate=2.1,
        low=1.6,
        high=2.6,
        patients=34,
        slope=0.9,
        auroc=0.93,
        effect=0.3,
        evidence=(text_evidence(f"{TELLTALE} said so."),),
    )


def with_metadata(old, new):
    """Move an image, and have its file say a name."""
    if old.suffix == ".png":
        said = PngImagePlugin.PngInfo()
        said.add_text("PatientName", TELLTALE)
        exif = Image.Exif()
        exif[0x013B] = TELLTALE
        Image.open(old).save(new, pnginfo=said, exif=exif)
        old.unlink()
        return
    import nibabel

    volume = nibabel.load(old)
    values = np.asarray(volume.dataobj)
    volume.header["descrip"] = TELLTALE.encode()
    nibabel.save(nibabel.Nifti1Image(values, volume.affine, volume.header), new)
    old.unlink()


def texts_of(page):
    """All of a page that could say a name: its text, the values of its records, and the bytes of its pictures."""
    records = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    yield page.encode()
    yield json.dumps([json.loads(record) for record in records], ensure_ascii=False).encode()
    for _, content in DATA_ADDRESS.findall(page):
        yield base64.b64decode(content)


def said_in(found, page):
    """What names somebody or something, and is in a page."""
    audit = found.audit
    ids = [finding.id for case in audit.cases for finding in case.findings]
    names = [TELLTALE, "2031", "11:12", audit.model_sha256[:8], str(found.folder), *ids]
    names += ["Prof", "said", "reader 1", "reader 2", "site-1", "abababab"]
    whole = [
        text.lower() for text in texts_of(re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL))
    ]
    return [name for name in names if any(name.lower().encode() in text for text in whole)]


@pytest.mark.parametrize("with_images", [True, False])
def test_a_shared_copy_says_no_name(telling, tmp_path, with_images):
    # The page that stays says them, so that they would be found.
    private = write_site_page(telling, tmp_path / "private.html").read_text(encoding="utf-8")
    assert {TELLTALE, "2031", "feedbeef", "Prof", "said"} <= set(said_in(telling, private))
    page = write_shared_page(telling, tmp_path / "shared.html", with_images=with_images).read_text(encoding="utf-8")
    assert said_in(telling, page) == []
    state = json.loads(re.search(r'id="state">(.*?)</script>', page, re.DOTALL)[1])
    count = len(telling.audit.cases)
    assert [case["image"] for case in state["cases"]] == [f"Case {number + 1}" for number in range(count)]
    assert {item["choice"] for item in state["decisions"].values()} == {"keep"}
    assert set(state["decisions"]) <= {item["id"] for case in state["cases"] for item in case["findings"]}


def chunks(content):
    """The chunks of a WebP file by their names."""
    assert content[:4] == b"RIFF"
    assert content[8:12] == b"WEBP"
    at = 12
    while at < len(content):
        name, (length,) = content[at : at + 4], struct.unpack("<I", content[at + 4 : at + 8])
        yield name
        at += 8 + length + length % 2


@pytest.mark.parametrize("write", [write_site_page, write_shared_page])
def test_pictures_of_pages_are_pixels_alone(telling, tmp_path, write):
    page = write(telling, tmp_path / "page.html").read_text(encoding="utf-8")
    pictures = DATA_ADDRESS.findall(page)
    assert pictures
    for form, content in pictures:
        assert form == "webp"
        assert set(chunks(base64.b64decode(content))) <= {b"VP8 ", b"VP8L"}


def test_pictures_that_a_review_serves_are_pixels_alone(telling):
    from fedannot.apps.audit.file_pixels import FilePixels, TileRequest

    reader = CaseReader(telling)
    for case in telling.audit.cases[:2]:
        pixels = FilePixels(reader, case, "")
        assert set(chunks(base64.b64decode(pixels.crop().partition(",")[2]))) <= {b"VP8 ", b"VP8L"}
        assert len(pixels.tile(TileRequest(2, 0, 1, 0, 0))) == pixels.channels.values(0)[:, :, 0].nbytes


def test_without_images_no_pixel_is_in_the_copy_and_no_image_is_read(telling, tmp_path, monkeypatch):
    monkeypatch.setattr(CaseReader, "read", lambda *_: pytest.fail("read an image"))
    page = write_shared_page(telling, tmp_path / "shared.html", with_images=False).read_text(encoding="utf-8")
    assert DATA_ADDRESS.findall(page) == []
    contents = [json.loads(item) for item in re.findall(r'id="content-\d+">(.*?)</script>', page, re.DOTALL)]
    assert contents
    for content in contents:
        assert (content["images"], content["given"], content["predicted"]) == ([], None, None)
        assert {place["suggested"] for place in content["findings"]} == {None}
        assert {place["box"] for place in content["findings"]} == {None}


def test_a_case_that_cannot_be_read_does_not_say_which_file_it_was(audit_of, tmp_path):
    result = audit_of("images")
    case = next(case for case in result.audit.cases if case.findings)
    CaseReader(result).files(case).image.unlink()
    page = write_shared_page(result, tmp_path / "shared.html").read_text(encoding="utf-8")
    assert "it cannot be read any more" in page
    assert case.image not in page


def test_the_command_writes_a_copy_for_others_and_a_page_for_nobody_else(audit_of, tmp_path):
    found, before = audit_of("images"), os.umask(0o022)
    try:
        for options, name, mode in (((), "site-1.html", 0o600), (("--share",), "shared-1.html", 0o644)):
            out = tmp_path / name.removesuffix(".html")
            result = CliRunner().invoke(
                audit_app, ["page", str(found.folder), "--no-files", "--out", str(out), *options]
            )
            assert result.exit_code == 0, result.output
            assert stat.S_IMODE((out / name).stat().st_mode) == mode
        assert stat.S_IMODE((tmp_path / "site-1").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    result = CliRunner().invoke(audit_app, ["page", str(found.folder), "--without-images"])
    assert result.exit_code == 2
    assert "--share" in result.output


def test_a_shared_copy_can_be_looked_at_and_decides_nothing(audit_of, tmp_path):
    result = audit_of("images")
    page = write_shared_page(result, tmp_path / "shared.html")
    with chromium(tmp_path / "profile") as browser:
        open_page(browser, page.as_uri())
        assert text_of(browser, "case-title") == "Case 1"
        assert len(colours_on(browser, "view-given")) > 50
        press(browser, "a")
        press(browser, "n")
        wait_for(lambda: text_of(browser, "case-title") == "Case 2")
        names = ("accept", "keep", "later", "commenting", "review-bar")
        assert all(browser.find_element("id", name).get_property("hidden") for name in names)
        assert text_of(browser, "progress").startswith("0 of")
        assert browser.execute_script("return localStorage.length") == 0
        assert browser.get_log("browser") == []
        assert set(asked_addresses(browser)) == {page.as_uri()}


def test_a_copy_without_images_shows_its_findings(audit_of, tmp_path):
    page = write_shared_page(audit_of("slices"), tmp_path / "shared.html", with_images=False)
    with chromium(tmp_path / "profile") as browser:
        browser.get(page.as_uri())
        wait_for(lambda: text_of(browser, "case-title") == "Case 1")
        assert browser.execute_script("return document.getElementById('views').hidden")
        press(browser, "n")
        assert "Missed objects" in text_of(browser, "findings")
        assert browser.execute_script("return document.querySelectorAll('img').length") == 0
        assert browser.get_log("browser") == []
