"""Settings of FedRep."""

from ...settings import Positive
from ..personal.settings import PersonalSettings


class FedRepSettings(PersonalSettings):
    """Settings of FedRep, whose last layers are personal.

    Args:
        head_epochs: epochs of the personal head in every round, before ``training.local_epochs`` or ``local_steps`` of
            the rest.
    """

    method: str = "fedrep"
    head_epochs: Positive = 1

    @property
    def has_global_model(self) -> bool:
        """No: no head is shared."""
        return False
