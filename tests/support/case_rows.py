"""Lines of results per case."""

import math

from fedannot.apps.reports.result_rows import ResultRow


def row(
    arm: str, dice: float, *, seed: int = 0, case: int = 1, patient: int | None = None, **values: object
) -> ResultRow:
    """A lesion in the server's test set, of which the Dice alone is known."""
    common = {"site": "test", "class_name": "lesion", "detected": "detected", "unit": "mm", "list_name": "testing"}
    numbers = dict.fromkeys(("hd95_mm", "nsd", "volume_difference_ml", "lesion_f1", "hd95_px"), math.nan)
    return ResultRow(
        **{
            **{"run": f"{arm}-{seed}", "arm": arm, "seed": seed, "case": f"case-{case}", "dice": dice},
            **{"patient": f"patient-{case if patient is None else patient}", "model": "global"},
            **{"volume_difference_px": math.nan, "nsd_tolerance": 2.0},
            **common,
            **numbers,
            **values,
        }  # type: ignore[arg-type]
    )
