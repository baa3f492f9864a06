"""The result tables that are described, by their names on the command line."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ...custom.data.yaml_file import read_values, validated
from ...transforms.errors import did_you_mean
from .records import Condition, Paper, PaperTable

_FOLDER = Path(__file__).parent / "tables"


class PaperError(ValueError):
    """A paper's table cannot be made as it is asked for; the text says what to do."""


@dataclass(frozen=True)
class NamedTable:
    """A result table with its paper.

    Attributes:
        name: ``feda3i-table2``.
        paper: the paper, with its data sets and conditions.
        table: the table.
        rows: names of the rows that are run; the references are among them.
        conditions: keys of the conditions that are run.
    """

    name: str
    paper: Paper
    table: PaperTable
    rows: frozenset[str]
    conditions: tuple[str, ...]

    def condition(self, key: str) -> Condition:
        """Return a block of columns."""
        return self.paper.conditions[key]

    @property
    def differences(self) -> tuple[str, ...]:
        """How table and data differ from the paper's."""
        keys = dict.fromkeys(self.condition(key).data for key in self.conditions)
        return (*self.table.differs, *(text for key in keys for text in self.paper.data[key].differs))


@cache
def known_tables() -> Mapping[str, NamedTable]:
    """Return all result tables of the papers, by name.

    Raises:
        DataError: if a file of tables is not what it should be.

    >>> from fedannot.apps.papers.reading import known_tables
    >>> known_tables()["fedia-table1"].table.metrics
    ('dice',)
    """
    result = {}
    for file in sorted(_FOLDER.glob("*.yaml")):
        paper = validated(read_values(file, Paper), Paper, str(file))
        for table in paper.tables:
            name = f"{file.stem}-table{table.number}"
            rows = frozenset(row.name for row in table.rows if row.arm is not None)
            result[name] = NamedTable(name, paper, table, rows, table.conditions)
    return result


def find_table(name: str) -> NamedTable:
    """Return a table by its name; upper and lower case are the same.

    Raises:
        PaperError: if there is none.

    >>> find_table("feda3i-table7")
    Traceback (most recent call last):
    ...
    fedannot.apps.papers.reading.PaperError: Found no table 'feda3i-table7'; did you mean 'feda3i-table2' or \
'feda3i-table3'? `fedannot paper --list` lists all.
    """
    tables = known_tables()
    by_lower = {known.lower(): known for known in tables}
    if name.lower() not in by_lower:
        raise PaperError(
            f"Found no table {name!r}{did_you_mean(name, list(tables))} `fedannot paper --list` lists all."
        )
    return tables[by_lower[name.lower()]]


def restricted(named: NamedTable, only: Collection[str]) -> NamedTable:
    """Return the table with some of its rows and blocks of columns to run; references stay, all rows are shown.

    Args:
        named: the table.
        only: names of rows and of conditions; without one of a kind all of that kind are run.

    Raises:
        PaperError: if there is no such row or condition, or a row is not implemented here.
    """
    table, only = named.table, frozenset(only)
    known = {row.name for row in table.rows} | set(table.conditions)
    if unknown := sorted(only - known):
        raise PaperError(
            f"{named.name} has no row or condition {unknown[0]!r}{did_you_mean(unknown[0], sorted(known))} "
            f"Rows: {', '.join(dict.fromkeys(row.name for row in table.rows))}; conditions: "
            f"{', '.join(table.conditions)}."
        )
    if missing := [row.name for row in table.rows if row.name in only and row.arm is None]:
        raise PaperError(
            f"{named.name}: {missing[0]} is not implemented here; the table has the paper's figures alone."
        )
    rows = frozenset(row.name for row in table.rows if row.name in only)
    references = frozenset(group.reference.name for group in table.groups)
    return replace(
        named,
        rows=(rows | references) if rows else named.rows,
        conditions=tuple(key for key in table.conditions if key in only) or named.conditions,
    )
