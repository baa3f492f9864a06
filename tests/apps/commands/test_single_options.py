"""Options that are given twice."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.commands.single_options import refuse_repeated_options


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "league", "--rows", "cells-s40", "--rows", "cells-c20", "--list"],
        ["bench", "league", "--list", "--rows=cells-s40", "--methods", "auto", "--rows=cells-s40"],
        ["plan", "fedavg", "--data", "a", "--data", "b"],
    ],
    ids=["values", "with a sign", "a folder"],
)
def test_a_value_is_not_dropped_without_a_word(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "it is given several times; expected one value." in " ".join(result.output.replace("│", " ").split())


def test_what_takes_several_values_and_flags_are_given_again() -> None:
    program = typer.Typer()

    @program.command()
    def show(names: list[str], add: Annotated[list[str], typer.Option()], once: str = "", loud: bool = False) -> None:
        typer.echo(f"{names} {add} {once} {loud}")

    @program.command()
    def other() -> None:
        """A second one, so that commands have names."""

    refuse_repeated_options(program)
    given = ["show", "a", "--add", "1", "b", "--loud", "--add", "2", "--loud", "--once", "--add"]
    result = CliRunner().invoke(program, given)
    assert (result.exit_code, result.output) == (0, "['a', 'b'] ['1', '2'] --add True\n")
    asked = CliRunner().invoke(program, ["show", "--once", "a", "--once", "b", "--help"])
    assert asked.exit_code == 0
