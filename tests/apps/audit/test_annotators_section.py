"""The section of a site's page about annotators, and that of the federation's page."""

import re

from support.annotators import some_annotators
from test_federation_page import SITES, audited

from fedannot.apps.audit.federation_page import write_federation_page
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.shared_page import write_shared_page
from fedannot.apps.audit.site_page import write_site_page
from fedannot.custom.annotation_bias.annotators.records import AnnotatorClassPair, AnnotatorPair, Figure
from fedannot.custom.audit.findings import read_audit, write_audit

ATTACK = "<img src=x onerror=alert(1)>"


def with_annotators(found: FoundAudit, prefix: str = "") -> FoundAudit:
    write_audit(found.folder, found.audit.model_copy(update={"annotators": some_annotators(prefix)}))
    return FoundAudit(found.folder, read_audit(found.folder))


def section_of(page: str) -> str:
    return re.search(r'<section id="annotators".*?</section>', page, re.DOTALL).group()


def test_the_page_has_a_row_for_each_annotator(audit_of, tmp_path):
    found = with_annotators(audit_of("images"))
    section = section_of(write_site_page(found, tmp_path / "page.html", check_files=False).read_text("utf-8"))
    assert re.findall(r'<th scope="row">(\w+)</th>', section) == ["Ann", "Cem", "Zoe"]
    assert "Contours of lesion are 3.9 px larger than the majority’s" in section
    assert "2 cases without a named annotator" in section
    assert "0.83 (0.80 to 0.86)" in section


def test_both_tables_of_agreement_have_their_columns_and_no_name_does_anything(audit_of, tmp_path):
    found, figure = audit_of("images"), Figure(value=0.5, low=-0.001, high=0.9, patients=7)
    names = (ATTACK, "Zoe")
    pairs = (AnnotatorPair(annotators=names, label=1, dice=figure, hd95=figure),)
    labels = (AnnotatorClassPair(annotators=names, num_cases=9, kappa=figure),)
    audit = some_annotators().model_copy(update={"pairs": pairs, "class_pairs": labels})
    write_audit(found.folder, found.audit.model_copy(update={"annotators": audit}))
    page = write_site_page(FoundAudit(found.folder, read_audit(found.folder)), tmp_path / "page.html")
    tables = re.findall(r'aria-label="Table of agreement">.*?</table>', page.read_text("utf-8"), re.DOTALL)
    cells = [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", table)] for table in tables]
    both = "&lt;img src=x onerror=alert(1)&gt; – Zoe"
    assert cells == [
        ["Annotators", "Cases", "Cohen’s κ", "Patients", both, "9", "0.50 (0.00 to 0.90)", "7"],
        [
            *["Annotators", "Class", "Dice", "HD95", "Patients"],
            both,
            "lesion",
            "0.50 (0.00 to 0.90)",
            "0.5 px (0.0 to 0.9)",
            "7",
        ],
    ]
    assert [table.count('class="number"') for table in tables] == [4, 2]


def test_a_site_without_named_annotators_has_no_such_section(audit_of, tmp_path):
    page = write_site_page(audit_of("images"), tmp_path / "page.html", check_files=False).read_text("utf-8")
    assert 'id="annotators"' not in page


def test_a_name_does_nothing_in_the_page_and_is_not_in_a_copy_for_others(audit_of, tmp_path):
    found = with_annotators(audit_of("images"), ATTACK)
    page = write_site_page(found, tmp_path / "page.html", check_files=False).read_text("utf-8")
    assert ATTACK not in page
    assert "&lt;img src=x onerror=alert(1)&gt;Ann" in section_of(page)
    shared = write_shared_page(found, tmp_path / "shared.html", with_images=False).read_text("utf-8")
    assert 'id="annotators"' not in shared
    assert not any(name in shared for name in ("Zoe", "Cem"))


def test_the_page_of_the_federation_shows_numbers_alone(tmp_path):
    summary = audited(SITES)
    figure = {"value": 2.0, "low": 1.5, "high": 2.5, "patients": 6}
    audit = summary.model_extra["audit"]
    audit["annotators"] = {"site-2": [{"number": 7, "parameters": {"offset 1": figure}}]}
    page = write_federation_page(summary, tmp_path / "audit.html").read_text("utf-8")
    row = re.search(r'<tr><th scope="row">site-2</th><td class="number">7</td>.*?</tr>', page, re.DOTALL).group()
    assert "+2.0 mm (+1.5 to +2.5), 6 patients" in row
