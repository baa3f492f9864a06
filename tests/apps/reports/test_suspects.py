"""The list of suspect labels that a data manager reads."""

import io
import re

from support.corrected_runs import made_corrections

from fedannot.apps.reports.suspects import other_class, print_suspects
from fedannot.apps.terminal import Terminal
from fedannot.custom.corrections.kinds import CasesRelabelled
from fedannot.custom.corrections.model import CaseCorrection, NewClass

# Image, class that the model takes it for, how sure it is, how likely its label is right.
CASES = (("a", "cat", 0.61, 0.01), ("b", "cat", 0.99, 0.02), ("c", "dog", 0.999, 0.03), ("d", "cat", 0.7, 0.04))


def record_of(cases):
    doubted = tuple(
        CaseCorrection(
            image=f"{name}.png",
            new_class=NewClass(
                given="dog", becomes="", predicted=predicted, confidence=confident, clean_probability=likely
            ),
        )
        for name, predicted, confident, likely in cases
    )
    relabelled = (CasesRelabelled(noise_level=0.1, threshold=0.5),)
    return made_corrections("data", doubted, method="fedgsca", round_number=3, corrections=relabelled)


def test_the_list_goes_down_in_the_number_that_it_shows():
    text = io.StringIO()
    print_suspects(record_of(CASES), 2, Terminal(file=text, width=120))
    rows = re.findall(r"(\w)\.png +dog +cat +(\d+)", text.getvalue())
    assert rows == [("b", "99"), ("d", "70")]
    assert "and 1 more" in text.getvalue()


def test_equally_sure_cases_stay_in_the_order_of_their_likelihood():
    equal = [(name, "cat", 0.9, likely) for name, _, _, likely in CASES]
    assert [case.image for case in other_class(record_of(equal))] == ["a.png", "b.png", "c.png", "d.png"]
