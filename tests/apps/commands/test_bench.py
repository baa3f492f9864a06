"""`fedannot bench` from a checkout, and outside of one."""

from pathlib import Path

import pytest
import typer
from benchmark_tables.league.rows import ROWS
from benchmark_tables.making import rows_of
from typer.testing import CliRunner

from fedannot.apps.commands.bench import BenchmarkError, bench_app, benchmarks_folder

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
