"""What the page shows of a case: its planes, the annotations on them, and a crop of the worst finding."""

import base64
import io
from typing import TypedDict, final

import numpy as np
from PIL import Image

from ...custom.audit.findings import AuditedCase, Finding
from ...transforms.array_types import Array, Classes, SingleFloats
from ...transforms.errors import DataError
from ...transforms.printable import printable
from ..reports.shown_channels import shown_channels
from .case_files import CaseReader, ReadCase
from .contradictions import excluding_suggestions
from .mask_planes import Runs, runs_of

Box = tuple[int, int, int, int]

_QUALITY, _CROP_QUALITY = 90, 80
CROP_SIDE = 88
# Around a finding, so that it is seen where it lies.
_MARGIN = 0.6
_LEAST_MARGIN = 6
_OUTLINE = (255, 176, 0)


class FindingContent(TypedDict):
    """Where a finding is: its plane, the box around it there, and by plane the runs of what is suggested."""

    plane: int
    box: Box | None
    suggested: dict[str, Runs] | None


@final
class CaseContent(TypedDict):
    """What a page needs to draw a case; annotation and prediction as the runs of each plane, None without masks.

    ``excludes`` has by finding the others of the case whose suggestion cannot be accepted with its own.
    """

    shown: str
    width: int
    height: int
    aspect: float
    images: list[str]
    given: list[Runs] | None
    predicted: list[Runs] | None
    findings: list[FindingContent]
    excludes: dict[str, list[str]]


@final
class UnreadableCase(TypedDict):
    """Why a case cannot be drawn."""

    problem: str


def content_and_crop(reader: CaseReader, case: AuditedCase) -> tuple[CaseContent | UnreadableCase, str]:
    """Return what a page that holds all cases needs to draw one, as plain values; nothing a browser would ask for.

    Planes are those of the samples, or of a whole volume those across its last axis. Masks are lists of run lengths
    ``[class, length, …]`` over the rows of a plane.

    Args:
        reader: of the audit.
        case: which case.

    Returns:
        The content, of a case that cannot be read ``problem`` in words; and a small picture of its worst finding as an
        address with the data in it, empty if it cannot be read.
    """
    try:
        shown, read = reader.shown(case), reader.read(case)
        content = _content(case, shown, read)
        content["excludes"] = excluding_suggestions(case, read, is_class=reader.audit.task == "classification")
        return content, _crop(case, read)
    except (DataError, OSError) as error:
        return {"problem": printable(str(error))}, ""


def widened(box: Box, shape: tuple[int, ...]) -> Box:
    """Return a box, top, left, bottom and right, with some of what is around it in a plane of a shape."""
    top, left, bottom, right = box
    margin = max(_LEAST_MARGIN, round(_MARGIN * max(bottom - top, right - left)))
    return max(top - margin, 0), max(left - margin, 0), min(bottom + margin, shape[0]), min(right + margin, shape[1])


def encoded(image: Image.Image, *, quality: int) -> str:
    """Return a picture as an address with the data in it: pixels alone, and nothing else that its file may say."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def square_around(box: Box, shape: tuple[int, ...]) -> Box:
    """Return a square around the middle of a box, as far as a plane of a shape reaches."""
    top, left, bottom, right = box
    side = min(max(bottom - top, right - left), *shape[:2])
    first_row = min(max((top + bottom - side) // 2, 0), shape[0] - side)
    first_column = min(max((left + right - side) // 2, 0), shape[1] - side)
    return first_row, first_column, first_row + side, first_column + side


def with_outline(pixels: Classes, classes: Classes) -> Classes:
    """Return pixels ``(H, W, 3)`` with the innermost pixels of every object in a colour."""
    padded = np.pad(classes, 1, mode="edge")
    edge = np.zeros(classes.shape, dtype=bool)
    for neighbour in (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]):
        edge |= neighbour != classes
    drawn = pixels.copy()
    drawn[edge & (classes != 0)] = _OUTLINE
    return drawn


def crop_picture(pixels: Classes, classes: Classes | None) -> str:
    """Return a square part of a plane as a small picture, an address with the data in it.

    Args:
        pixels: grey ``(H, W)`` or colours ``(H, W, 3)``.
        classes: its annotation ``(H, W)``, whose outline is drawn; None where it has no mask.
    """
    coloured = np.repeat(pixels[..., None], 3, axis=-1) if pixels.ndim == 2 else pixels
    outlined = coloured if classes is None else with_outline(coloured, classes)
    crop = Image.fromarray(np.ascontiguousarray(outlined))
    return encoded(crop.resize((CROP_SIDE, CROP_SIDE), Image.Resampling.BILINEAR), quality=_CROP_QUALITY)


def _content(case: AuditedCase, shown: str, read: ReadCase) -> CaseContent:
    image = _grey_levels(shown_channels(_planes(read.image, read, channels=True), of_volume=read.spacing is not None))
    height, width = image.shape[1:3]
    content: CaseContent = {
        "shown": shown,
        "width": width,
        "height": height,
        "aspect": _aspect(read),
        "images": [encoded(Image.fromarray(np.ascontiguousarray(plane)), quality=_QUALITY) for plane in image],
        "given": None,
        "predicted": None,
        "findings": [_finding_content(finding, read) for finding in case.findings],
        "excludes": {},
    }
    if _has_masks(read):
        content["given"] = _runs_of_planes(_planes(read.given, read))
        content["predicted"] = None if read.prediction is None else _runs_of_planes(_planes(read.prediction, read))
    return content


def _crop(case: AuditedCase, read: ReadCase) -> str:
    image = _grey_levels(shown_channels(_planes(read.image, read, channels=True), of_volume=read.spacing is not None))
    number, box = _shown_plane(case.findings[0] if case.findings else None, read)
    top, left, bottom, right = square_around(widened(box, image.shape[1:3]), image.shape[1:3])
    part = (number, slice(top, bottom), slice(left, right))
    return crop_picture(image[part], _planes(read.given, read)[part] if _has_masks(read) else None)


def _finding_content(finding: Finding, read: ReadCase) -> FindingContent:
    """Where a finding is, and the planes in which its suggestion differs from the given annotation."""
    plane, box = _shown_plane(finding, read)
    content: FindingContent = {
        "plane": plane,
        "box": None if finding.place is None else widened(box, _plane_shape(read)),
        "suggested": None,
    }
    if finding.id in read.suggestions and _has_masks(read):
        given, suggested = _planes(read.given, read), _planes(read.suggestions[finding.id], read)
        differing = np.flatnonzero((given != suggested).any(axis=(1, 2)))
        content["suggested"] = {str(number): runs_of(suggested[number]) for number in differing.tolist()}
    return content


def _shown_plane(finding: Finding | None, read: ReadCase) -> tuple[int, Box]:
    """The plane that shows a finding best, and the box around it there: top, left, bottom and right."""
    height, width = _plane_shape(read)
    if finding is not None and finding.place is not None:
        place = finding.place
        middle = place.sample + place.samples // 2
        plane = (place.start[2] + place.stop[2]) // 2 if read.given.ndim == 4 else middle
        rows, columns = (place.start[0], place.stop[0]), (place.start[1], place.stop[1])
        if read.spacing is not None:
            # As planes of volumes are turned: columns become rows from below.
            rows, columns = (height - columns[1], height - columns[0]), rows
        return plane, (rows[0], columns[0], rows[1], columns[1])
    if not _has_masks(read):
        return 0, (0, 0, height, width)
    marked = _planes(read.given, read) != 0
    if finding is not None and finding.id in read.suggestions:
        suggested = _planes(read.suggestions[finding.id], read)
        marked = marked | (suggested != 0)
    return int(marked.sum(axis=(1, 2)).argmax()), (0, 0, height, width)


def _planes(array: Array, read: ReadCase, *, channels: bool = False) -> Array:
    """Planes ``(P, H, W)``, an image with its channels last, as they are shown: axes of volumes to the right and up."""
    planes = np.moveaxis(array, 1, -1) if channels else array
    if read.given.ndim == 4:
        planes = np.moveaxis(planes[0], 2, 0)
    return planes if read.spacing is None else np.rot90(planes, axes=(1, 2))


def _plane_shape(read: ReadCase) -> tuple[int, int]:
    height, width = read.image.shape[2:4]
    return (height, width) if read.spacing is None else (width, height)


def _aspect(read: ReadCase) -> float:
    """Height of a pixel as a multiple of its width, as it is shown."""
    return 1.0 if read.spacing is None else read.spacing[1] / read.spacing[0]


def _has_masks(read: ReadCase) -> bool:
    return read.given.ndim > 1


def _grey_levels(planes: SingleFloats) -> Classes:
    """Intensities ``(P, H, W[, 3])`` from the darkest to the brightest hundredth of the case as 0 to 255."""
    low, high = (float(np.quantile(planes, share)) for share in (0.01, 0.99))
    levels: Classes = (255 * ((planes - low) / max(high - low, 1e-6)).clip(0, 1)).round().astype(np.uint8)
    return levels


def _runs_of_planes(planes: Classes) -> list[Runs]:
    return [runs_of(plane) for plane in planes]
