"""Records as earlier versions wrote them: each is read, reverted, and taken over; a damaged one is named."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.kinds import (
    BoundaryShift,
    CasesRelabelled,
    LesionsAdded,
    MissedObjectsIgnored,
    ObjectsRelabelled,
)
from fedannot.custom.corrections.model import CorrectionState
from fedannot.custom.corrections.store import CorrectionStore, StoredCorrections, read_corrections
from fedannot.transforms.errors import DataError

COMMON = {"site": "site-1", "data": "/data/site-1", "method": "auto", "round_number": 5}
MADE = {"model_sha256": "ab" * 32, "made": "2026-01-01T00:00:00+00:00"}
OBJECTS: dict[str, Any] = {
    **COMMON,
    **MADE,
    "offsets": {"1": 2.0, "2": -0.5},
    "missing": {"1": 0.25},
    "swapped": 0.5,
    "overshoot": {"1": 0.75},
    "cases": [
        {"label": "labels/a.png", "image": "images/a.png", "ignored_objects": 2, "relabelled_objects": 1},
        {"label": "labels/b.png", "image": "images/b.png", "ignored_objects": 0, "reverted": True},
    ],
    "relabelled_file": "",
}
LESIONS: dict[str, Any] = {
    **COMMON,
    **MADE,
    "method": "fedia",
    "threshold": 0.8,
    "smallest_lesion": None,
    "labels": [
        {
            "label": "labels/a.png",
            "image": "images/a.png",
            "file": "labels/0001_a.png",
            "added_voxels": 9,
            "new_lesions": 1,
            "lesions": [{"number": 1, "voxels": 9, "centre": [1, 2], "reverted": False}],
        },
        {"label": "labels/b.png", "image": "images/b.png", "file": "labels/0002_b.png", "waits": True},
        {"label": "labels/c.png", "image": "images/c.png"},
    ],
    "failed": [["labels/d.png", "cannot be read"]],
}
CASES: dict[str, Any] = {
    "round_number": 5,
    "noise_level": 0.2,
    "changed": [{"image": "images/a.png", "given": "cat", "label": "dog"}],
    "transition": [[0.9, 0.1], [0.0, 1.0]],
    "undoes": True,
}
DOUBTED = {"image": "images/a.png", "given": "cat", "predicted": "dog", "confidence": 0.9, "clean_probability": 0.1}
DOUBTS: dict[str, Any] = COMMON | {
    "method": "auto_classification",
    "noise_level": 0.2,
    "coefficient": 0.5,
    "suspects": [DOUBTED | {"relabelled": True}, DOUBTED | {"image": "images/b.png", "relabelled": False}],
}


def written(file: Path, content: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def latest(run: Path) -> StoredCorrections:
    stored = CorrectionStore(run, 5).latest()
    assert stored is not None
    return stored


def test_contours_and_objects(tmp_path: Path) -> None:
    content = io.BytesIO()
    ignored = np.eye(4, dtype=bool)[None]
    np.savez_compressed(content, annotations=np.array(["labels/a.png"]), pixels_0=ignored)
    name = f"ignored-{hashlib.sha256(content.getvalue()).hexdigest()[:16]}.npz"
    file = written(tmp_path / "undone" / "round_5" / "undone.json", OBJECTS | {"ignored_file": name})
    file.with_name(name).write_bytes(content.getvalue())
    corrections = latest(tmp_path).corrections
    assert corrections.corrections == (
        ObjectsRelabelled(fraction=0.5),
        BoundaryShift(bias={1: 2.0, 2: -0.5}),
        MissedObjectsIgnored(missed={1: 0.25}, ignored={}),
    )
    first, second = corrections.cases
    assert (first.label, first.ignored_objects, first.relabelled_objects, first.is_active) == (
        "labels/a.png",
        2,
        1,
        True,
    )
    assert second.state is CorrectionState.REVERTED
    assert (corrections.provenance.method, corrections.provenance.made) == ("auto", MADE["made"])
    np.testing.assert_array_equal(latest(tmp_path).pixels(2)["labels/a.png"].ignored, ignored)


def test_a_later_decision_is_written_beside_an_earlier_record_and_counts(tmp_path: Path) -> None:
    file = written(tmp_path / "undone" / "round_5" / "undone.json", OBJECTS)
    before = file.read_bytes()
    assert revert(latest(tmp_path).folder, ["a.png"]).reverted == {"labels/a.png", "labels/b.png"}
    assert latest(tmp_path).corrections.reverted == {"labels/a.png", "labels/b.png"}
    restore(latest(tmp_path).folder)
    assert latest(tmp_path).corrections.reverted == frozenset()
    assert file.read_bytes() == before


def test_added_lesions(tmp_path: Path) -> None:
    written(tmp_path / "corrections" / "corrections.json", LESIONS)
    stored = latest(tmp_path)
    assert stored.corrections.corrections == (LesionsAdded(threshold=0.8, smallest_lesion=None),)
    states = [(case.state, case.mask is not None) for case in stored.corrections.cases]
    assert states == [
        (CorrectionState.ACTIVE, True),
        (CorrectionState.PROPOSED, True),
        (CorrectionState.ACTIVE, False),
    ]
    assert stored.corrections.failed == (("labels/d.png", "cannot be read"),)
    data, folder = Path("/data/site-1"), tmp_path / "corrections"
    assert CorrectionStore(tmp_path, 5).files_in_use(data) == {data / "labels/a.png": folder / "labels/0001_a.png"}
    assert CorrectionStore(tmp_path, 4).files_in_use(data) == {}
    revert(folder, ["a.png"])
    assert CorrectionStore(tmp_path, 5).files_in_use(data) == {}


def test_relabelled_cases_with_the_site_that_another_record_names(tmp_path: Path) -> None:
    written(tmp_path / "undone_labels" / "round_5.json", CASES)
    assert latest(tmp_path).site == ""
    written(tmp_path / "label_suspicions.json", DOUBTS)
    corrections = latest(tmp_path).corrections
    assert (corrections.site, corrections.data) == ("site-1", "/data/site-1")
    transition = ((0.9, 0.1), (0.0, 1.0))
    assert corrections.of(CasesRelabelled) == CasesRelabelled(noise_level=0.2, transition=transition)
    (case,) = corrections.cases
    assert case.new_class is not None
    assert (case.image, case.new_class.given, case.new_class.becomes) == ("images/a.png", "cat", "dog")
    written(tmp_path / "undone_labels" / "round_5.json", CASES | {"undoes": False})
    assert latest(tmp_path).corrections.corrections == ()


@pytest.mark.parametrize(
    ("name", "content", "files"),
    [
        ("undone/round_5/undone.json", OBJECTS, []),
        ("undone_labels/round_5.json", CASES, []),
        ("corrections/corrections.json", LESIONS, ["labels/0001_a.png", "labels/0002_b.png"]),
    ],
)
def test_a_run_that_goes_on_takes_over_the_record_of_an_earlier_version(
    tmp_path: Path, name: str, content: dict[str, Any], files: list[str]
) -> None:
    folder = written(tmp_path / "earlier" / name, content).parent
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(file.encode())
    store = CorrectionStore(tmp_path / "now", 9)
    assert store.adopt([tmp_path / "earlier"], 4, tmp_path) is None
    assert store.adopt([tmp_path / "earlier"], 5, tmp_path) == tmp_path / "earlier"
    stored = store.latest()
    assert stored is not None
    assert stored.folder == tmp_path / "now" / "corrections" / "round_5"
    before = latest(tmp_path / "earlier").corrections
    assert stored.corrections == before.model_copy(update={"data": str(tmp_path)})
    assert [(stored.folder / file).read_bytes() for file in files] == [file.encode() for file in files]


@pytest.mark.parametrize(
    "name", ["undone/round_5/undone.json", "undone_labels/round_5.json", "corrections/corrections.json"]
)
@pytest.mark.parametrize("text", ["{", '{"round_number": 5, "unknown": 1}'])
def test_a_record_that_cannot_be_read_is_named_and_never_passed_over(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(DataError) as error:
        CorrectionStore(tmp_path, 9).latest()
    assert str(file) in str(error.value)


def test_a_record_of_another_round_than_its_folder_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "undone" / "round_4" / "undone.json", OBJECTS).parent
    with pytest.raises(DataError, match="found corrections made before round 5"):
        read_corrections(folder)


def test_data_managers_see_earlier_records_by_the_same_commands(tmp_path: Path) -> None:
    run = tmp_path / "site-1" / "simulate_job"
    written(run / "undone_labels" / "round_5.json", CASES)
    written(run / "label_suspicions.json", DOUBTS)
    written(tmp_path / "site-2" / "simulate_job" / "undone" / "round_5" / "undone.json", OBJECTS | {"site": "site-2"})
    result = CliRunner().invoke(app, ["corrections", "list", str(tmp_path)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "site-1: 1 of 1 case counts otherwise" in result.output
    assert "contours of class 1 moved by -2.0" in result.output
    listed = CliRunner().invoke(app, ["suspects", str(tmp_path)], env={"COLUMNS": "200"})
    assert listed.exit_code == 0, listed.output
    text = " ".join(listed.output.split())
    assert "site-1: 2 labels (20.0 %) do not look right to the model of round 5" in text
    assert "images/a.png cat dog 90 dog images/b.png cat dog 90 not used" in text
