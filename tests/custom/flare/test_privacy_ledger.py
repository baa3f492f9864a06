"""The account of a site's privacy: what is spent, what a budget holds back, and jobs at the same time."""

import json
import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from nvflare.apis.fl_context import FLContext

from fedannot.custom.flare.privacy_ledger import LEDGER_FILE, PrivacyBudget, PrivacyLedger, Spent
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.outbound.private_updates import spent_epsilon
from fedannot.custom.outbound.registry import OutboundError
from fedannot.transforms.errors import DataError


def context(workspace: Path) -> FLContext:
    for needed in ("startup", "local"):
        (workspace / needed).mkdir(exist_ok=True)
    return SiteContext("site-1", "job", str(workspace)).context()


def test_kinds_have_accounts_of_their_own_and_patients_one_of_both(tmp_path: Path) -> None:
    """Two updates with σ = 2 are ε 2.94 of the site, an estimate with σ = 1 is 4.38 of a patient; together 8.39."""
    updates, statistics = PrivacyBudget("updates", 2.0, 1e-5, None), PrivacyBudget("statistics", 1.0, 1e-5, None)
    assert updates.spend(context(tmp_path)) == Spent(1, spent_epsilon(0.25, 1e-5), spent_epsilon(1.0, 1e-5))
    assert updates.spend(context(tmp_path)) == Spent(2, spent_epsilon(0.5, 1e-5), spent_epsilon(2.0, 1e-5))
    assert statistics.spent(context(tmp_path)) == Spent(0, 0.0, spent_epsilon(2.0, 1e-5))
    spent = statistics.spend(context(tmp_path))
    assert (spent.results, spent.epsilon) == (1, pytest.approx(4.38, abs=0.005))
    assert spent.patient_epsilon == pytest.approx(8.39, abs=0.005)
    spent = updates.spent(context(tmp_path))
    assert (spent.results, spent.epsilon) == (2, pytest.approx(2.94, abs=0.005))
    assert spent.patient_epsilon == pytest.approx(8.39, abs=0.005)


@pytest.mark.parametrize(("kind", "factor"), [("updates", 4.0), ("statistics", 1.0)])
def test_nothing_is_entered_beyond_the_bound_of_a_patient(
    tmp_path: Path, kind: Literal["updates", "statistics"], factor: float
) -> None:
    bound = spent_epsilon(factor * 2.5, 1e-5)
    budget = PrivacyBudget(kind, 1.0, 1e-5, bound)
    for _ in range(2):
        budget.spend(context(tmp_path))
    for _ in range(3):
        with pytest.raises(OutboundError, match=rf"the bound for {kind} is .*, and 2 were sent"):
            budget.spend(context(tmp_path))
    assert budget.spent(context(tmp_path)) == Spent(2, spent_epsilon(2.0, 1e-5), spent_epsilon(factor * 2.0, 1e-5))


def test_the_bound_of_one_kind_counts_what_the_other_has_spent(tmp_path: Path) -> None:
    PrivacyBudget("updates", 1.0, 1e-5, None).spend(context(tmp_path))
    budget = PrivacyBudget("statistics", 1.0, 1e-5, spent_epsilon(4.5, 1e-5))
    with pytest.raises(OutboundError, match="of a patient, by updates and statistics together"):
        budget.spend(context(tmp_path))
    assert budget.spent(context(tmp_path)).results == 0


def test_a_ledger_of_before_is_read(tmp_path: Path) -> None:
    """Files hold the accounts of results; what patients have spent follows from them."""
    old = {"updates": {"results": 2, "mu_squared": 0.5}, "statistics": {"results": 1, "mu_squared": 1.0}}
    (tmp_path / LEDGER_FILE).write_text(json.dumps(old))
    spent = PrivacyBudget("updates", 2.0, 1e-5, None).spent(context(tmp_path))
    assert spent == Spent(2, spent_epsilon(0.5, 1e-5), spent_epsilon(3.0, 1e-5))
    PrivacyBudget("updates", 2.0, 1e-5, None).spend(context(tmp_path))
    new = json.loads((tmp_path / LEDGER_FILE).read_text(encoding="utf-8"))
    assert new == old | {"updates": {"results": 3, "mu_squared": 0.75}}


def spend_often(workspace: str) -> None:
    for _ in range(50):
        PrivacyBudget("updates", 1.0, 1e-5, None).spend(context(Path(workspace)))


def test_jobs_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        list(pool.map(spend_often, [str(tmp_path)] * 3))
    ledger = PrivacyLedger.model_validate_json((tmp_path / LEDGER_FILE).read_text(encoding="utf-8"))
    assert ledger.updates.results == 150
    assert ledger.updates.mu_squared == 150.0


@pytest.mark.parametrize("content", ["{", '{"updates": 3, "mu_squared": 0.75}'])
def test_a_ledger_that_cannot_be_read_is_not_restarted(tmp_path: Path, content: str) -> None:
    """Nothing is sent then: what was spent is not known."""
    (tmp_path / LEDGER_FILE).write_text(content)
    with pytest.raises(DataError, match=LEDGER_FILE):
        PrivacyBudget("updates", 1.0, 1e-5, None).spend(context(tmp_path))
    assert (tmp_path / LEDGER_FILE).read_text() == content


@pytest.mark.parametrize(
    ("noise_multiplier", "delta", "max_epsilon"),
    [
        (0.0, 1e-5, None),
        (math.nan, 1e-5, None),
        (math.inf, 1e-5, None),
        (1.0, 0.0, None),
        (1.0, 1.0, 1.0),
        (1.0, math.nan, 1.0),
        (1.0, 1e-5, 0.0),
        (1.0, 1e-5, math.nan),
    ],
)
def test_values_out_of_range(noise_multiplier: float, delta: float, max_epsilon: float | None) -> None:
    with pytest.raises(ValueError, match="noise_multiplier and max_epsilon above 0 and delta between 0 and 1"):
        PrivacyBudget("updates", noise_multiplier, delta, max_epsilon)
