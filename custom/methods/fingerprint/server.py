"""A fingerprint at the server: pooled once, before the first round."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...interface.views import Round
from ...planning.fingerprint import Fingerprint
from ...records.round_records import RoundRecord
from ...task_names import FINGERPRINT
from ..fedavg.server import FedAvgServer
from .settings import FingerprintSettings


class FingerprintServer(FedAvgServer):
    """Pools what sites say of their images, by the numbers of cases that count for them."""

    settings: FingerprintSettings

    def __init__(self, settings: FingerprintSettings) -> None:
        super().__init__(settings)
        self.pooled: Fingerprint | None = None

    def before_round(self, this_round: Round) -> None:
        """Ask the sites for their fingerprints, once."""
        if self.pooled is not None:
            return
        answers = this_round.ask(FINGERPRINT)
        described = {site: fields for site, fields in answers.items() if "num_patients" in fields}
        for site in sorted(set(answers) - set(described)):
            this_round.warning(f"{site} has too few patients for a fingerprint, and is not in it.")
        if described:
            self.pooled = Fingerprint.pooled(map(Fingerprint.of_fields, described.values()))
        elif not this_round.is_stopped():
            this_round.warning("No site sent a fingerprint.")

    def state(self) -> Mapping[str, object]:
        """Return the pooled fingerprint."""
        return {"fingerprint": None if self.pooled is None else self.pooled.as_fields()}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take the pooled fingerprint again."""
        del history
        values = state.get("fingerprint")
        self.pooled = None if values is None else Fingerprint.of_fields(values)

    def describe(self, this_round: Round) -> Mapping[str, object]:
        """Return the pooled fingerprint, None where no site sent one."""
        del this_round
        return dict(self.state())
