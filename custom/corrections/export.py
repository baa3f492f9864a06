"""Corrected annotations as new files with their provenance; the given ones stay as they are."""

import hashlib
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from ...transforms.errors import DataError
from ..data.description import SegmentationDescription
from ..data.json_record import JsonRecord, write_record
from ..data.masks import plain_name, read_classes, write_changed
from ..data.whole_files import private_file
from .in_files import (
    IgnoredObject,
    corrected_in_file,
    named_moves,
    pixels_in_use,
    segmentation_description,
    shift_of,
    unit_of,
)
from .kinds import CasesRelabelled, LesionsAdded, PixelsReplaced
from .model import CaseCorrection
from .pixels import CasePixels
from .store import StoredCorrections, mask_target

PROVENANCE_FILE = "provenance.json"


class ExportedAnnotation(JsonRecord):
    """Where one annotation comes from.

    Args:
        given: the given annotation, relative to the site's data; of a classification the image.
        given_sha256: hash of its file.
        file: the new file, relative to the folder; empty where it would hold the same classes.
        changed: pixels or voxels of another class than in the given one.
        ignored: objects that are probably missing; they are not written.
        relabelled: objects of the given one that have another class.
        given_class: the class in the datalist, of a classification.
        new_class: the class that counts, as above; empty where the case is left out of training.
    """

    given: str
    given_sha256: str
    file: str = ""
    changed: int = 0
    ignored: tuple[IgnoredObject, ...] = ()
    relabelled: int = 0
    given_class: str | None = None
    new_class: str | None = None


class ExportedAnnotations(JsonRecord):
    """The content of ``provenance.json``.

    Args:
        site: the site's name.
        data: the folder with the site's data.
        record: the folder with the record of the corrections.
        method: the method whose decision it was.
        round_number: the round before whose training it happened.
        model_sha256: hash of the model that was received for that round.
        decided: when, by the site's clock.
        written: when these files were.
        moved: by name of the class, by how far its contours were moved, positive outward.
        moved_by_annotator: the same by the number of the group of annotators; empty where all are corrected alike.
        moved_as_a_whole: by how much all classes were moved along each axis of a training sample; empty where they were
            not.
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
    moved_by_annotator: dict[int, dict[str, float]] = Field(default_factory=dict)
    moved_as_a_whole: tuple[float, ...] = ()
    unit: Literal["px", "mm"] | None
    threshold: float | None
    annotations: tuple[ExportedAnnotation, ...]
    as_given: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def export_corrections(folder: Path, stored: StoredCorrections) -> ExportedAnnotations:
    """Write the annotations that count otherwise than they were given, in the geometry of the given files.

    Other classes of a classification are listed in ``provenance.json``; there is no file to write for them.

    Args:
        folder: where the files are written, which exists and is empty.
        stored: the corrections.

    Returns:
        What was written to ``provenance.json``.

    Raises:
        DataError: if the site's description or the decisions on pixels cannot be read.
    """
    export = _Export(folder, stored)
    annotations: list[ExportedAnnotation] = []
    failed: list[tuple[str, str]] = []
    for position, case in enumerate(stored.corrections.cases):
        if not case.is_active:
            continue
        try:
            annotation = export.annotation(position, case)
        except (DataError, OSError) as error:
            failed.append((case.name, f"Site {stored.site}: {error}"))
            continue
        if annotation is not None:
            annotations.append(annotation)
    exported = export.provenance(annotations, failed)
    write_record(folder / PROVENANCE_FILE, exported)
    return exported


class _Export:
    """Writes the annotations of one site."""

    def __init__(self, folder: Path, stored: StoredCorrections) -> None:
        self._folder, self._stored = folder, stored
        self._data = Path(stored.corrections.data)
        self._description: SegmentationDescription | None = None
        self._pixels: dict[str, CasePixels] = {}
        if stored.corrections.changes_labels and stored.corrections.of(CasesRelabelled) is None:
            self._description = segmentation_description(self._data, stored.site)
            self._pixels = pixels_in_use(stored, self._description)

    def annotation(self, position: int, case: CaseCorrection) -> ExportedAnnotation | None:
        """Write the annotation of a case; None where it counts as it was given."""
        if case.mask is not None:
            return self._copied(position, case, self._stored.folder / case.mask.counting_file)
        if case.new_class is not None:
            return ExportedAnnotation(
                given=case.image,
                given_sha256=_sha256(self._data / case.image),
                given_class=case.new_class.given,
                new_class=case.new_class.becomes,
            )
        if self._description is None:
            return None
        if not case.label:
            rule = self._stored.corrections.consensus
            raise DataError(
                f"{case.image}: found several annotations, of which the rule {rule!r} makes a label; expected one "
                "file. `fedannot corrections show` has what is corrected."
            )
        return self._corrected(position, case, self._description)

    def _copied(self, position: int, case: CaseCorrection, source: Path) -> ExportedAnnotation:
        given = self._data / case.label
        digest = _sha256(given)
        target = mask_target(self._folder, position, plain_name(given))
        target = target.with_name(target.name + source.name.removeprefix(plain_name(source)))
        shutil.copyfile(source, private_file(target))
        return ExportedAnnotation(
            given=case.label,
            given_sha256=digest,
            file=str(target.relative_to(self._folder)),
            changed=0 if case.mask is None else case.mask.counting_voxels,
        )

    def _corrected(
        self, position: int, case: CaseCorrection, description: SegmentationDescription
    ) -> ExportedAnnotation | None:
        """Write one annotation, unless its classes stay as they are."""
        given, digest = self._data / case.label, _sha256(self._data / case.label)
        mask, pixels = read_classes(given, description), self._pixels.get(case.label, CasePixels())
        image = self._data / case.image
        result = corrected_in_file(self._stored.corrections.of_case(case.name), pixels, mask, image, given, description)
        changed, file = int(np.count_nonzero(result.classes != mask.classes)), ""
        if changed:
            target = mask_target(self._folder, position, plain_name(given))
            file = str(write_changed(target, given, result.classes, description).relative_to(self._folder))
        if not file and not result.ignored:
            return None
        return ExportedAnnotation(
            given=case.label,
            given_sha256=digest,
            file=file,
            changed=changed,
            ignored=result.ignored,
            relabelled=result.relabelled,
        )

    def provenance(self, annotations: list[ExportedAnnotation], failed: list[tuple[str, str]]) -> ExportedAnnotations:
        """Return where the annotations come from."""
        corrections = self._stored.corrections
        added, replaced = corrections.of(LesionsAdded), corrections.of(PixelsReplaced)
        threshold = None if replaced is None else replaced.foreground_threshold
        known = [*(case.name for case in corrections.cases), *(name for name, _ in corrections.failed)]
        changed = {annotation.given for annotation in annotations} | {name for name, _ in failed}
        origin, description = corrections.provenance, self._description
        return ExportedAnnotations(
            site=corrections.site,
            data=corrections.data,
            record=str(self._stored.folder.resolve()),
            method=origin.method,
            round_number=origin.round_number,
            model_sha256=origin.model_sha256,
            decided=origin.made,
            written=datetime.now(UTC).isoformat(timespec="seconds"),
            moved={} if description is None else named_moves(corrections, description),
            moved_by_annotator={
                number: {} if description is None else named_moves(corrections.of_group(number), description)
                for number in sorted(corrections.by_annotator)
            },
            moved_as_a_whole=shift_of(corrections),
            unit=None if description is None else unit_of(description),
            threshold=threshold if added is None else added.threshold,
            annotations=tuple(annotations),
            as_given=tuple(name for name in known if name not in changed),
            failed=tuple(failed),
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
