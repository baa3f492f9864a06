"""Settings planned from a federation's images: as the command gives them, and what is refused."""

from pathlib import Path

import pytest
from pyhocon import ConfigFactory
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.planning import suggested as suggested_module
from fedannot.apps.planning.suggested import suggest_settings
from fedannot.custom import LesionImages, write_phantom_federation
from fedannot.custom.data.description import read_site_description, write_site_description
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
    monkeypatch.setattr(suggested_module, "operations_per_second", lambda dims, threads: 1e11)
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
