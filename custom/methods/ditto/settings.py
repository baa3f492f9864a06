"""Settings of Ditto."""

from typing import Annotated

from pydantic import Field

from ..personal.settings import PersonalSettings


class DittoSettings(PersonalSettings):
    """Settings of Ditto, in which every site has a whole network of its own.

    Args:
        personal_proximal_weight: λ, how near it is kept to the shared one.
    """

    method: str = "ditto"
    personal_proximal_weight: Annotated[float, Field(ge=0)] = 0.1

    @property
    def step_factor(self) -> float:
        """The shared network and the site's own are trained in turn."""
        return 2.0
