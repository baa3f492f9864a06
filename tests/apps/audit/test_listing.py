import io

import pytest
from typer.testing import CliRunner

from fedannot.apps.audit.listing import print_audit, print_audits
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.apps.commands.cli import app
from fedannot.apps.terminal import Terminal
from fedannot.apps.wording.findings import finding_in_words
from fedannot.transforms.errors import DataError


def printed(show):
    console = Terminal(file=io.StringIO(), width=160)
    show(console)
    return console.file.getvalue()


def test_findings_are_listed_the_worst_first_with_what_was_decided(audit_of):
    result = audit_of("images")
    first, second = (case.findings[0] for case in result.audit.cases[:2])
    store_decision(
        result.folder, result.audit, new_decision(first.id, "keep", reviewer="Dr Ada", reason="", shown="whatever")
    )
    lines = printed(lambda console: print_audit(result, console)).splitlines()
    rows = [line for line in lines if "images/" in line and "." in line and "images:" not in line]
    assert [case.image in row for case, row in zip(result.audit.cases, rows, strict=False)] == [True] * len(rows)
    assert "keep" in rows[0]
    assert "keep" not in rows[1]
    assert finding_in_words(second) in rows[1]


def test_only_what_is_asked_for(audit_of):
    result = audit_of("images")
    text = printed(lambda console: print_audit(result, console, limit=1))
    assert "and " + str(sum(len(case.findings) for case in result.audit.cases) - 1) + " more" in text
    assert "no finding of Missed objects" in printed(lambda console: print_audit(result, console, kinds=["missing"]))
    with pytest.raises(DataError, match=r"found no kind 'mising'; expected one of: boundary, missing, wrong_label"):
        print_audit(result, Terminal(file=io.StringIO()), kinds=["mising"])


def test_suspects_lists_what_an_audit_found(audit_of, tmp_path):
    found = audit_of("classes")
    result = CliRunner().invoke(app, ["suspects", str(found.folder.parent)])
    assert result.exit_code == 0, result.output
    assert found.audit.cases[0].image.split("/")[-1][:12] in result.output
    assert not print_audits(tmp_path / "empty", Terminal(file=io.StringIO()))


def test_suspects_of_a_run_without_any_says_how_they_are_found(tmp_path):
    result = CliRunner().invoke(app, ["suspects", str(tmp_path)])
    assert result.exit_code == 1
    assert "this run looked for no suspect label" in result.output
    assert "fedannot audit --data DIR" in result.output
