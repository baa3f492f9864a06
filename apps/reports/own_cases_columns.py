"""What models score on the sites' own validation cases, as columns of a table: one row per site."""

from collections.abc import Mapping

from ...custom.run.summary_record import OwnCases
from .output import number, percent

# Models in the order in which they are shown, and what they are called.
MODELS = {"global": "global", "local_at_half": "local at 0.5", "local": "local"}
_SCORES = {"dice": "Dice %", "left_empty": "left empty %", "hd95": "HD95"}


def own_cases_columns(own_cases: Mapping[str, OwnCases]) -> dict[str, list[str]]:
    """Return the cells of a table by heading; a model that no site has gets no columns.

    What is left empty has one where a site has cases in which nothing is annotated.

    Args:
        own_cases: by site.
    """
    columns = {
        "site": list(own_cases),
        "cases": [str(found.num_cases or "-") for found in own_cases.values()],
        "after round": [str(found.round) for found in own_cases.values()],
    }
    for name, called in MODELS.items():
        scores = [found.models.get(name) for found in own_cases.values()]
        if not any(scores):
            continue
        for score, heading in _SCORES.items():
            values = [None if found is None else getattr(found, score) for found in scores]
            if score != "left_empty" or any(value is not None for value in values):
                write = number if score == "hd95" else percent
                columns[f"{called} {heading}"] = [write(value) for value in values]
    return columns
