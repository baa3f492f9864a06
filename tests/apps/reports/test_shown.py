"""`fedannot show`: of an output folder, of a comparison, and of what is neither."""

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.functions.runs import simulate

TINY = {
    "rounds": 1,
    "network.features": [2, 2, 4, 4, 4, 2],
    "training.local_epochs": 1,
    "embedded.sites": 2,
    "embedded.noise": None,
    "embedded.stratified": None,
    "embedded.images_per_site": 2,
    "embedded.test_images": 2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate("fedavg", tmp_path_factory.mktemp("runs") / "one", changes=TINY)


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser would have been asked for."""
    addresses = []
    monkeypatch.setattr("typer.launch", addresses.append)
    return addresses


def test_an_output_folder_stays_what_it_is_and_gets_its_report_again(run, opened):
    before = {file: file.read_bytes() for file in (run.folder / "model.pt", run.folder / "summary.json")}
    page = run.report.read_text(encoding="utf-8")
    run.report.unlink()
    result = CliRunner().invoke(app, ["show", str(run.folder)])
    assert result.exit_code == 0, result.output
    assert f"Report: {run.report}" in result.stdout.replace("\n", "")
    assert run.report.read_text(encoding="utf-8") == page
    assert {file: file.read_bytes() for file in before} == before
    assert opened == []


def test_the_report_is_opened_where_that_is_asked_for(run, opened):
    assert CliRunner().invoke(app, ["show", str(run.folder), "--open"]).exit_code == 0
    assert opened == [str(run.report)]


def test_a_folder_without_a_run_is_named_in_one_line(tmp_path, opened):
    result = CliRunner().invoke(app, ["show", str(tmp_path), "--open"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert str(tmp_path) in result.stderr
    assert opened == []
