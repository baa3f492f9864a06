"""Corrections of a site, made by hand for the data of a folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedannot.custom.corrections.kinds import (
    BoundaryShift,
    CorrectionBase,
    MissedObjectsIgnored,
    ObjectsRelabelled,
    of_kind,
    server_corrections,
)
from fedannot.custom.corrections.model import CaseCorrection, Corrections, Provenance
from fedannot.custom.corrections.pixels import CasePixels
from fedannot.custom.corrections.store import CorrectionStore, StoredCorrections
from fedannot.custom.data.datalist import TRAINING, read_datalist

ASKED = ("bias", "missed", "ignored", "relabelled")


def made_corrections(data: Path | str, cases: Iterable[CaseCorrection], **changes: Any) -> Corrections:
    """Return corrections before round 5: contours of class 1 were annotated 2 too large.

    Args:
        data: the site's data.
        cases: of it.
        changes: arguments of ``server_corrections``, fields of the provenance, or fields of the record.
    """
    asked = {name: changes.pop(name) for name in ASKED if name in changes}
    origin = {name: changes.pop(name) for name in Provenance.model_fields if name in changes}
    values = {"method": "auto", "round_number": 5, "model_sha256": "ab" * 32, "made": "2026-01-01T00:00:00+00:00"}
    record = {
        "site": "site-1",
        "data": str(data),
        "provenance": Provenance.model_validate(values | origin),
        "corrections": server_corrections(**({"bias": {1: 2.0}} | asked)),
        "cases": tuple(cases),
    }
    return Corrections.model_validate(record | changes)


def corrections_of(data: Path, *, ignored_objects: Mapping[str, int] | None = None, **changes: Any) -> Corrections:
    """Return corrections of all training cases of a folder.

    Args:
        data: folder with a ``datalist.json``.
        ignored_objects: by annotation, how many.
        changes: see :func:`made_corrections`.
    """
    counts, cases = ignored_objects or {}, []
    for case in read_datalist(data / "datalist.json").section(TRAINING):
        assert isinstance(case.label, Path)
        label, image = str(case.label.relative_to(data)), str(case.image.relative_to(data))
        cases.append(CaseCorrection(label=label, image=image, ignored_objects=counts.get(label, 0)))
    return made_corrections(data, cases, **changes)


def stored(folder: Path, corrections: Corrections, pixels: Mapping[str, CasePixels] | None = None) -> StoredCorrections:
    """Write a record into a run folder."""
    return CorrectionStore(folder, corrections.round_number).write(corrections, pixels)


def write_corrected_run(
    run: Path,
    corrections: Corrections,
    ignored: Mapping[str, NDArray[np.bool_]] | None = None,
    *,
    job: str = "simulate_job",
) -> Path:
    """Write a record where a run does, and return its folder."""
    folder = run / corrections.site / job
    return stored(folder, corrections, {name: CasePixels(of) for name, of in (ignored or {}).items()}).folder


def bias_of(asked: Iterable[CorrectionBase]) -> dict[int, float]:
    """Return the boundary bias that a site corrects, by class."""
    shift = of_kind(asked, BoundaryShift)
    return {} if shift is None else shift.bias


def missed_of(asked: Iterable[CorrectionBase]) -> dict[int, float]:
    """Return the missed fraction of the objects that it corrects, by class."""
    missed = of_kind(asked, MissedObjectsIgnored)
    return {} if missed is None else missed.missed


def relabelled_of(asked: Iterable[CorrectionBase]) -> float:
    """Return the largest fraction of the objects that it relabels."""
    relabelled = of_kind(asked, ObjectsRelabelled)
    return 0.0 if relabelled is None else relabelled.fraction
