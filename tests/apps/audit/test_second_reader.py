"""A second reader who is blind to the first: what the page holds back, what is stored, and what becomes of it."""

import pytest
from typer.testing import CliRunner

from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.posted import PostedDecision
from fedannot.apps.audit.review import ReviewServer
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.apps.commands.audit import audit_app
from fedannot.custom.audit.decisions import read_decisions


@pytest.fixture
def read_twice(audit_of):
    """Dr Ada accepts all four; Dr Bo, blind, accepts the first two and keeps the third."""
    found = audit_of("images")
    reader = CaseReader(found)
    for case in found.audit.cases:
        name, shown = case.findings[0].id, reader.shown(case)
        store_decision(
            found.folder, found.audit, new_decision(name, "accept", reviewer="Dr Ada", reason="my rim", shown=shown)
        )
    server = ReviewServer(reader, None, "Dr Bo", is_blind=True)
    try:
        before = server.page()
        for number, choice in enumerate(("accept", "accept", "keep")):
            case = found.audit.cases[number]
            values = {"case": number, "finding": case.findings[0].id, "choice": choice, "reason": ""}
            server.decide(PostedDecision.model_validate(values | {"shown": reader.shown(case)}))
        after = server.page()
    finally:
        server.server_close()
    return found, before, after


def test_a_blind_reader_sees_nothing_of_the_first_and_is_stored_as_blind(read_twice):
    found, before, after = read_twice
    for page in (before, after):
        assert "Ada" not in page
        assert "my rim" not in page
    assert '"choice":' not in before
    assert after.count('"choice":') == 3
    stored = read_decisions(found.folder, found.site).decisions
    assert [decision.is_blind for decision in stored] == [False] * 4 + [True] * 3


def test_where_readers_differ_nothing_is_written_until_somebody_decides(read_twice, tmp_path):
    found, _, _ = read_twice
    third = found.audit.cases[2]
    result = CliRunner().invoke(audit_app, ["apply", str(found.folder), "--out", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "warning: readers differ on 1 finding" in result.output
    assert "3 new annotations" in result.output
    reader = CaseReader(found)
    resolved = new_decision(third.findings[0].id, "keep", reviewer="Dr Cy", reason="", shown=reader.shown(third))
    decisions = store_decision(found.folder, found.audit, resolved)
    applied = apply_decisions(reader, decisions, tmp_path / "again")
    assert {case.image: case.review.origin for case in applied.record.cases}[third.image] == "kept"


def test_the_command_says_how_far_readers_agree(read_twice):
    found, _, _ = read_twice
    result = CliRunner().invoke(audit_app, ["agreement", str(found.folder)])
    assert result.exit_code == 0, result.output
    # By hand: Ada accepts 3 of 3, Bo 2 of 3: p_o = p_e = 2/3, so kappa is 0.
    words = " ".join(result.output.split())
    assert "Dr Ada and Dr Bo agree on 2 of 3 findings (67 %" in words
    assert "kappa 0.00), one of them blind." in words
    assert "Dr Ada accepts the suggestion and Dr Bo keeps the annotation" in words


def test_blind_needs_a_name_and_agreement_two_readers(audit_of):
    found = audit_of("classes")
    result = CliRunner().invoke(audit_app, ["review", str(found.folder), "--blind", "--no-open"])
    assert result.exit_code == 2
    assert "--reviewer" in result.output
    result = CliRunner().invoke(audit_app, ["agreement", str(found.folder)])
    assert "no two readers have decided about the same finding" in result.output
