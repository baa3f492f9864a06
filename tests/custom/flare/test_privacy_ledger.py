"""The account of a site's privacy: what is spent, what a budget holds back, and jobs at the same time."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from nvflare.apis.fl_context import FLContext

from fedannot.custom.flare.privacy_ledger import LEDGER_FILE, PrivacyBudget, PrivacyLedger
from fedannot.custom.flare.task_process import Place
from fedannot.custom.outbound import OutboundError
from fedannot.custom.privacy import spent_epsilon
from fedannot.transforms.errors import DataError


def context(workspace: Path) -> FLContext:
    for needed in ("startup", "local"):
        (workspace / needed).mkdir(exist_ok=True)
    return Place("site-1", "job", str(workspace)).context()


def test_kinds_have_accounts_of_their_own(tmp_path: Path) -> None:
    updates, statistics = PrivacyBudget("updates", 2.0, 1e-5, None), PrivacyBudget("statistics", 1.0, 1e-5, None)
    assert updates.spend(context(tmp_path)) == (0, spent_epsilon(0.25, 1e-5))
    assert updates.spend(context(tmp_path)) == (1, spent_epsilon(0.5, 1e-5))
    assert statistics.spent(context(tmp_path)) == (0, 0.0)
    assert statistics.spend(context(tmp_path)) == (0, spent_epsilon(1.0, 1e-5))
    assert updates.spent(context(tmp_path)) == (2, spent_epsilon(0.5, 1e-5))


def test_nothing_is_entered_beyond_the_bound(tmp_path: Path) -> None:
    bound = spent_epsilon(2.5, 1e-5)
    budget = PrivacyBudget("statistics", 1.0, 1e-5, bound)
    for _ in range(2):
        budget.spend(context(tmp_path))
    for _ in range(3):
        with pytest.raises(OutboundError, match=r"for statistics; the bound is .*, and 2 were sent"):
            budget.spend(context(tmp_path))
    assert budget.spent(context(tmp_path)) == (2, spent_epsilon(2.0, 1e-5))


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
def test_a_ledger_that_cannot_be_read_is_not_begun_anew(tmp_path: Path, content: str) -> None:
    """Nothing is sent then: what was spent is not known."""
    (tmp_path / LEDGER_FILE).write_text(content)
    with pytest.raises(DataError, match=LEDGER_FILE):
        PrivacyBudget("updates", 1.0, 1e-5, None).spend(context(tmp_path))
    assert (tmp_path / LEDGER_FILE).read_text() == content


@pytest.mark.parametrize(
    ("noise_multiplier", "delta", "max_epsilon"), [(0.0, 1e-5, None), (1.0, 0.0, None), (1.0, 1.0, 1.0), (1, 1e-5, 0)]
)
def test_values_out_of_range(noise_multiplier: float, delta: float, max_epsilon: float | None) -> None:
    with pytest.raises(ValueError, match="noise_multiplier and max_epsilon above 0 and delta between 0 and 1"):
        PrivacyBudget("updates", noise_multiplier, delta, max_epsilon)
