import pytest
from measuring import SpeedTable


@pytest.fixture(scope="session")
def speed_table():
    """The table of this run, written when the last benchmark is over."""
    table = SpeedTable()
    yield table
    table.write()
