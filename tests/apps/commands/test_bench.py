"""`fedannot bench` from a checkout, and outside of one."""

from pathlib import Path

import pytest
import typer
from benchmark_tables import making, rows
from benchmark_tables.league import making as league_making
from benchmark_tables.league import running
from benchmark_tables.league.rows import ROWS
from benchmark_tables.making import rows_of
from typer.testing import CliRunner

from fedannot.apps.commands.bench import BenchmarkError, bench_app, benchmarks_folder
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.ray_engine import RayEngine

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(typer.main.get_command(bench_app).commands)  # type: ignore[attr-defined]


def test_the_benchmarks_are_those_of_the_checkout() -> None:
    assert benchmarks_folder() == ROOT / "tests" / "benchmarks"


def test_outside_a_checkout_an_error_says_where_the_benchmarks_are(tmp_path: Path) -> None:
    file = tmp_path / "site-packages" / "fedannot" / "apps" / "commands" / "bench.py"
    with pytest.raises(BenchmarkError, match=r"Found no tests/benchmarks in .*in the repository.*make install"):
        benchmarks_folder(file)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_benchmark_lists_its_rows(name: str) -> None:
    result = CliRunner().invoke(bench_app, [name, "--list"])
    assert result.exit_code == 0, result.output
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.strip() and not line.startswith(" ")]
    assert set(ROWS if name == "league" else rows_of(name)) <= set(listed)


def test_a_row_that_is_not_there_is_refused_with_those_that_are() -> None:
    result = CliRunner().invoke(bench_app, ["auto-labels", "--list", "--rows", "s40,absent"])
    assert result.exit_code == 1
    assert "There are no rows ['absent']; the rows are: s40, s50" in result.stderr


@pytest.mark.parametrize("name", ["feda3i", "league"])
def test_the_engine_reaches_the_comparison_of_a_row(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def compared(*_: object, engine: object, **__: object) -> None:
        given.append(engine)
        raise RunError("not run in this test")

    monkeypatch.setattr(rows if name == "feda3i" else running, "compare", compared)
    monkeypatch.setattr(rows, "chosen_rows", lambda known, names: {})
    row = rows.Row("row", lambda folder, _: folder.mkdir(), [Arm("fedavg", Path("fedavg")), Arm("elr", Path("elr"))])
    monkeypatch.setattr(making, "chosen_rows", lambda known, names: {"row": row})
    monkeypatch.setattr(
        league_making,
        "done",
        lambda request, progress, *_, **__: running.compare_row(tmp_path, [], {}, [0], request, progress),
    )
    options = ["--engine", "ray", "--cpus-per-run", "3", "--gpus-per-run", "0.25", "--ray-address", "local"]
    result = CliRunner().invoke(bench_app, [name, *options, "--seeds", "1", "--out", str(tmp_path / "out")])
    assert "not run in this test" in result.output
    assert given == [RayEngine(3, 0.25, "local")]
