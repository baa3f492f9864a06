"""What models score on the sites' own validation cases, as columns of a table: one row per site."""

from collections.abc import Mapping

from ...custom.run.summary_record import OwnCases
from .output import score_text

# Models in the order in which they are shown, and what they are called.
MODELS = {"global": "global", "local_at_half": "local at 0.5", "local": "local"}
_SCORES = {"dice": "Dice %", "left_empty": "left empty %", "hd95": "HD95", "hd95_undefined": "missed"}
# Without a column where no model has them.
_OPTIONAL = ("left_empty", "hd95_undefined")


def own_cases_columns(own_cases: Mapping[str, OwnCases]) -> dict[str, list[str]]:
    """Return the cells of a table by heading; a model that no site has gets no columns.

    What is left empty has one where a site has cases in which nothing is annotated. HD95 is over the cases in which
    something is found; how many were missed stands beside it.

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
            if score not in _OPTIONAL or any(value is not None for value in values):
                columns[f"{called} {heading}"] = [score_text(score, value) for value in values]
    return columns
