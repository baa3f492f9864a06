"""A line of `results.csv`: what a model scores in a class of a case."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...custom.evaluation.case_results import CaseResult, Detection
from ...transforms.printable import printable

# The model that all sites share; another one has the name of its site.
GLOBAL_MODEL = "global"


@dataclass(frozen=True)
class ResultRow:
    """A line of `results.csv`: a class in a case, scored with one model; NaN or nothing where it is not defined.

    Attributes:
        run: the run's name.
        arm: what was compared, or the job.
        seed: of the run.
        site: whose case it is; `test` for the server's test set.
        case: `case-N`, the N-th of its list.
        class_name: the class; in a classification the case's own.
        dice: see :class:`.CaseResult`, and below.
        hd95_mm: in millimetres; NaN where these are not known.
        nsd: at `nsd_tolerance`.
        volume_difference_ml: predicted less annotated, in millilitres.
        lesion_f1: F1 of lesions.
        detected: one of :class:`.Detection`; in a classification whether the predicted class is the case's.
        unit: `mm`, or `px` for pictures; empty in a classification.
        hd95_px: in pixels, where there are no millimetres.
        volume_difference_px: as above, pixels.
        nsd_tolerance: in `unit`.
        patient: `patient-N`; cases of one patient are not independent.
        list_name: of the site's datalist.
        model: `global`, or the site whose own model it is.
        predicted: the class that a classifier says.
        confidence: its probability.
        foreground_f1: F1 of the objects of all classes together.
        confused_fraction: of the annotated pixels, those that are predicted as another class.
    """

    run: str
    arm: str
    seed: int
    site: str
    case: str
    class_name: str
    dice: float
    hd95_mm: float
    nsd: float
    volume_difference_ml: float
    lesion_f1: float
    detected: str
    unit: str
    hd95_px: float
    volume_difference_px: float
    nsd_tolerance: float
    patient: str
    list_name: str
    model: str
    predicted: str = ""
    confidence: float = math.nan
    foreground_f1: float = math.nan
    confused_fraction: float = math.nan

    @property
    def hd95(self) -> float:
        """In `unit`."""
        return self.hd95_px if self.unit == "px" else self.hd95_mm

    @property
    def volume_difference(self) -> float:
        """In millilitres or pixels."""
        return self.volume_difference_px if self.unit == "px" else self.volume_difference_ml


def segmentation_row(common: Mapping[str, Any], result: CaseResult, class_name: str, unit: str) -> ResultRow:
    """Return the line of a class in a case.

    Args:
        common: run, arm, seed, site, case, patient, list, model and tolerance, by attribute.
        result: what was measured.
        class_name: the class.
        unit: of its distances, `mm` or `px`.
    """
    in_mm = unit == "mm"
    return ResultRow(
        **common,
        class_name=printable(class_name),
        dice=result.dice,
        hd95_mm=result.hd95 if in_mm else math.nan,
        nsd=result.nsd,
        volume_difference_ml=result.volume_difference if in_mm else math.nan,
        lesion_f1=result.lesion_f1,
        detected=result.detection.value,
        unit=unit,
        hd95_px=math.nan if in_mm else result.hd95,
        volume_difference_px=math.nan if in_mm else result.volume_difference,
        foreground_f1=result.foreground_f1,
        confused_fraction=result.confused_fraction,
    )


_OF_SEGMENTATION = (
    *("dice", "hd95_mm", "nsd", "volume_difference_ml", "lesion_f1", "hd95_px", "volume_difference_px"),
    "nsd_tolerance",
)


def classification_row(common: Mapping[str, Any], true: str, predicted: str, confidence: float) -> ResultRow:
    """Return the line of a case with a class; arguments as above."""
    nothing: dict[str, Any] = dict.fromkeys(_OF_SEGMENTATION, math.nan)
    return ResultRow(
        **(dict(common) | nothing),
        class_name=printable(true),
        detected=(Detection.DETECTED if true == predicted else Detection.MISSED).value,
        unit="",
        predicted=printable(predicted),
        confidence=confidence,
    )


def renamed(rows: Sequence[ResultRow], *, run: str, arm: str) -> list[ResultRow]:
    """Return lines as those of another run and arm."""
    return [replace(row, run=run, arm=arm) for row in rows]


@dataclass(frozen=True)
class RunName:
    """What a run's lines begin with."""

    run: str
    arm: str
    seed: int
