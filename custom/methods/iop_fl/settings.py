"""Settings of IOP-FL."""

from typing import Annotated

from pydantic import Field

from ..personal.settings import PersonalSettings


class IopFlSettings(PersonalSettings):
    """Settings of IOP-FL, in which every site averages the models that it trained.

    Args:
        personal_momentum: α, the weight of earlier models; the authors' program has 0.1.
    """

    method: str = "iop_fl"
    personal_momentum: Annotated[float, Field(ge=0, le=1)] = 0.1
