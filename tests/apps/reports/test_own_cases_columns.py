"""Scores on sites' own cases: Dice where something is annotated stands apart from cases in which nothing is."""

from fedannot.apps.reports.own_cases_columns import own_cases_columns
from fedannot.custom.run.summary_record import OwnCases


def own(**models):
    scores = {name: {"dice": dice, "left_empty": empty, "hd95": 2.5} for name, (dice, empty) in models.items()}
    return OwnCases.model_validate({"round": 3, "num_cases": 4, "models": scores})


def test_what_is_left_empty_has_a_column_of_its_own_where_there_is_any():
    columns = own_cases_columns({"a": own(**{"global": (0.5, 0.25), "local": (0.75, None)}), "b": own()})
    assert columns == {
        "site": ["a", "b"],
        "cases": ["4", "4"],
        "after round": ["3", "3"],
        "global Dice %": ["50.0", "-"],
        "global left empty %": ["25.0", "-"],
        "global HD95": ["2.5", "-"],
        "local Dice %": ["75.0", "-"],
        "local HD95": ["2.5", "-"],
    }


def test_a_model_that_no_site_has_has_no_columns():
    assert list(own_cases_columns({"a": own(local_at_half=(0.5, None))})) == [
        *("site", "cases", "after round", "local at 0.5 Dice %", "local at 0.5 HD95")
    ]


def test_missed_cases_stand_beside_the_distance():
    models = {"local": {"dice": 0.5, "left_empty": None, "hd95": 2.5, "hd95_undefined": 3}}
    columns = own_cases_columns({"a": OwnCases.model_validate({"round": 3, "num_cases": 4, "models": models})})
    assert list(columns.items())[-2:] == [("local HD95", ["2.5"]), ("local missed", ["3"])]
