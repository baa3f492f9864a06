import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.apps.commands.audit import audit_app
from fedannot.custom.audit.decisions import Decisions, write_decisions


def run(*arguments):
    return CliRunner().invoke(audit_app, [str(argument) for argument in arguments])


def accept_first(found):
    case = found.audit.cases[0]
    shown = CaseReader(found).shown(case)
    return new_decision(case.findings[0].id, "accept", reviewer="Dr Ada", reason="", shown=shown)


def test_page_is_written_beside_the_findings_or_where_asked(audit_of, tmp_path):
    found = audit_of("images")
    result = run("page", found.folder.parent)
    assert result.exit_code == 0, result.output
    assert (found.folder / "page.html").is_file()
    assert f"site-1: {found.folder / 'page.html'}" in result.output.replace("\n", "")
    assert run("page", found.folder, "--out", tmp_path / "pages", "--no-files").exit_code == 0
    assert (tmp_path / "pages" / "site-1.html").is_file()


def test_apply_writes_what_was_decided_and_says_it(audit_of):
    found = audit_of("images")
    store_decision(found.folder, found.audit, accept_first(found))
    out = Path(found.audit.data) / "reviewed"
    result = run("apply", found.folder, "--out", out, "--update-datalist")
    assert result.exit_code == 0, result.output
    assert f"site-1: 1 new annotations in {out}, 0 count as given" in result.output
    assert "1 reviewed cases as a reference" in result.output
    assert "datalist.reviewed.json" in result.output
    assert len(json.loads((out / "reference.json").read_text())["reference"]) == 1


def test_apply_takes_decisions_from_a_file(audit_of, tmp_path):
    found = audit_of("images")
    folder = tmp_path / "exported"
    folder.mkdir()
    write_decisions(folder, Decisions(site=found.site, decisions=(accept_first(found),)))
    out = tmp_path / "new"
    result = run("apply", found.folder, "--decisions", folder / "decisions.json", "--out", out)
    assert result.exit_code == 0, result.output
    assert (out / "provenance.json").is_file()


def test_apply_without_decisions_is_an_error_and_writes_nothing(audit_of, tmp_path):
    found = audit_of("images")
    result = run("apply", found.folder, "--out", tmp_path / "new")
    assert result.exit_code == 1
    assert "there is nothing to write" in result.output
    assert not (tmp_path / "new").exists()


def test_export_says_how_much_it_wrote(audit_of, tmp_path):
    found = audit_of("images")
    result = run("export", found.folder, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = f"site-1: 4 findings, 4 cases to review, 4 of them with suggested annotations, in {tmp_path / 'out'}"
    assert text in result.output


@pytest.mark.parametrize("command", ["review", "apply", "export"])
def test_of_several_audits_one_must_be_named(audit_of, tmp_path, command):
    found = audit_of("images")
    other = found.folder.parents[1] / "site-2" / "audit"
    other.mkdir(parents=True)
    text = (found.folder / "findings.json").read_text()
    (other / "findings.json").write_text(text.replace('"site": "site-1"', '"site": "site-2"'))
    options = [] if command == "review" else ["--out", tmp_path / "out"]
    result = run(command, found.folder.parents[1], *options)
    assert result.exit_code == 1
    assert "found audits of site-1, site-2; say which with --site" in result.output
