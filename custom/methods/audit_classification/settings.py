"""Settings of the audit of class labels."""

from typing import Annotated

from pydantic import Field

from ..audit.settings import FoldsSettings
from ..fedavg.settings import ClassificationSettings


class AuditClassificationSettings(ClassificationSettings, FoldsSettings):
    """Settings of an audit of labels: federated averaging, once for every part of the patients, then the estimates.

    Args:
        confident_fraction: fraction of the samples that seem to be of a class by which the noise level is estimated,
            the most confident ones.
        floor: smaller noise levels count as right labels.
        folds: as in an audit of masks, but 1 by default: a model of few rounds has hardly learnt single labels, and one
            that has learnt from half of the cases predicts worse.
    """

    method: str = "audit_classification"
    folds: Annotated[int, Field(ge=1, le=5)] = 1
    confident_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.05
