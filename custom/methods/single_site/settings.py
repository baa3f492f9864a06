"""Settings of training without a federation."""

from ..personal.settings import PersonalSettings


class SingleSiteSettings(PersonalSettings):
    """Settings of training without a federation, each site by itself."""

    method: str = "single_site"

    @property
    def has_global_model(self) -> bool:
        """No: nothing is shared."""
        return False
