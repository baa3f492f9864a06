"""A site's account of what its results have spent of its privacy, over all its jobs."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nvflare.apis.fl_context import FLContext

from ..data.json_record import JsonRecord, read_record, write_record
from ..outbound import OutboundError
from ..privacy import spent_epsilon

LEDGER_FILE = "fedannot_privacy.json"


class Account(JsonRecord):
    """What results of one kind have spent.

    Attributes:
        results: number of results that were sent.
        mu_squared: Σ 1/σ² over them.
    """

    results: int = 0
    mu_squared: float = 0.0


class PrivacyLedger(JsonRecord):
    """What a site has spent, by what is protected.

    Attributes:
        updates: with trained models, for the site as a whole.
        statistics: with quality statistics, for each of its patients.
    """

    updates: Account = Account()
    statistics: Account = Account()


@dataclass(frozen=True)
class PrivacyBudget:
    """What results of one kind may spend.

    Attributes:
        kind: the ledger's account.
        noise_multiplier: σ, standard deviation of the noise by what it hides.
        delta: δ for which ε is stated.
        max_epsilon: ε beyond which nothing is sent any more; None for no bound.

    Raises:
        ValueError: if a value is out of range.
    """

    kind: Literal["updates", "statistics"]
    noise_multiplier: float
    delta: float
    max_epsilon: float | None

    def __post_init__(self) -> None:
        """Check the values."""
        in_range = self.noise_multiplier > 0 and 0 < self.delta < 1
        if not in_range or (self.max_epsilon is not None and self.max_epsilon <= 0):
            raise ValueError(
                "Expected noise_multiplier and max_epsilon above 0 and delta between 0 and 1, but got "
                f"noise_multiplier={self.noise_multiplier}, max_epsilon={self.max_epsilon}, delta={self.delta}."
            )

    def spent(self, fl_ctx: FLContext) -> tuple[int, float]:
        """Return how many results were sent and ε of them."""
        account = self._account(read_record(_ledger_file(fl_ctx), PrivacyLedger) or PrivacyLedger())
        return account.results, spent_epsilon(account.mu_squared, self.delta)

    def spend(self, fl_ctx: FLContext) -> tuple[int, float]:
        """Enter one more result, and return how many were sent before it and ε of all with it.

        It is entered before it is sent: one that is lost on the way has been spent all the same. Jobs that run at the
        same time wait for each other.

        Raises:
            OutboundError: if the budget does not suffice; nothing is entered then.
        """
        file = _ledger_file(fl_ctx)
        with _locked(file):
            ledger = read_record(file, PrivacyLedger) or PrivacyLedger()
            account = self._account(ledger)
            mu_squared = account.mu_squared + self.noise_multiplier**-2
            epsilon = spent_epsilon(mu_squared, self.delta)
            if self.max_epsilon is not None and epsilon > self.max_epsilon:
                raise OutboundError(
                    f"One more result would spend epsilon {epsilon:.3g} at delta {self.delta:g} for {self.kind}; the "
                    f"bound is {self.max_epsilon:g}, and {account.results} were sent."
                )
            entered = Account(results=account.results + 1, mu_squared=mu_squared)
            write_record(file, ledger.model_copy(update={self.kind: entered}))
        return account.results, epsilon

    def _account(self, ledger: PrivacyLedger) -> Account:
        return ledger.updates if self.kind == "updates" else ledger.statistics


def _ledger_file(fl_ctx: FLContext) -> Path:
    return Path(fl_ctx.get_engine().get_workspace().get_root_dir()) / LEDGER_FILE


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Keep other processes of the site from the ledger; a lock ends with the process that holds it."""
    with file.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
