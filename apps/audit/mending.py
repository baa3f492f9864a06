"""A mask as the page of a review changes it: read and moved in the file's own grid, and stored as a new file."""

import hmac
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import numpy as np
from scipy import ndimage

from ...custom.audit.drawn_masks import (
    DRAWN_FILE,
    DrawnMask,
    check_drawn_inside,
    drawn_file,
    drawn_folder,
    read_drawn,
)
from ...custom.audit.findings import AuditedCase
from ...custom.data.description import SegmentationDescription
from ...custom.data.json_record import write_record
from ...custom.data.masks import read_classes, write_changed
from ...custom.data.whole_files import new_folder
from ...transforms.array_types import Classes, Components
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError
from ...transforms.move_contour import MoveContour
from ...transforms.printable import printable
from ...transforms.shift_mask import shifted_mask
from .case_files import CaseReader, sha256_of
from .mask_planes import MaskPlanes, Runs, runs_of, runs_of_changed, with_planes
from .posted import PostedMask, PostedMove
from .suggested_files import SuggestedFiles

# Of a suggestion's objects that a reader can take or leave one by one.
MAX_OBJECTS = 1000


class DrawnContent(TypedDict):
    """A stored mask: its id and the runs of the planes that differ from the given annotation."""

    id: str
    planes: dict[str, Runs]


class AnnotationContent(TypedDict):
    """The given annotation in its file's own planes, and the stored mask that counts in its place."""

    shown: str
    count: int
    height: int
    width: int
    spacing: list[float] | None
    classes: list[str]
    labels: list[int]
    planes: list[Runs]
    drawn: DrawnContent | None


class ObjectContent(TypedDict):
    """One connected part of what a suggestion changes."""

    number: int
    plane: int
    row: int
    column: int
    pixels: int
    becomes: int


class SuggestionContent(TypedDict):
    """What a suggestion changes: its objects, and by plane the runs of the whole mask and of the objects' numbers."""

    objects: list[ObjectContent]
    suggested: dict[str, Runs]
    numbers: dict[str, Runs]


@dataclass(frozen=True)
class _Given:
    """The given annotation of a case as it lies in its file, and its planes."""

    file: Path
    places: MaskPlanes
    planes: Classes
    shown: str


class Mending:
    """Reads, moves and stores masks for the page of a review; given files never change.

    Args:
        reader: of the audit.

    Raises:
        DataError: of every method, if a file cannot be read, or the annotations are classes and no masks.
    """

    def __init__(self, reader: CaseReader) -> None:
        self._reader = reader
        # One at a time: a volume takes much memory.
        self._alone = threading.Lock()

    def annotation(self, case: AuditedCase, mask: str) -> AnnotationContent:
        """Return the given annotation of a case in the planes of its file.

        Args:
            case: which case.
            mask: id of the stored mask that counts for it; empty for none.
        """
        with self._alone:
            given, description = self._given(case), self._description
            count, height, width = given.places.shape
            spacing = given.places.spacing
            drawn: DrawnContent | None = None
            if mask:
                stored = read_classes(stored_mask(self._reader, case, mask, given.shown), description).classes
                drawn = {"id": mask, "planes": runs_of_changed(given.planes, given.places.of_file(stored))}
            return {
                "shown": given.shown,
                "count": count,
                "height": height,
                "width": width,
                "spacing": None if spacing is None else list(spacing),
                "classes": [printable(name) for name in description.classes],
                "labels": sorted(set(description.labels.values())),
                "planes": [runs_of(plane) for plane in given.planes],
                "drawn": drawn,
            }

    def suggestion(self, case: AuditedCase, finding: str) -> SuggestionContent:
        """Return the objects of what a finding's suggestion changes, in the planes of the given file."""
        with self._alone:
            given = self._given(case)
            _, suggested = SuggestedFiles(self._reader, self._description).classes(case, [finding])
            after = given.places.of_file(suggested)
            numbers, count = label_lesions(given.planes != after)
            if count > MAX_OBJECTS:
                raise DataError(
                    f"{case.label}: its suggestion has {count} objects; expected at most {MAX_OBJECTS} to be chosen "
                    "one by one. Accept it as a whole, or draw."
                )
            planes = np.flatnonzero(numbers.any(axis=(1, 2))).tolist()
            return {
                "objects": _objects(numbers, count, after),
                "suggested": {str(plane): runs_of(after[plane]) for plane in planes},
                "numbers": {str(plane): runs_of(numbers[plane]) for plane in planes},
            }

    def moved(self, case: AuditedCase, posted: PostedMove) -> dict[str, Runs]:
        """Return the planes of a mask that change when its contours, or all of it, are moved; nothing is stored.

        Raises:
            DataError: or if the mask is none of this case, or the site has no such class.
        """
        with self._alone:
            given, planes = self._posted(case, posted)
            # A picture has one plane, and no distance of planes.
            is_picture = given.places.grid.affine is None
            result = planes[0] if is_picture else planes
            spacing = given.places.spacing
            lengths = None if spacing is None else (spacing[2], spacing[0], spacing[1])
            if posted.distance:
                labels = set(self._description.labels.values()) - {0}
                if posted.label is not None and posted.label not in labels:
                    raise DataError(f"{case.label}: found the class {posted.label}; expected one of {sorted(labels)}.")
                moves = dict.fromkeys(labels if posted.label is None else [posted.label], posted.distance)
                result = np.asarray(MoveContour(moves)(result, lengths))
            if any(posted.shift):
                vector = posted.shift if is_picture else (0.0, *posted.shift)
                result = shifted_mask(result, vector, lengths, fills_border=True)
            return runs_of_changed(planes, result[None] if is_picture else result)

    def store(self, case: AuditedCase, posted: PostedMask, reviewer: str) -> DrawnMask:
        """Store a mask as a new file in the form of the given one; return its record when both are on the disk.

        Raises:
            DataError: or if the mask is none of this case, is as given, or the given file has changed meanwhile.
        """
        with self._alone:
            given, planes = self._posted(case, posted)
            changed = int(np.count_nonzero(planes != given.planes))
            if not changed:
                raise DataError(f"{case.label}: the mask is as given; expected a change. To say so, keep it.")
            check_drawn_inside(self._reader.folder)
            classes, name = given.places.to_file(planes), secrets.token_hex(16)
            with new_folder(drawn_folder(self._reader.folder, name)) as folder:
                file = write_changed(folder / "mask", given.file, classes, self._description)
                if not np.array_equal(read_classes(file, self._description).classes, classes):
                    raise DataError(f"{case.label}: its file cannot hold this mask; nothing was stored.")
                record = DrawnMask.model_validate(
                    {
                        "id": name,
                        "site": self._reader.audit.site,
                        "image": case.image,
                        "label": case.label,
                        "finding": posted.finding,
                        "given_sha256": given.shown,
                        "file": file.name,
                        "mask_sha256": sha256_of(file),
                        "tools": posted.tools,
                        "changed": changed,
                        "reviewer": reviewer,
                        "time": datetime.now(UTC).isoformat(timespec="seconds"),
                    }
                )
                write_record(folder / DRAWN_FILE, record)
                check_shown(self._reader, case, posted.shown)
            return record

    @property
    def _description(self) -> SegmentationDescription:
        description = self._reader.description
        if not isinstance(description, SegmentationDescription):
            raise DataError(f"{self._reader.audit.site}: its images have classes; expected masks, to draw on them.")
        return description

    def _given(self, case: AuditedCase) -> _Given:
        description, file, shown = self._description, self._reader.files(case).label, self._reader.shown(case)
        assert isinstance(file, Path)
        mask = read_classes(file, description)
        places = MaskPlanes.of(file, mask, description)
        # What was read is what was hashed.
        check_shown(self._reader, case, shown)
        return _Given(file, places, places.of_file(mask.classes), shown)

    def _posted(self, case: AuditedCase, posted: PostedMask) -> tuple[_Given, Classes]:
        """The given annotation, and its planes as the page shows them."""
        if posted.finding not in {finding.id for finding in case.findings}:
            raise DataError(f"{case.image} has no finding {posted.finding!r}; load the page again.")
        check_shown(self._reader, case, posted.shown)
        given = self._given(case)
        size = (posted.count, posted.height, posted.width)
        if size != given.places.shape:
            raise DataError(
                f"{case.label}: found a mask of {_extent(size)} (planes, rows, columns); expected "
                f"{_extent(given.places.shape)}."
            )
        allowed = frozenset(self._description.labels_of_values.values())
        return given, with_planes(given.planes, posted.planes, allowed, case.label)


def check_shown(reader: CaseReader, case: AuditedCase, shown: str) -> None:
    """Check that a case's annotation is still the one that a page has shown.

    Raises:
        DataError: if it is not, or cannot be read.
    """
    if not hmac.compare_digest(shown.encode(), reader.shown(case).encode()):
        raise DataError(f"{case.label} is no longer the annotation that was shown; load the page again.")


def stored_mask(reader: CaseReader, case: AuditedCase, mask: str, shown: str) -> Path:
    """Return the file of a stored mask that somebody has drawn for a case.

    Args:
        reader: of the audit.
        case: which case.
        mask: its id.
        shown: hash of the given annotation as it is now.

    Raises:
        DataError: if there is none of this id, it was drawn for another case or annotation, or its file has changed.
    """
    record = read_drawn(reader.folder, mask)
    file = drawn_file(reader.folder, record)
    if (record.site, record.image, record.label) != (reader.audit.site, case.image, case.label):
        raise DataError(
            f"{file}: was drawn for {record.label} of {record.site}; expected one of {case.label} of "
            f"{reader.audit.site}."
        )
    if record.given_sha256 != shown:
        raise DataError(f"{file}: was drawn before {case.label} changed; draw it again.")
    if sha256_of(file) != record.mask_sha256:
        raise DataError(f"{file}: is not the mask that the review has stored; draw it again.")
    return file


def _objects(numbers: Components, count: int, after: Classes) -> list[ObjectContent]:
    """Where the objects are: each by a pixel of its own, in the plane that has most of it."""
    objects: list[ObjectContent] = []
    for number, box in enumerate(ndimage.find_objects(numbers, max_label=count), start=1):
        inside = numbers[box] == number
        plane = int(inside.sum(axis=(1, 2)).argmax())
        pixels = np.argwhere(inside[plane])
        row, column = pixels[np.abs(pixels - pixels.mean(axis=0)).sum(axis=1).argmin()].tolist()
        classes, amounts = np.unique(after[box][inside], return_counts=True)
        objects.append(
            {
                "number": number,
                "plane": plane + box[0].start,
                "row": row + box[1].start,
                "column": column + box[2].start,
                "pixels": int(inside.sum()),
                "becomes": int(classes[amounts.argmax()]),
            }
        )
    return objects


def _extent(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))
