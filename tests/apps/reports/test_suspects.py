"""The list of suspect labels that a data manager reads."""

import io
import re

from fedannot.apps.reports.suspects import print_suspects
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.label_suspicions import LabelSuspicions, SuspectCase

# Image, class that the model takes it for, how sure it is, how likely its label is right.
CASES = (("a", "cat", 0.61, 0.01), ("b", "cat", 0.99, 0.02), ("c", "dog", 0.999, 0.03), ("d", "cat", 0.7, 0.04))


def record_of(cases):
    suspects = tuple(
        SuspectCase(
            image=f"{name}.png",
            given="dog",
            predicted=predicted,
            confidence=sure,
            clean_probability=likely,
            relabelled=False,
        )
        for name, predicted, sure, likely in cases
    )
    return LabelSuspicions(
        site="site-1",
        data="data",
        method="fedgsca",
        round_number=3,
        noise_level=0.1,
        coefficient=0.5,
        suspects=suspects,
    )


def test_the_list_goes_down_in_the_number_that_it_shows():
    text = io.StringIO()
    print_suspects(record_of(CASES), 2, Terminal(file=text, width=120))
    rows = re.findall(r"(\w)\.png +dog +cat +(\d+)", text.getvalue())
    assert rows == [("b", "99"), ("d", "70")]
    assert "and 1 more" in text.getvalue()


def test_equally_sure_cases_stay_in_the_order_of_their_likelihood():
    equal = [(name, "cat", 0.9, likely) for name, _, _, likely in CASES]
    assert [suspect.image for suspect in record_of(equal).other_class] == ["a.png", "b.png", "c.png", "d.png"]
