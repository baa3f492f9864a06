"""The strict pydantic models that settings, descriptions and records are made of: types only."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Values that do not change once they are checked; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SettingsModel(StrictModel):
    """A part of a job's settings: strict, and all its numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)
