"""The federation's page of an audit: sites side by side, without a case, and nothing that a site's name could do."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from plain_records import summary
from support.chromium import accessibility_faults, chromium

from fedannot.apps.audit.federation_page import _tick_step, write_federation_page
from fedannot.apps.audit.federation_report import federation_report
from fedannot.custom.audit.kind_names import SEGMENTATION_KINDS
from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.methods.audit_classification.settings import AuditClassificationSettings
from fedannot.transforms.errors import DataError

HOSTILE = "<script>alert(1)</script>"


def parameter(estimate, effect, status="confirmed", *codes):
    return {
        "estimate": estimate, "low": estimate - 0.5, "high": estimate + 0.7, "patients": 12, "slope": 1.0,
        "auroc": 0.9, "effect": effect, "p_value": None if status == "unknown" else 0.001, "status": status,
        "evidence": [{"code": code} for code in codes],
    }  # fmt: skip


def channel(offsets, missing):
    sites = {
        site: {
            "parameters": {"offset 1": one, "missing 1": missing.get(site, parameter(0.0, 0.0, "not_significant"))},
            "offsets": {"1": one["effect"]} if one["status"] == "confirmed" else {},
            "missing": {},
            "undone_before_round": None,
        }
        for site, one in offsets.items()
    }
    level = {
        "kind": "site", "value": 0.0, "standard_error": 0.1, "is_sure": True, "unit": "mm",
        "reasons": [{"code": "site", "names": {"site": HOSTILE}}],
    }  # fmt: skip
    decision = {"outcome": "nothing", "is_applied": False}
    return {"before_round": 7, "reference_levels": {"1": level}, "decision": decision, "sites": sites}


def audited(offsets, missing=None):
    shares = {kind: {"flagged": 0.25, "auroc": 0.97 if kind == "boundary" else None} for kind in SEGMENTATION_KINDS}
    return summary(
        method="audit",
        settings=AuditSettings(rounds=6).model_dump(mode="json"),
        sites={site: {} for site in offsets},
        channels=[channel(offsets, missing or {})],
        audit={
            "version": 1,
            "kinds": dict.fromkeys(offsets, shares),
            "patients": dict.fromkeys(offsets, 12),
            "units": dict.fromkeys(offsets, "mm"),
            "informed": [site for site in offsets if site != "site-10"],
        },
    )


SITES = {
    "site-10": parameter(4.0, 2.0),
    "site-2": parameter(-1.0, -3.0),
    "site-3": parameter(2.1, 0.1, "not_significant"),
    HOSTILE: parameter(9.0, 7.0, "unknown"),
}


def test_the_headline_counts_sites_by_what_is_wrong():
    assert federation_report(audited(SITES)).headline == "Contours too small at 1, contours too large at 1 of 4 sites."
    one = {"a": SITES["site-3"]}
    assert federation_report(audited(one)).headline == "All sites annotate alike, as far as this audit can tell."
    left_out = federation_report(audited(one, {"a": parameter(0.3, 0.3)}))
    assert left_out.headline == "Missed objects at 1 of 1 sites."
    unknown = {"a": SITES[HOSTILE]}
    assert "not all could be tested" in federation_report(audited(unknown)).headline


def test_figures_are_effects_and_say_what_auto_would_do():
    report = federation_report(audited(SITES))
    offsets, missing = report.tables
    rows = {row.site: row for row in offsets.rows}
    assert list(rows) == sorted(rows, key=lambda site: (site[0] != "<", len(site)))
    assert (rows["site-10"].shown, rows["site-10"].interval) == ("+2.0 mm", "+1.5 to +2.7")
    assert rows["site-10"].would == "move contours by −2.0 mm"
    assert (rows["site-3"].status, rows["site-3"].would) == ("not_significant", "nothing")
    assert rows[HOSTILE].words == "Cannot tell"
    assert missing.rows[0].unit == "%"
    assert report.silent == ("site-10",)
    assert report.shares["site-2"][:2] == ("25 % (0.97)", "25 % (not known)")


def test_confused_classes_have_a_table_of_all_classes_at_last():
    record = audited({"a": SITES["site-3"], "b": SITES["site-3"]})
    sites = record.model_extra["channels"][0]["sites"]
    sites["a"]["parameters"]["swapped 0"] = parameter(0.0, 0.0, "not_significant")
    sites["b"]["parameters"]["swapped 0"] = parameter(0.92, 0.9)
    sites["b"]["swapped"] = 0.9
    report = federation_report(record)
    confused = report.tables[-1]
    assert (confused.title, confused.reference) == (
        "Objects of another class, %",
        "Fractions are relative to the site with the least.",
    )
    assert [row.would for row in confused.rows] == [
        "nothing",
        "relabel the most doubtful objects",
    ]
    assert confused.rows[1].shown == "+90 %"
    assert report.headline == "Objects of another class at 1 of 2 sites."


def test_the_page_escapes_what_it_is_given_and_asks_for_nothing(tmp_path: Path):
    page = write_federation_page(audited(SITES), tmp_path / "audit.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=[\"'](?!#)", page)
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in page


def test_sites_that_differ_are_reported_so_although_the_reference_level_is_unknown():
    unsure = {
        site: parameter(value, value, "unknown", "reference_unsure")
        for site, value in {"a": -3.0, "b": 0.2, "c": 4.5}.items()
    }
    said = federation_report(audited(unsure)).headline
    assert said == "Contours differ by up to 7.5 mm between sites; only a review can tell which are right."
    close = {site: one | {"estimate": 0.2, "effect": 0.0, "low": 0.0, "high": 0.4} for site, one in unsure.items()}
    assert "not all could be tested" in federation_report(audited(close)).headline


def test_every_site_with_a_figure_is_a_point_at_its_place(tmp_path: Path):
    page = write_federation_page(audited(SITES), tmp_path / "audit.html").read_text(encoding="utf-8")
    drawing = ET.fromstring(re.search(r"<svg.*?</svg>", page, re.S)[0])
    circles = [(float(item.get("cx")), item.get("class")) for item in drawing.iter("circle")]
    # From -4 to 8 mm on 600 units that begin at 130.
    places = {"site-2": -3.0, "site-3": 0.1, "site-10": 2.0, HOSTILE: 7.0}
    assert sorted(x for x, _ in circles) == pytest.approx(
        sorted(130 + 600 * (value + 4) / 12 for value in places.values()), abs=0.1
    )
    assert [name for _, name in sorted(circles)] == ["confirmed", "not-significant", "confirmed", "unknown"]


@pytest.mark.parametrize(("extent", "step"), [(9.0, 1.0), (9.1, 2.0), (0.9, 0.1), (45, 5.0), (0, 1.0)])
def test_ticks_are_round_and_few(extent, step):
    assert _tick_step(extent) == pytest.approx(step)


def test_labels_are_shown_like_contours(tmp_path: Path):
    shares = {"wrong_label": {"flagged": 0.4, "auroc": 0.9}}
    audited_labels = summary(
        task="classification",
        method="audit_classification",
        settings=AuditClassificationSettings(rounds=6).model_dump(mode="json"),
        sites={"a": {}, "b": {}},
        noise_levels={"a": parameter(0.4, 0.4), "b": parameter(0.02, 0.02, "not_significant")},
        right_labels={"code": "right_labels_zero"},
        audit={"version": 1, "kinds": {"a": shares, "b": shares}, "patients": {"a": 9, "b": 9}, "informed": ["a", "b"]},
    )
    report = federation_report(audited_labels)
    assert report.headline == "Wrong labels at 1 of 2 sites."
    assert report.decision == "jobs/auto_classification would correct wrong labels at 1 of 2 sites."
    (table,) = report.tables
    assert [(row.shown, row.would) for row in table.rows] == [("+40 %", "correct wrong labels"), ("+2 %", "nothing")]
    assert write_federation_page(audited_labels, tmp_path / "audit.html").is_file()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_everybody_can_use_the_page(tmp_path, width, dark):
    page = write_federation_page(audited(SITES), tmp_path / "audit.html")
    with chromium(tmp_path / "profile", width=width, dark=dark) as browser:
        browser.get(page.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.get_log("browser") == []
        # No text of a drawing is cut off at its sides.
        beyond = browser.execute_script(
            "return [...document.querySelectorAll('svg text')].filter((text) => {"
            "const box = text.getBBox(), whole = text.ownerSVGElement.viewBox.baseVal;"
            "return box.x < 0 || box.x + box.width > whole.width}).map((text) => text.textContent)"
        )
        assert beyond == []
        assert accessibility_faults(browser) == []


def test_a_run_that_audited_nothing_is_named():
    with pytest.raises(DataError, match=r"The run of 'fedavg' audited nothing; expected one of jobs/audit"):
        federation_report(summary(method="fedavg"))
