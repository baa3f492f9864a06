"""Settings of the audit."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from ...settings import FinalModelKind, RunSettings
from ..auto.settings import BiasSettings


class FoldsSettings(RunSettings):
    """Settings of methods whose reference models predict patients that they have not learnt.

    Args:
        folds: parts of each site's patients, each predicted by a model that has not learnt it; 1 predicts all by an
            early model that has, which is quicker and misses more.
        report_annotators: whether sites report figures of their single annotators, under numbers that mean nothing
            elsewhere; they see them with names in any case.
    """

    # A run trains a model for each part of the patients, and its result is what they say of the annotations.
    final_models: ClassVar[tuple[FinalModelKind, ...]] = ("last",)

    folds: Annotated[int, Field(ge=1, le=5)] = 2
    report_annotators: bool = False

    @property
    def rounds_of_fold(self) -> int:
        """Rounds of each model."""
        return self.rounds // self.folds

    @model_validator(mode="after")
    def _folds_have_equal_rounds(self) -> "FoldsSettings":
        if self.rounds % self.folds:
            raise ValueError(
                f"rounds is {self.rounds}, which {self.folds} folds cannot share; expected a multiple of folds"
            )
        return self


class AuditSettings(BiasSettings, FoldsSettings):
    """Settings of an audit: federated averaging, once for every part of the patients, then the estimates."""

    method: str = "audit"
