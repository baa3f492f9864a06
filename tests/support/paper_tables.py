"""Tables of the papers, with a method that is not implemented."""

from dataclasses import replace

from fedannot.apps.papers.reading import NamedTable, known_tables


def without_arm(table: str, row: str) -> NamedTable:
    """Return a table in which a row has its published figures alone."""
    named = known_tables()[table]
    groups = tuple(
        group.model_copy(
            update={
                "rows": tuple(
                    each.model_copy(update={"arm": None}) if each.name == row else each for each in group.rows
                )
            }
        )
        for group in named.table.groups
    )
    made = named.table.model_copy(update={"groups": groups})
    return replace(named, table=made, rows=named.rows - {row})
