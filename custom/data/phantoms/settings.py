"""Settings of the embedded phantom federation.

Types only: settings are also checked by processes that draw nothing and load neither NumPy nor PyTorch.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ....transforms.noise.class_noise import ClassNoise
from ....transforms.noise.federation_noise import FederationNoise
from ....transforms.noise.site_protocol import SiteProtocol
from ...strict_model import SettingsModel

_Positive = Annotated[int, Field(ge=1)]


class EmbeddedSettings(SettingsModel):
    """The phantom federation that sites make for themselves where they have no data of their own.

    ``lesions2d`` are pictures with one lesion, whose contours may have noise; ``lesions3d`` are volumes with several
    lesions, of which each site annotates a share, its `completeness`; ``chambers3d`` are volumes with a heart chamber
    that every site images and annotates by its own protocol; ``cells2d`` are pictures of cells in eight classes, whose
    labels may have noise.
    """

    task: Literal["lesions2d", "lesions3d", "chambers3d", "cells2d"] = "lesions2d"
    sites: _Positive = 10
    noise: str | None = None
    exact: bool = False
    stratified: Annotated[float, Field(ge=0, lt=1)] | None = None
    completeness: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    protocols: str | None = None
    label_noise: str | None = None
    images_per_site: _Positive = 12
    test_images: _Positive = 50
    seed: int = 0

    @model_validator(mode="after")
    def _noise_can_be_read(self) -> "EmbeddedSettings":
        if self.noise is not None:
            FederationNoise.parse(self.noise)
        if self.label_noise is not None:
            ClassNoise.parse_sites(self.label_noise)
        if self.protocols is not None:
            SiteProtocol.parse_sites(self.protocols)
        return self

    @model_validator(mode="after")
    def _imperfections_suit_the_task(self) -> "EmbeddedSettings":
        imperfections = {
            "noise": "lesions2d",
            "completeness": "lesions3d",
            "protocols": "chambers3d",
            "label_noise": "cells2d",
        }
        for key, task in imperfections.items():
            if self.task != task and getattr(self, key) is not None:
                raise ValueError(f"key 'embedded.{key}' goes with embedded.task = {task}")
        if self.completeness is not None and len(self.completeness) != self.sites:
            raise ValueError(
                f"key 'embedded.completeness' has {len(self.completeness)} shares, expected one for each of "
                f"'embedded.sites', {self.sites}"
            )
        return self
