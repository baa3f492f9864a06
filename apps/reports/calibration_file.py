"""`calibration.json`: how well the confidence of a run's final model fits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...custom.data.whole_files import write_text
from ...custom.evaluation.calibration import NUM_BINS, CalibrationBins
from ...custom.records.plain_values import finite
from ...transforms.errors import DataError
from ...transforms.strict_files import read_json

CALIBRATION_FILE = "calibration.json"


@dataclass(frozen=True)
class Calibration:
    """How well a model's confidence fits, on one site's cases.

    Attributes:
        site: whose cases they are.
        model: whose model it is, see :class:`ResultRow`.
        of_cases: the bins of each case.
    """

    site: str
    model: str
    of_cases: tuple[CalibrationBins, ...]

    def plain(self) -> dict[str, Any]:
        """Return errors and bins as JSON holds them; the mean over cases is of pixels alone."""
        together = sum(self.of_cases, CalibrationBins.empty())
        errors = [bins.ece for bins in self.of_cases if bins.count.any()]
        return {
            "site": self.site,
            "model": self.model,
            "cases": len(self.of_cases),
            "ece_pooled": together.ece,
            "ece_mean_of_cases": sum(errors) / len(errors) if errors and together.count.sum() > len(errors) else None,
            "count": [int(value) for value in together.count],
            "confidence": [a / n if n else None for a, n in zip(together.confidence, together.count, strict=True)],
            "accuracy": [a / n if n else None for a, n in zip(together.correct, together.count, strict=True)],
        }


def write_calibration(
    file: Path, found: Sequence[Calibration], task: Literal["segmentation", "classification"]
) -> None:
    """Write the calibration of a run's final model, with what it is of."""
    content = {
        "version": 1,
        "bins": NUM_BINS,
        "predictions": "pixels" if task == "segmentation" else "cases",
        "calibration": [finite(one.plain()) for one in found],
    }
    write_text(file, json.dumps(content, indent=2) + "\n")


def read_calibration(file: Path) -> list[dict[str, Any]]:
    """Return what :func:`write_calibration` wrote of each site; nothing where there is no file.

    Raises:
        DataError: if it is no such file.
    """
    if not file.is_file():
        return []
    content = read_json(file, "the calibration of a run")
    entries = content.get("calibration") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise DataError(f"{file}: found no list 'calibration' of objects; expected the calibration of a run.")
    return entries
