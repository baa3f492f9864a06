"""The strict pydantic models that settings, descriptions and records are made of: types only."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from .former_names import with_current_fields, with_current_settings


class StrictModel(BaseModel):
    """Values that do not change once they are checked; unknown keys are errors, former names of fields are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, values: Any) -> Any:
        return with_current_fields(values, cls.model_fields)


class SettingsModel(StrictModel):
    """A part of a job's settings: strict, all its numbers are finite; a former name of a setting is read, and warns."""

    model_config = ConfigDict(allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, values: Any) -> Any:
        return with_current_settings(values, cls.model_fields)
