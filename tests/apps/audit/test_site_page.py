import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from fedannot.apps.audit import site_page
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit
from fedannot.apps.audit.site_page import embedded_json, served_page, write_site_page
from fedannot.custom.audit.decisions import Decision, Decisions, write_decisions
from fedannot.custom.audit.findings import ReferenceModelKind

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028'\"&{{7*7}}\u202e.png"


class Page(HTMLParser):
    """What a browser sees of a page: its elements, their attributes, the content of its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.styles = [], [], []
        self._into = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._into = ({"script": self.scripts, "style": self.styles}[tag], dict(attrs))
            self._into[0].append((dict(attrs), ""))

    def handle_data(self, data):
        if self._into is not None:
            store, attributes = self._into
            store[-1] = (attributes, store[-1][1] + data)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._into = None

    def json_of(self, name):
        return next(json.loads(text) for attributes, text in self.scripts if attributes.get("id") == name)

    @property
    def policy(self):
        return next(a["content"] for tag, a in self.elements if a.get("http-equiv") == "Content-Security-Policy")


def page_of(found, tmp_path, **options):
    return write_site_page(found, tmp_path / "page.html", **options).read_text(encoding="utf-8")


def hostile(found):
    """The audit with an attack in every text."""
    cases = []
    for case in found.audit.cases:
        findings = tuple(
            finding.model_copy(update={"text": ATTACK, "classes": (ATTACK,), "kind": ATTACK})
            for finding in case.findings
        )
        texts = {"annotator": None, "several_annotators": (ATTACK,), "unit": ATTACK}
        cases.append(case.model_copy(update={"findings": findings} | texts))

    cases[0] = cases[0].model_copy(update={"image": ATTACK, "label": ATTACK})
    kinds = tuple(kind.model_copy(update={"kind": ATTACK}) for kind in found.audit.kinds)
    changes = {
        "cases": tuple(cases),
        "kinds": kinds,
        "predicted_by": ReferenceModelKind(folds=1, text=ATTACK),
        "left_out": ((ATTACK, ATTACK),),
    }
    return FoundAudit(
        found.folder,
        found.audit.model_copy(update=changes),
    )


def test_texts_cannot_become_elements(made_audits, tmp_path):
    clean, attacked = (
        Page(page_of(found, tmp_path, check_files=False))
        for found in (made_audits["images"], hostile(made_audits["images"]))
    )
    allowed = {"script", "style", "img"}
    counts = [sum(tag in allowed for tag, _ in page.elements) for page in (clean, attacked)]
    assert counts[0] == counts[1]
    assert not any(name.startswith("on") for _, attributes in attacked.elements for name in attributes)
    case = attacked.json_of("state")["cases"][0]
    assert case["image"] == ATTACK.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e")


def test_nothing_is_computed_of_what_texts_say(made_audits, tmp_path):
    text = page_of(hostile(made_audits["images"]), tmp_path, check_files=False)
    assert "{{7*7}}" in text
    assert ">49" not in text


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028\u2029", "&lt;", '"\\'])
def test_embedded_json_is_the_same_json_without_what_ends_a_script(text):
    embedded = str(embedded_json({"a": text}))
    assert json.loads(embedded) == {"a": text}
    assert not set("<>&\u2028\u2029") & set(embedded)


def test_half_a_character_of_a_file_name_can_be_written():
    assert json.loads(str(embedded_json(["\udcff"])).encode("utf-8")) == ["\udcff"]


def test_the_policy_allows_the_page_itself_and_nothing_else(made_audits, tmp_path):
    page = Page(page_of(made_audits["images"], tmp_path, check_files=False))
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("img-src") == "data:"
    programs = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    for kind, texts in (("script-src", programs), ("style-src", [text for _, text in page.styles])):
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert rules.pop(kind) == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert rules == {"base-uri": "'none'", "form-action": "'none'"}


def test_a_page_says_of_which_pixels_its_lengths_are(made_audits):
    pages = {kind: served_page(CaseReader(made_audits[kind]), None, "Dr Ada") for kind in ("images", "volumes")}
    size = CaseReader(made_audits["images"]).description.size
    assert f"in px: of images as the model sees them, {size[0]} × {size[1]} pixels." in pages["images"]
    assert "as the model sees them" not in pages["volumes"]


def test_a_served_page_may_ask_its_own_server(made_audits):
    page = Page(served_page(CaseReader(made_audits["images"]), None, "Dr Ada"))
    assert "connect-src 'self'" in page.policy
    assert page.json_of("state")["reviewer"] == "Dr Ada"
    assert [a["id"] for a, _ in page.scripts if a.get("type")] == ["state"]


def test_a_page_names_no_address_elsewhere(made_audits, tmp_path):
    text = page_of(made_audits["slices"], tmp_path)
    # The name of SVG's elements is none that is asked for.
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) == {"http://www.w3.org/2000/svg"}
    kinds = {tag for tag, _ in Page(text).elements}
    assert not kinds & {"link", "iframe", "object", "embed", "base"}


@pytest.mark.parametrize("kind", ["images", "slices", "volumes", "classes"])
def test_a_page_has_every_case_those_with_findings_first(made_audits, tmp_path, kind):
    result = made_audits[kind]
    page = Page(page_of(result, tmp_path, check_files=False))
    state = page.json_of("state")
    ordered = sorted(result.audit.cases, key=lambda case: not case.has_problem)
    assert [case["image"] for case in state["cases"]] == [case.image for case in ordered]
    assert [
        bool(case.findings) or item["findings"][0]["title"] for case, item in zip(ordered, state["cases"], strict=True)
    ] == [bool(case.findings) or "Nothing found" for case in ordered]
    for index in range(len(ordered)):
        assert "problem" not in page.json_of(f"content-{index}")


def test_one_file_holds_the_images_of_the_worst_cases_up_to_a_size(made_audits, tmp_path, monkeypatch):
    whole = Page(page_of(made_audits["classes"], tmp_path, check_files=False))
    sizes = [
        sum(len(text) for attributes, text in whole.scripts if attributes.get("id") in (f"content-{n}", f"crop-{n}"))
        for n in range(20)
    ]
    monkeypatch.setattr(site_page, "MAX_CONTENT_CHARACTERS", sum(sizes[:3]))
    page = Page(page_of(made_audits["classes"], tmp_path, check_files=False))
    held = [a["id"] for a, _ in page.scripts if a.get("id", "").startswith("content-")]
    assert held == ["content-0", "content-1", "content-2"]
    assert len(page.json_of("state")["cases"]) == 20


def test_a_blind_page_has_no_decision_and_no_word_of_others(audit_of):
    found = audit_of("images")
    secret = {"reviewer": "Dr Ada", "reason": "surely the rim"}
    first, second = (case.findings[0].id for case in found.audit.cases[:2])
    decisions = Decisions(site=found.site)
    for name, choice, more in ((first, "accept", secret), (first, "keep", {"reviewer": "Dr Bo", "is_blind": True})):
        decisions = decisions.with_decision(Decision(finding=name, choice=choice, time="", **more))
    decisions = decisions.with_decision(Decision(finding=second, choice="keep", time="", **secret))
    write_decisions(found.folder, decisions)
    text = served_page(CaseReader(found), None, "Dr Bo", is_blind=True)
    assert "Ada" not in text
    assert "surely the rim" not in text
    state = Page(text).json_of("state")
    assert {name: one["choice"] for name, one in state["decisions"].items()} == {first: "keep"}
    assert (state["blind"], state["differing"]) == (True, [])
    seeing = served_page(CaseReader(found), None, "Dr Cy")
    assert Page(seeing).json_of("state")["differing"] == [first]
    assert "Dr Ada and Dr Bo agree on 0 of 1 finding" in seeing


def test_what_is_wrong_with_files_is_on_the_page(audit_of, tmp_path):
    result = audit_of("images")
    CaseReader(result).files(result.audit.cases[0]).image.write_bytes(b"no image")
    text = page_of(result, tmp_path)
    assert "Mend what cannot be read: 1 error" in text
    assert result.audit.cases[0].image in text.split('id="files"')[1]


def test_where_all_files_can_be_read_the_page_says_so(made_audits, tmp_path):
    assert "All files can be read and fit together." in page_of(made_audits["images"], tmp_path)
