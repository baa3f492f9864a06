"""An option that is given twice is refused; by itself a command takes the last one without a word."""

from typing import Any

import typer
from typer.core import TyperCommand


class _SingleOptions(TyperCommand):
    """A command each of whose options is given once, but for flags and those that take several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises:
            BadParameter: if an option is given again.
        """
        # The options in the order in which they are given, then the arguments.
        given: list[Any] = self.make_parser(ctx).parse_args(list(args))[2]
        if not ctx.resilient_parsing and not any(parameter.is_eager for parameter in given):
            for parameter in given:
                if _has_one_value(parameter) and given.count(parameter) > 1:
                    raise typer.BadParameter("it is given several times; expected one value.", ctx=ctx, param=parameter)
        return super().parse_args(ctx, args)


def refuse_repeated_options(app: typer.Typer) -> None:
    """Let all commands of a program refuse an option that is given twice, also those of its groups.

    Args:
        app: with all of its commands.
    """
    for command in app.registered_commands:
        command.cls = _SingleOptions
    for group in app.registered_groups:
        if group.typer_instance is not None:
            refuse_repeated_options(group.typer_instance)


def _has_one_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)
