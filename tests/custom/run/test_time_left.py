import pytest

from fedannot.custom.run.time_left import duration, time_left


def test_the_latest_rounds_count():
    """Of a run whose first rounds were of another stage; a slow one in between changes nothing."""
    assert time_left([90.0, 80.0, 4.0, 5.0, 60.0, 5.0, 6.0], 10) == 50.0
    assert time_left([3.0], 2) == 6.0


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.0, "1 s"), (89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_durations_as_a_person_names_them(seconds, expected):
    assert duration(seconds) == expected
