"""A site's account of what its results have spent of its privacy, over all its jobs."""

import fcntl
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nvflare.apis.fl_context import FLContext

from ..data.json_record import JsonRecord, read_record, write_record
from ..data.whole_files import private_file
from ..outbound.private_updates import patient_mu_squared, spent_epsilon
from ..outbound.registry import OutboundError

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
    """What a site has spent, by what was sent.

    Attributes:
        updates: trained models. They spend of the site's taking part, and of every patient.
        statistics: quality statistics. They spend of every patient.
    """

    updates: Account = Account()
    statistics: Account = Account()

    @property
    def patient_mu_squared(self) -> float:
        """μ² of one patient's part in all of it."""
        return patient_mu_squared(self.updates.mu_squared, self.statistics.mu_squared)


@dataclass(frozen=True)
class Spent:
    """What was spent.

    Attributes:
        results: how many results of one kind were sent.
        epsilon: ε of them: of updates, that the site takes part; of statistics, of a patient by these alone.
        patient_epsilon: ε of a patient by updates and statistics together, never less.
    """

    results: int
    epsilon: float
    patient_epsilon: float


@dataclass(frozen=True)
class PrivacyBudget:
    """What results of one kind may spend.

    Attributes:
        kind: the ledger's account.
        noise_multiplier: σ, standard deviation of the noise by what it hides.
        delta: δ for which ε is stated.
        max_epsilon: ε of a patient, by updates and statistics together, beyond which results of the kind are not sent
            any more; None for no bound. The ε of the kind alone is never larger.

    Raises:
        ValueError: if a value is out of range.
    """

    kind: Literal["updates", "statistics"]
    noise_multiplier: float
    delta: float
    max_epsilon: float | None

    def __post_init__(self) -> None:
        """Check the values."""
        in_range = 0 < self.noise_multiplier < math.inf and 0 < self.delta < 1
        if not in_range or not (self.max_epsilon is None or self.max_epsilon > 0):
            raise ValueError(
                "Expected noise_multiplier and max_epsilon above 0 and delta between 0 and 1, but got "
                f"noise_multiplier={self.noise_multiplier}, max_epsilon={self.max_epsilon}, delta={self.delta}."
            )

    def spent(self, fl_ctx: FLContext) -> Spent:
        """Return what was spent until now."""
        return self._spent(read_record(_ledger_file(fl_ctx), PrivacyLedger) or PrivacyLedger())

    def spend(self, fl_ctx: FLContext) -> Spent:
        """Enter one more result, and return what is spent with it.

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
            entered = Account(results=account.results + 1, mu_squared=mu_squared)
            ledger = ledger.model_copy(update={self.kind: entered})
            spent = self._spent(ledger)
            if self.max_epsilon is not None and spent.patient_epsilon > self.max_epsilon:
                raise OutboundError(
                    f"One more result would spend epsilon {spent.patient_epsilon:.3g} at delta {self.delta:g} of a "
                    f"patient, by updates and statistics together; the bound for {self.kind} is {self.max_epsilon:g}, "
                    f"and {account.results} were sent."
                )
            write_record(file, ledger)
        return spent

    def _spent(self, ledger: PrivacyLedger) -> Spent:
        account = self._account(ledger)
        return Spent(
            account.results,
            spent_epsilon(account.mu_squared, self.delta),
            spent_epsilon(ledger.patient_mu_squared, self.delta),
        )

    def _account(self, ledger: PrivacyLedger) -> Account:
        return ledger.updates if self.kind == "updates" else ledger.statistics


def _ledger_file(fl_ctx: FLContext) -> Path:
    return Path(fl_ctx.get_engine().get_workspace().get_root_dir()) / LEDGER_FILE


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Keep other processes of the site from the ledger; a lock ends with the process that holds it."""
    with private_file(file.with_suffix(".lock")).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
