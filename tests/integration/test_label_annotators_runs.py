"""Classes by several annotators, from a table to the page that compares them: names stay at the site."""

import csv
import html
import json
import re
from pathlib import Path

import pytest
from conftest import JOBS
from nvflare.fuel.utils import fobs
from plain_records import simulate
from support.audit_runs import findings
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.job import Job
from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.audit.annotator_places import AnnotatorsLeft
from fedannot.custom.settings import SettingsError

READERS = ("Ann-Reader", "Bo-Reader", "Cem-Reader")
# Cem-Reader takes each of these two for the other one.
SWAPPED = {0: 1, 1: 0}
SMALL = {"rounds": 1, "training.local_epochs": 1, "network.widths": [4, 4, 4, 4]}
CLASSES = ("round_smooth", "round_granular", "oval_smooth", "oval_granular", "lobed_smooth", "lobed_granular")


def command(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites of pictures with a class by each of three readers, from a table."""
    folder = tmp_path_factory.mktemp("readers")
    raw = folder / "raw" / "site-1"
    write_phantom_federation(folder / "raw", Cells(), num_sites=1, seed=3, images_per_site=48, test_images=1)
    with (folder / "readers.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "class", "reader", "patient"])
        for number, case in enumerate(read_datalist(raw / "datalist.json").section(TRAINING)):
            # Each site has enough patients of the first two classes, and of all others together.
            true = number % 2 if number < 28 else 2 + number % 4
            for name in READERS:
                given = SWAPPED.get(true, true) if name == READERS[2] else true
                table.writerow([case.image.name, CLASSES[given], name, f"p{number}"])
    columns = ("--image-column", "image", "--class-column", "class", "--group-column", "patient")
    places = ("--images", raw / "images", "--classes-csv", folder / "readers.csv", "--out", folder / "read")
    options = ("--annotators", "reader", "--sites", 2, "--test", 0.1, "--size", "16,16")
    said = command("data", "import", *places, *columns, *options)
    assert "majority, random-per-epoch, soft or one:NAME." in said
    return folder


@pytest.fixture(scope="module")
def audited(imported: Path) -> Path:
    copied = ("--scenario", "clean", "--keep-annotations", "--out", imported / "labelled")
    command("data", "annotators", imported / "read", *copied)
    settings = SMALL | {"report_annotators": True}
    job = Job.open(JOBS / "audit_classification").copy_with(settings, imported / "job")
    simulate(job.folder, imported / "run", data=imported / "labelled")
    return imported / "run"


def test_the_page_says_which_classes_an_annotator_confuses(audited: Path) -> None:
    command("audit", "page", audited, "--no-files")
    for site in ("site-1", "site-2"):
        found = findings(audited)[site]
        by_name = {one["annotator"]: one for one in found["annotators"]["annotators"]}
        assert sorted(by_name) == list(READERS)
        pairs = {
            (found["classes"][one["others"]], found["classes"][one["own"]]): one
            for one in by_name["Cem-Reader"]["confused"]
        }
        assert set(pairs) == {(CLASSES[0], CLASSES[1]), (CLASSES[1], CLASSES[0])}
        assert all(one["num_confused"] == one["num_cases"] and one["fraction"]["value"] == 1 for one in pairs.values())
        assert by_name["Ann-Reader"]["confused"] == by_name["Bo-Reader"]["confused"] == []
        (page,) = audited.rglob(f"{site}/**/page.html")
        cells = [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page.read_text())]
        row = cells.index("Cem-Reader", cells.index("Class given"))
        one = pairs[cells[row + 1], cells[row + 2]]
        assert cells[row + 3] == f"{one['num_cases']} of {one['num_cases']}"
        assert cells[row + 4] == "100 % (100 to 100 %)"
        assert cells[cells.index("Ann-Reader – Bo-Reader") + 2].startswith("1.00 (")


def test_the_servers_report_says_which_classes_a_numbered_annotator_swaps(audited: Path) -> None:
    command("audit", "federation", audited, "--out", audited.parent / "federation.html")
    reported = json.loads((audited / "summary.json").read_text())["annotators"]
    for site in ("site-1", "site-2"):
        found = findings(audited)[site]
        first, second = (found["classes"].index(name) for name in CLASSES[:2])
        by_name = {one["annotator"]: one for one in found["annotators"]["annotators"]}
        numbers = {name: one["number"] for name, one in by_name.items()}
        assert len(set(numbers.values()) - {None}) == 3
        assert reported[site]["kappa"]["patients"] == found["num_patients"]
        by_number = {one["number"]: one for one in reported[site]["annotators"]}
        swapped = by_number[numbers["Cem-Reader"]]["classes"]
        assert {int(label): one["given"] for label, one in swapped.items()} == {first: second, second: first}
        assert {one["fraction"]["value"] for one in swapped.values()} == {1}
        (file,) = audited.rglob(f"{site}/**/annotators_left.json")
        left = AnnotatorsLeft.model_validate_json(file.read_bytes())
        assert left.numbers == numbers
        assert by_number[numbers["Ann-Reader"]]["other_class"]["value"] == 0
        message = fobs.dumps(left.sent())
        assert b"annotator_class_given" in message
        assert not any(name.encode() in message for name in READERS)
    page = html.unescape((audited.parent / "federation.html").read_text())
    assert page.count(f"class {second}, and class {first} in place of class {second}") == 2
    assert not any(name in page for name in READERS)


def test_no_annotator_is_in_what_the_server_or_a_shared_copy_has(audited: Path) -> None:
    command("audit", "page", audited, "--share", "--out", audited.parent / "shared")
    shared = list((audited.parent / "shared").rglob("*.html"))
    server = [file for file in (audited / "run" / "server").rglob("*") if file.is_file()]
    assert len(shared) == 2
    assert server
    for file in [*shared, *server, audited / "summary.json"]:
        assert not any(name.encode() in file.read_bytes() for name in READERS), file


@pytest.mark.parametrize("rule", ["majority", "soft", "random-per-epoch", "one:Ann-Reader"])
def test_an_audit_takes_no_rule_and_says_what_it_takes(rule: str) -> None:
    with pytest.raises(SettingsError, match=r"'audit_classification' takes none.*--keep-annotations"):
        Job(JOBS / "audit_classification").settings_with({"training.consensus": rule})


def test_the_same_import_is_trained_on_by_fractions_of_annotators(imported: Path) -> None:
    settings = SMALL | {"training.consensus": "soft", "network.num_classes": len(CLASSES)}
    job = Job.open(JOBS / "fedavg_classification").copy_with(settings, imported / "soft-job")
    summary = simulate(job.folder, imported / "soft", data=imported / "read")
    losses = [site["train_loss"] for site in summary["sites"].values()]
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)
