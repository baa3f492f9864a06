"""Each thing that can be wrong with a kit's policy has a sentence, which names the values that go with it."""

import re
import string

import pytest

from fedannot.apps.wording.kit_faults import _SENTENCES, kit_fault_in_words
from fedannot.custom.flare.kit_policies import KitFault, KitProblem, Policy


@pytest.mark.parametrize("problem", KitProblem)
def test_a_sentence_names_the_values_of_its_problem(problem: KitProblem) -> None:
    documented = re.search(rf"^ +{problem.name}: ((?:.|\n)*?)(?=^ +[A-Z_]+: |\Z)", KitProblem.__doc__ or "", re.M)
    assert documented is not None
    # Of code that is no value, the folder alone.
    named = set(re.findall(r"``(\w+)``", documented[1])) - {"local"}
    assert {name for _, name, _, _ in string.Formatter().parse(_SENTENCES[problem]) if name} == named
    said = kit_fault_in_words(KitFault(Policy.LOGS, problem, {name: f"<{name}>" for name in named}))
    assert all(f"<{name}>" in said for name in named)


def test_an_error_names_policy_problem_and_values() -> None:
    fault = KitFault(Policy.APPROVED_JOBS, KitProblem.ANY_JOB, {"component": "site_gate"})
    assert str(fault) == "approved jobs: any job runs (component site_gate)"
    assert str(KitFault(Policy.APPROVED_JOBS, KitProblem.NO_JOB)) == "approved jobs: none"
