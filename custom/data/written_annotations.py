"""What counts of a site's annotations as new files: with their provenance, the given ones stay as they are."""

import hashlib
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from ...transforms.errors import DataError
from .corrections import CorrectedLabel, Corrections, corrected_label_target
from .description import SegmentationDescription
from .json_record import JsonRecord, write_record
from .masks import Mask, plain_name, read_classes, write_changed
from .undone import Undone, UndoneCase, undone_pixels
from .undone_files import (
    IgnoredObject,
    ignored_in_file,
    moved_in_file,
    named_moves,
    relabelled_in_file,
    segmentation_description,
    unit_of,
)
from .undone_pixels import CasePixels
from .whole_files import private_file

PROVENANCE_FILE = "provenance.json"


class WrittenAnnotation(JsonRecord):
    """Where one annotation comes from.

    Args:
        given: the given annotation, relative to the site's data.
        given_sha256: hash of its file.
        file: the new file, relative to the folder; empty where it would hold the same classes.
        changed: pixels or voxels of another class than in the given one.
        ignored: objects that are probably missing; they are not written.
        relabelled: objects of the given one that have another class.
    """

    given: str
    given_sha256: str
    file: str
    changed: int
    ignored: tuple[IgnoredObject, ...] = ()
    relabelled: int = 0


class WrittenAnnotations(JsonRecord):
    """The content of ``provenance.json``.

    Args:
        site: the site's name.
        data: the folder with the site's data.
        record: the folder with the record of what was corrected or undone.
        method: the method whose decision it was.
        round_number: the round before whose training it happened.
        model_sha256: hash of the model that was received for that round.
        decided: when, by the site's clock.
        written: when these files were.
        moved: by name of the class, by how far its contours were moved, positive outward.
        unit: of these distances: millimetres, or pixels of the network's images.
        threshold: probability above which background became foreground; None where nothing was added.
        annotations: those that count otherwise than they were given.
        as_given: given annotations that count as they are.
        failed: annotations that could not be written, and why.
    """

    site: str
    data: str
    record: str
    method: str
    round_number: int
    model_sha256: str
    decided: str
    written: str
    moved: dict[str, float]
    unit: Literal["px", "mm"] | None
    threshold: float | None
    annotations: tuple[WrittenAnnotation, ...]
    as_given: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def write_undone_annotations(folder: Path, record: Path, undone: Undone) -> WrittenAnnotations:
    """Write the annotations of which a site has undone something, in the geometry of the given files.

    Args:
        folder: where the files are written, which exists and is empty.
        record: the folder of the record.
        undone: the record.

    Returns:
        What was written to ``provenance.json``.

    Raises:
        DataError: if the site's description or the record's pixels cannot be read.
    """
    description = segmentation_description(Path(undone.data), undone.site)
    pixels = undone_pixels(record, len(description.classes))
    annotations: list[WrittenAnnotation] = []
    failed: list[tuple[str, str]] = []
    for position, case in enumerate(undone.cases):
        if case.reverted:
            continue
        try:
            written = _undone_annotation(
                folder, position, case, undone, pixels.get(case.label, CasePixels()), description
            )
        except (DataError, OSError) as error:
            failed.append((case.label, f"Site {undone.site}: {error}"))
            continue
        if written.file or written.ignored:
            annotations.append(written)
    known = [case.label for case in undone.cases]
    moved = (named_moves(undone, description), unit_of(description))
    return _written(folder, record, undone, known, annotations, failed, moved=moved)


def write_corrected_annotations(folder: Path, record: Path, corrections: Corrections) -> WrittenAnnotations:
    """Copy the corrected annotations that count, with their provenance.

    Args:
        folder: where the files are written, which exists and is empty.
        record: the folder of the corrections.
        corrections: they.

    Returns:
        What was written to ``provenance.json``.
    """
    annotations: list[WrittenAnnotation] = []
    failed: list[tuple[str, str]] = []
    for position, label in enumerate(corrections.labels):
        if not label.is_used:
            continue
        try:
            annotations.append(_corrected_annotation(folder, position, record, corrections, label))
        except OSError as error:
            failed.append((label.label, f"Site {corrections.site}: {error}"))
    known = [*(label.label for label in corrections.labels), *(label for label, _ in corrections.failed)]
    return _written(folder, record, corrections, known, annotations, failed, threshold=corrections.threshold)


def _undone_annotation(
    folder: Path,
    position: int,
    case: UndoneCase,
    undone: Undone,
    pixels: CasePixels,
    description: SegmentationDescription,
) -> WrittenAnnotation:
    """Write one annotation, unless its classes stay as they are."""
    data = Path(undone.data)
    given, digest = data / case.label, _sha256(data / case.label)
    mask, image = read_classes(given, description), data / case.image
    classes, relabelled = mask.classes, 0
    if pixels.relabelled is not None:
        classes, relabelled = relabelled_in_file(mask, pixels.relabelled, image, given, description)
    moved = moved_in_file(Mask(classes, mask.affine), undone.moves, description)
    ignored: tuple[IgnoredObject, ...] = ()
    if pixels.ignored is not None:
        ignored = ignored_in_file(pixels.ignored, image, given, Mask(moved, mask.affine), description)
    changed, file = int(np.count_nonzero(moved != mask.classes)), ""
    if changed:
        target = corrected_label_target(folder, position, plain_name(given))
        file = str(write_changed(target, given, moved, description).relative_to(folder))
    return WrittenAnnotation(
        given=case.label,
        given_sha256=digest,
        file=file,
        changed=changed,
        ignored=ignored,
        relabelled=relabelled,
    )


def _corrected_annotation(
    folder: Path, position: int, record: Path, corrections: Corrections, label: CorrectedLabel
) -> WrittenAnnotation:
    given, corrected = Path(corrections.data) / label.label, record / label.counting_file
    digest = _sha256(given)
    target = corrected_label_target(folder, position, plain_name(given))
    target = target.with_name(target.name + corrected.name.removeprefix(plain_name(corrected)))
    shutil.copyfile(corrected, private_file(target))
    file = str(target.relative_to(folder))
    return WrittenAnnotation(given=label.label, given_sha256=digest, file=file, changed=label.counting_voxels)


def _written(
    folder: Path,
    record: Path,
    made: Undone | Corrections,
    known: Sequence[str],
    annotations: Sequence[WrittenAnnotation],
    failed: Sequence[tuple[str, str]],
    *,
    moved: tuple[dict[str, float], Literal["px", "mm"] | None] = ({}, None),
    threshold: float | None = None,
) -> WrittenAnnotations:
    """Write where the annotations come from."""
    elsewhere = {annotation.given for annotation in annotations} | {label for label, _ in failed}
    distances, unit = moved
    written = WrittenAnnotations(
        site=made.site,
        data=made.data,
        record=str(record.resolve()),
        method=made.method,
        round_number=made.round_number,
        model_sha256=made.model_sha256,
        decided=made.made,
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        moved=distances,
        unit=unit,
        threshold=threshold,
        annotations=tuple(annotations),
        as_given=tuple(label for label in known if label not in elsewhere),
        failed=tuple(failed),
    )
    write_record(folder / PROVENANCE_FILE, written)
    return written


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
