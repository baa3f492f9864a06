"""What a site has undone, made by hand for the data of a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.undone import UNDONE_FOLDER, Undone, UndoneCase, write_undone
from fedannot.custom.data.undone_pixels import CasePixels


def undone_record(data: Path, *, ignored_objects: Mapping[str, int] | None = None, **changes: Any) -> Undone:
    """Return a record for all training cases of a folder: contours of class 1 were 2 too far outside.

    Args:
        data: folder with a ``datalist.json``.
        ignored_objects: by annotation, how many.
        changes: of the record.
    """
    files = read_datalist(data / "datalist.json").section(TRAINING)
    counts = ignored_objects or {}
    cases = []
    for case in files:
        assert isinstance(case.label, Path)
        label, image = str(case.label.relative_to(data)), str(case.image.relative_to(data))
        cases.append(UndoneCase(label=label, image=image, ignored_objects=counts.get(label, 0)))
    values = {"site": "site-1", "data": str(data), "method": "auto", "round_number": 5, "model_sha256": "ab" * 32}
    values |= {"made": "2026-01-01T00:00:00+00:00", "offsets": {"1": 2.0}, "missing": {}, "cases": tuple(cases)}
    return Undone.model_validate(values | changes)


def write_undone_run(
    run: Path, undone: Undone, ignored: Mapping[str, NDArray[np.bool_]] | None = None, *, job: str = "simulate_job"
) -> Path:
    """Write a record where a run does, and return its folder."""
    folder = run / undone.site / job / UNDONE_FOLDER
    write_undone(folder, undone, {name: CasePixels(of) for name, of in (ignored or {}).items()})
    return folder / f"round_{undone.round_number}"
