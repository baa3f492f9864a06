"""Settings planned from a federation's images: as the command gives them, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from pyhocon import ConfigFactory
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.planning import machine
from fedannot.apps.planning import suggested as suggested_module
from fedannot.apps.planning.machine import MachineSpeed
from fedannot.apps.planning.suggested import suggest_settings
from fedannot.apps.planning.suggestion import SuggestedSettings
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.settings_files import PlannedTime, SettingsFile
from fedannot.custom import LesionImages, write_phantom_federation
from fedannot.custom.data.description import (
    AnyDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
    write_site_description,
)
from fedannot.custom.planning.fingerprint import CaseFingerprint, Fingerprint
from fedannot.custom.planning.topology import Topology
from fedannot.custom.planning.training_plan import Grid, Limit, TrainingPlan
from fedannot.transforms.errors import DataError


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites of generated lesions."""
    folder = tmp_path_factory.mktemp("planned") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    return folder


def test_the_file_holds_the_planned_values(federation: Path, tmp_path: Path) -> None:
    suggested = suggest_settings(federation, hours=0.01)
    assert suggested.training.step_seconds > 0
    file = tmp_path / "planned.conf"
    suggested.write(file)
    written = ConfigFactory.parse_file(file)["settings"]
    for key, value in suggested.values.items():
        assert written.get(key) == value
    assert (written["network"]["_target_"], written["network"]["num_classes"]) == ("DynUNet", 1)
    halvings = sum(stride == [2, 2] for stride in written["network"]["strides"])
    assert 64 % 2**halvings == 0
    with pytest.raises(DataError, match="is there already"):
        suggested.write(file)


@pytest.fixture
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose speed need not be measured."""
    monkeypatch.setattr(suggested_module, "machine_speed", lambda dims, threads: MachineSpeed(1e11, "bf16", 1.8))
    monkeypatch.setattr(suggested_module, "step_seconds", lambda *args, **options: 0.25)


@pytest.mark.usefixtures("known_machine")
def test_the_command_shows_or_writes_it(federation: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", str(federation), "--hours", "0.1"])
    assert shown.exit_code == 0, shown.output
    # 306 s of training at two sites in turn.
    assert "steps a site in all" in shown.output
    assert ConfigFactory.parse_string(shown.output)["settings.rounds"] == 51
    file = tmp_path / "planned.conf"
    written = CliRunner().invoke(app, ["plan", str(federation), "--hours", "0.1", "--side-by-side", "--out", str(file)])
    assert written.exit_code == 0, written.output
    settings = ConfigFactory.parse_file(file)["settings"]
    assert settings["rounds"] * settings["training"]["local_steps"] == 1224


@pytest.mark.usefixtures("known_machine")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "rounds=2"], "is a federation or a run, but --set goes with a job"),
        (["--hours", "0"], "equal to 0.001"),
        (["--hours", "inf"], "equal to 100000"),
        (["--memory-gb", "inf"], "equal to 1000000"),
        (["--memory-gb", "0.001"], "Expected room for the smallest network"),
    ],
)
def test_what_does_not_fit_is_refused(federation: Path, options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["plan", str(federation), *options])
    assert result.exit_code != 0
    assert said in " ".join(result.output.replace("│", " ").split())


def test_sites_that_differ_are_named(federation: Path) -> None:
    folder = federation / "site-2"
    before = read_site_description(folder)
    write_site_description(folder, before.model_copy(update={"size": (32, 64)}))
    try:
        with pytest.raises(DataError, match="site-2: key 'size'"):
            suggest_settings(federation)
    finally:
        write_site_description(folder, before)


@pytest.mark.parametrize(
    ("key", "value"),
    [("orientation", "LPS"), ("slice_axis", 1), ("channels", 2), ("channels", ("T1", "T2")), ("classes", ("other",))],
)
def test_sites_that_give_a_network_something_else_are_refused(
    federation: Path, tmp_path: Path, key: str, value: object
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(federation, folder)
    slices = SliceDescription(classes=("lesion",), labels={0: 0, 1: 1}, size=(64, 64))
    for site in ("site-1", "site-2"):
        changed = {key: value} if site == "site-2" else {}
        write_site_description(folder / site, SliceDescription.model_validate(slices.model_dump() | changed))
    with pytest.raises(DataError, match=f"site-2: key '{key}' is "):
        suggest_settings(folder)


def fingerprint(spacings: list[float], fractions: list[list[float]]) -> Fingerprint:
    """Of cases with given sizes of a voxel along the last axis and fractions of two classes."""
    return Fingerprint.of_cases(
        [
            CaseFingerprint(f"p{index}", (1.0, 1.0, spacing), (64, 64, 32), np.array(of_case), np.zeros(192))
            for index, (spacing, of_case) in enumerate(zip(spacings, fractions, strict=True))
        ]
    )


def sentences_on(found: Fingerprint) -> list[str]:
    """What a plan says of a fingerprint beside the numbers that it always has."""
    training = TrainingPlan(
        Topology.of((64, 64, 32), (1.0, 1.0, 1.0), 8), Limit.IMAGES, Limit.TIME, 2, 0.5, 10, 5, is_whole=False
    )
    grid = Grid((64.0, 64.0, 32.0), (1.0, 1.0, 1.0))
    time = PlannedTime(hours=1, sites=2, step_seconds=0.5)
    return list(SuggestedSettings(found, grid, training, (), (), ("organ", "tumour"), time).sentences[3:])


def test_two_groups_of_spacings_are_said() -> None:
    assert not sentences_on(fingerprint([1.0, 1.1], [[0.1, 0.1]] * 2))
    (said,) = sentences_on(fingerprint([0.5, 5.0, 0.5, 5.0], [[0.1, 0.1]] * 4))
    # ln 0.5 and ln 5 lie 1.151 from their middle: exp(0.458 ± 1.2816 · 1.1513).
    assert "0.36 to 6.9 along the third axis" in said
    assert "first axis" not in said


def test_rare_classes_are_named() -> None:
    rare, absent = sentences_on(fingerprint([1.0] * 4, [[0.0004, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    assert rare.startswith("'organ' is rare: 0.01 % of all pixels, annotated in 25 % of the cases.")
    assert absent == "'tumour' is annotated in no case: it cannot be learnt."


def test_the_file_says_what_it_was_planned_for(federation: Path, tmp_path: Path, known_machine: None) -> None:
    del known_machine
    file = tmp_path / "planned.conf"
    suggest_settings(federation, hours=0.5).write(file)
    read = SettingsFile.read(Job.open("fedavg"), str(file))
    assert read.planned == PlannedTime(hours=0.5, sites=2, step_seconds=0.25)


@pytest.mark.parametrize(
    ("description", "axes"),
    [
        (VolumeDescription(classes=("a",), labels={0: 0, 1: 1}), (0,)),
        (VolumeDescription(classes=("a",), labels={0: 0, 1: 1}, orientation="PIL"), (2,)),
        # Coronal slices have the axes 0 and 2; sagittal ones lack that from left to right.
        (SliceDescription(classes=("a",), labels={0: 0, 1: 1}, size=(64, 64), slice_axis=1, orientation="SAL"), (1,)),
        (SliceDescription(classes=("a",), labels={0: 0, 1: 1}, size=(64, 64), slice_axis=0), ()),
        (ImageDescription(channels=1, classes=("a",), labels={0: 0, 1: 1}, size=(64, 64)), None),
    ],
)
def test_volumes_are_mirrored_from_left_to_right_alone(
    description: AnyDescription, axes: tuple[int, ...] | None
) -> None:
    assert suggested_module.mirror_axes(description) == axes


def test_mixed_precision_is_planned_where_it_is_faster(federation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machine, "step_seconds", lambda *args, precision="fp32", **options: {"fp32": 0.4, "bf16": 0.2}[precision]
    )
    monkeypatch.setattr(machine, "preferred_device", lambda: torch.device("cpu"))
    speed = machine.machine_speed(2)
    assert (speed.precision, speed.gain) == ("bf16", 2.0)
    asked = []
    monkeypatch.setattr(suggested_module, "step_seconds", lambda *args, **options: asked.append(options) or 0.25)
    suggested = suggest_settings(federation, hours=0.1)
    assert suggested.values["training.precision"] == "bf16"
    assert {options["precision"] for options in asked} == {"bf16"}
    monkeypatch.setattr(machine, "step_seconds", lambda *args, **options: 0.4)
    assert machine.machine_speed(2).precision == "fp32"
    assert "training.precision" not in suggest_settings(federation, hours=0.1).values
