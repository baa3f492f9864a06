"""The table of what each round scored."""

from pathlib import Path

import pytest

from fedannot.apps.reports.rounds_file import read_round_lines
from fedannot.transforms.errors import DataError


def test_a_damaged_table_of_rounds_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results_rounds.csv"
    assert read_round_lines(file) == []
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no table"):
        read_round_lines(file)
