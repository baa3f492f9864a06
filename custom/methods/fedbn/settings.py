"""Settings of FedBN."""

from ..personal.settings import PersonalSettings


class FedBnSettings(PersonalSettings):
    """Settings of FedBN, in which every site has its own normalisation layers."""

    method: str = "fedbn"

    @property
    def has_global_model(self) -> bool:
        """Return False: the shared normalisation layers are those of the start."""
        return False
